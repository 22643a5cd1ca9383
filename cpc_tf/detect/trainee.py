"""Fine-tuning of a detector: the model with its optimizer, and one step of it in a replica."""

from __future__ import annotations

import tensorflow as tf

from cpc_tf.detect.backbone import make_backbone
from cpc_tf.detect.config import DetectConfig, DetectorSgdConfig
from cpc_tf.detect.detections import Detections
from cpc_tf.detect.faster_rcnn import FasterRCNN
from cpc_tf.keras import keras
from cpc_tf.settings import ConfigError
from cpc_tf.training.strategy import wants_xla

# A run's file with the names of its classes, a JSON list: what the detector's labels mean.
CLASS_NAMES = "class_names.json"
LOSSES = ("loss", "rpn_class", "rpn_box", "region_class", "region_box")


class StepDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Linear warm-up, then constant, a tenth after each of some parts of the run."""

    def __init__(self, config: DetectorSgdConfig, batch_size: int, train_steps: int):
        super().__init__()
        self.rate = config.learning_rate * (batch_size / config.rate_batch if config.rate_batch else 1.0)
        self.warmup_steps, self.drops = config.warmup_steps, [part * train_steps for part in config.drops()]

    def __call__(self, step: tf.Tensor) -> tf.Tensor:
        step = tf.cast(step, tf.float32)
        rate = tf.constant(self.rate, tf.float32)
        for drop in self.drops:
            rate *= tf.where(step >= drop, 0.1, 1.0)
        return rate * tf.minimum(1.0, (step + 1.0) / self.warmup_steps) if self.warmup_steps else rate

    def get_config(self) -> dict:
        return {"rate": self.rate, "warmup_steps": self.warmup_steps, "drops": self.drops}


def build_detector(config: DetectConfig, num_classes: int) -> FasterRCNN:
    """The detector with all its variables: those of its encoder as it comes, the others from `config.training.seed`.

    Raises:
      ConfigError: if there is no such encoder, or it does not fit.
    """
    keras.utils.set_random_seed(config.training.seed)
    chosen, precision = config.detector.backbone, config.numerics.precision
    backbone = make_backbone(chosen, precision)
    try:
        model = FasterRCNN(backbone, num_classes, config.detector, precision)
    except ValueError as error:
        # Keras surrounds what a layer's call raises with lines of its own.
        lines = str(error).splitlines()
        own = [line for line in lines if line.startswith("--")]
        flags = f"--encoder={chosen.encoder} --backbone_endpoint={chosen.backbone_endpoint}"
        raise ConfigError(own[0] if own else f"{flags}: {' '.join(lines)[:500]}") from error
    for name in ("canvas_height", "canvas_width"):
        side = getattr(config.canvas, name)
        if side % model.stride:
            raise ConfigError(
                f"--{name}={side}: not a multiple of {model.stride}, the stride of --backbone_endpoint="
                f"{chosen.backbone_endpoint}; {side + -side % model.stride} would do"
            )
    return model


class DetectorTraining(tf.Module):
    """What a detection run saves, and what it does in a step; implements `training.loop.Trainee`.

    One SGD moves everything. The encoder has a smaller rate: its gradients are multiplied by the factor, which is the
    same for SGD with momentum.

    Args:
      config: the run's settings.
      num_classes: without the background.
      strategy: where it runs.
      train_steps: the length of the run, for the schedule.

    Raises:
      ConfigError: if the encoder does not fit, or the batch cannot be spread over the replicas.
    """

    # 'left_out': objects of an image that are too small or too many to be learned from.
    metric_names = (*LOSSES, "gradient_norm", "left_out")

    def __init__(self, config: DetectConfig, num_classes: int, strategy: tf.distribute.Strategy, train_steps: int):
        super().__init__(name="detector_training")
        replicas, batch = strategy.num_replicas_in_sync, config.training.batch_size
        if batch % replicas:
            raise ConfigError(f"--batch_size={batch}: not a multiple of the {replicas} replicas of --strategy")
        self.config, self.strategy = config, strategy
        self._rows = batch // replicas
        with strategy.scope():
            self.model = build_detector(config, num_classes)
            self._variables = [*self.model.encoder_variables, *self.model.detector_variables]
            self.optimizer = keras.optimizers.SGD(
                StepDecay(config.sgd, batch, train_steps), momentum=config.sgd.momentum, jit_compile=False
            )
            self.optimizer.build(self._variables)
            self.step = tf.Variable(
                0, trainable=False, dtype=tf.int64, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA
            )
        self.checkpoint = tf.train.Checkpoint(model=self.model, optimizer=self.optimizer, step=self.step)
        if wants_xla(config.numerics.xla, strategy):
            # Collectives stay outside of what is compiled here; a TPU compiles the whole step.
            self._gradients = tf.function(self._gradients, autograph=False, jit_compile=True)
            self.detect = tf.function(self.detect, autograph=False, jit_compile=True)

    def train_step(self, batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """One update, in replica context; `batch` as of `detection_pipeline.batches`.

        Returns float32 scalars, of this replica.
        """
        context, sgd = tf.distribute.get_replica_context(), self.config.sgd
        seed = tf.stack([self.config.training.seed % 2**31, tf.cast(self.step, tf.int32)])
        seed = tf.random.experimental.stateless_fold_in(seed, context.replica_id_in_sync_group)
        # Several workers' iterators do not know the batch size; everything below wants static shapes.
        batch = {name: tf.ensure_shape(x, [self._rows, *x.shape[1:]]) for name, x in batch.items()}
        gradients, metrics = self._gradients(
            batch["image"], batch["size"], batch["boxes"], batch["labels"], batch["difficult"], seed
        )
        gradients = context.all_reduce(tf.distribute.ReduceOp.MEAN, gradients)
        metrics["gradient_norm"] = tf.linalg.global_norm(gradients)
        if sgd.clip_norm:
            gradients, _ = tf.clip_by_global_norm(gradients, sgd.clip_norm, metrics["gradient_norm"])
        self.optimizer.apply_gradients(zip(self._decayed(gradients), self._variables), skip_gradients_aggregation=True)
        self.step.assign_add(1)
        metrics["left_out"] = tf.reduce_mean(tf.cast(batch["left_out"], tf.float32))
        return metrics

    def detect(self, images: tf.Tensor, sizes: tf.Tensor) -> Detections:
        """Images uint8 [B, H, W, 3] and their heights and widths [B, 2] -> what is on them, as in a test."""
        return self.model(tf.image.convert_image_dtype(images, tf.float32), sizes)

    def _gradients(self, images, sizes, boxes, labels, difficult, seed):
        with tf.GradientTape() as tape:
            losses = self.model.training_losses(
                tf.image.convert_image_dtype(images, tf.float32), sizes, boxes, labels, seed, difficult
            )
        gradients = tape.gradient(losses["loss"], self._variables, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        return gradients, {name: losses[name] for name in LOSSES}

    def _decayed(self, gradients: list[tf.Tensor]) -> list[tf.Tensor]:
        """With the gradients of the weight decay, and those of the encoder at its own rate."""
        sgd, of_encoder = self.config.sgd, len(self.model.encoder_variables)
        steps = []
        for place, (gradient, variable) in enumerate(zip(gradients, self._variables)):
            if variable.shape.rank > 1:
                gradient += sgd.weight_decay * variable
            steps.append(gradient * sgd.encoder_rate_factor if place < of_encoder else gradient)
        return steps
