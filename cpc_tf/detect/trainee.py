"""Fine-tuning of a detector: the model with its optimizer, and a training step of a replica."""

from __future__ import annotations

import tensorflow as tf

from cpc_tf.detect.config import DetectConfig, DetectorSgdConfig
from cpc_tf.detect.faster_rcnn import PROBE, FasterRCNN
from cpc_tf.detect.suppression import Detections
from cpc_tf.detect.targets import Draws
from cpc_tf.encoders.card import PIXELS
from cpc_tf.encoders.load import load_feature_maps
from cpc_tf.encoders.network import restore_kernel_norms
from cpc_tf.settings import ConfigError
from cpc_tf.training.optimizer import Schedule, sgd
from cpc_tf.training.trainee import Rows, Trainee

CLASS_NAMES = "class_names.json"  # file of a run: the names of its classes, a JSON list
LOSSES = ("loss", "rpn_class", "rpn_box", "region_class", "region_box")


def build_detector(config: DetectConfig, num_classes: int, xla: bool = False) -> FasterRCNN:
    """Returns the detector with all its variables: the encoder's as loaded, the others drawn from --seed.

    Args:
      config: of the run.
      num_classes: without the background.
      xla: see `load_feature_maps`.

    Raises:
      ConfigError: the encoder cannot be loaded, or does not fit.
    """
    backbone = config.detector.backbone
    if backbone.encoder == PIXELS:
        raise ConfigError(
            "--encoder=pixels: a detector needs an encoder; --encoder=random trains a new --backbone from the pixels on"
        )
    features = load_feature_maps(  # sets the random seed
        backbone.encoder,
        backbone.backbone_endpoint,
        PROBE,
        backbone=backbone.backbone,
        seed=config.training.seed,
        precision=config.numerics.precision,
        flag="backbone_endpoint",
        vectors=False,
        update_statistics=backbone.backbone_statistics,
        recompute=backbone.recompute,
        xla=xla,
    )
    if backbone.restore_kernel_norms and features.is_rebuilt:
        restore_kernel_norms(features.encoder)
    try:
        model = FasterRCNN(features, num_classes, config.detector, config.numerics.precision)
    except ValueError as error:
        flags = f"--encoder={backbone.encoder} --backbone_endpoint={backbone.backbone_endpoint}"
        raise ConfigError(f"{flags}: {' '.join(str(error).split())[:500]}") from error
    for name in ("canvas_height", "canvas_width"):
        side = getattr(config.canvas, name)
        if side % model.stride:
            raise ConfigError(
                f"--{name}={side}: not a multiple of {model.stride}, the stride of --backbone_endpoint="
                f"{backbone.backbone_endpoint}; {side + -side % model.stride} would do"
            )
    return model


def rate_of(config: DetectorSgdConfig, batch_size: int, train_steps: int) -> Schedule:
    """Returns the learning rate: proportional to the batch, divided by ten after each of the --rate_drops."""
    rate = config.learning_rate * (batch_size / config.rate_batch if config.rate_batch else 1.0)
    return Schedule(rate, config.warmup_steps, drops=[part * train_steps for part in config.numbers("rate_drops")])


class DetectorTraining(Trainee):
    """The detector with its optimizer, and one step of training.

    One SGD trains everything. The encoder's gradients are multiplied by --encoder_rate_factor, which for SGD with
    momentum is the same as a smaller learning rate.

    Raises:
      ConfigError: the encoder does not fit, or the batch cannot be divided among the replicas.
    """

    # 'left_out': objects per image that are not learned from, since they are too small or too many.
    metric_names = (*LOSSES, "gradient_norm", "left_out")

    def __init__(self, config: DetectConfig, num_classes: int, strategy: tf.distribute.Strategy, train_steps: int):
        batch_size = config.training.batch_size
        super().__init__(strategy, batch_size, config.numerics)
        self.config = config
        with strategy.scope():
            self.model = build_detector(config, num_classes, self._xla)
            self._xla = self._xla and self.model.backbone.compiles
            self.optimizer = sgd(rate_of(config.sgd, batch_size, train_steps), config.sgd.momentum)
        variables = [*self.model.encoder_variables, *self.model.detector_variables]
        self.set_up(
            {"optimizer": (self.optimizer, variables)},
            config.sgd.clip_norm,
            of_whole_batch="batch norm's statistics" if self.model.has_batch_norm else "",
            model=self.model,
        )
        self.detect = self.compiled(self.detect)

    def inputs(self, batch: dict[str, tf.Tensor]) -> tuple[tf.Tensor, ...]:
        """Returns the arguments of `losses`, from a batch of `detection_pipeline.batches`."""
        return tuple(batch[name] for name in ("image", "size", "boxes", "labels", "left_out"))

    def losses(self, rows: Rows, images, sizes, boxes, labels, left_out) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        images = tf.image.convert_image_dtype(images, tf.float32)
        seed = tf.stack([self.config.training.seed % 2**31, tf.cast(rows.step, tf.int32)])
        draws = Draws(tf.random.experimental.stateless_fold_in(seed, 0), self.batch_size, rows.first)
        losses = self.model.training_losses(images, sizes, boxes, labels, draws)
        metrics = {name: losses[name] for name in LOSSES}
        return losses["loss"], {**metrics, "left_out": tf.reduce_mean(tf.cast(left_out, tf.float32))}

    def scaled(self, gradients: list[tf.Tensor]) -> list[tf.Tensor]:
        """Adds the weight decay, and scales the encoder's gradients to its own rate."""
        sgd, encoder = self.config.sgd, len(self.model.encoder_variables)
        scaled = []
        for index, (gradient, variable) in enumerate(zip(gradients, self.trained)):
            if variable.shape.rank > 1:
                gradient += sgd.weight_decay * variable
            scaled.append(gradient * sgd.encoder_rate_factor if index < encoder else gradient)
        return scaled

    def detect(self, images: tf.Tensor, sizes: tf.Tensor) -> Detections:
        """Detects objects in images uint8 [B, H, W, 3] of heights and widths [B, 2]."""
        return self.model(tf.image.convert_image_dtype(images, tf.float32), sizes)
