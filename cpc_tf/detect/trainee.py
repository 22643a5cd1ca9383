"""Fine-tuning of a detector: the model with its optimizer, and a training step of a replica."""

from __future__ import annotations

import tensorflow as tf

from cpc_tf.core.settings import ConfigError
from cpc_tf.detect.config import DetectConfig, DetectorSgdConfig
from cpc_tf.detect.faster_rcnn import PROBE, FasterRCNN, Rest
from cpc_tf.detect.targets import Draws
from cpc_tf.encoders.config import PIXELS
from cpc_tf.encoders.load import LoadedEncoder, load_feature_maps
from cpc_tf.encoders.network import Network, restore_kernel_norms
from cpc_tf.training.optimizer import Schedule, sgd
from cpc_tf.training.phases import FINE_TUNED, FROZEN
from cpc_tf.training.strategy import wants_xla
from cpc_tf.training.trainee import BatchPosition, Trainee

WHOLE = ""  # the phase of a run that has one; it has no folder of its own
CLASS_NAMES = "class_names.json"  # file of a run: the names of its classes, a JSON list
CATEGORY_IDS = "category_ids.json"  # file of a run on COCO's JSON: {class: its id there}
LOSSES = ("loss", "rpn_class", "rpn_box", "region_class", "region_box")


def build_detector(
    config: DetectConfig, num_classes: int, strategy: tf.distribute.Strategy | None = None
) -> FasterRCNN:
    """Returns the detector with all its variables: the encoder's as loaded, the others drawn from
    --seed.

    Args:
      config: of the run.
      num_classes: without the background.
      strategy: where its variables are; None: on one device.

    Raises:
      ConfigError: the encoder cannot be loaded, or does not fit.
    """
    backbone = config.detector.backbone
    if backbone.encoder == PIXELS:
        raise ConfigError(
            "encoder",
            "pixels",
            "a detector needs an encoder; --encoder=random trains a new --backbone from scratch",
        )
    strategy = strategy or tf.distribute.get_strategy()
    with strategy.scope():
        features = load_feature_maps(  # sets the random seed
            backbone.encoder,
            backbone.backbone_endpoint,
            PROBE,
            backbone=backbone.backbone,
            seed=config.training.seed,
            precision=config.numerics.precision,
            frozen_by="--encoder_rate_factor=0" if config.sgd.encoder_rate_factor else "",
            flag="backbone_endpoint",
            vectors=False,
            update_statistics=backbone.backbone_statistics,
            recompute=backbone.recompute,
            xla=wants_xla(config.numerics.xla, strategy),
        )
        if backbone.restore_kernel_norms and features.is_rebuilt:
            restore_kernel_norms(features.encoder)
        rest = _rest(config, features) if config.detector.head.region_head == "encoder" else None
        try:
            model = FasterRCNN(
                features, num_classes, config.detector, config.numerics.precision, rest
            )
        except ValueError as error:
            flags = f"--encoder={backbone.encoder} --backbone_endpoint={backbone.backbone_endpoint}"
            raise ConfigError(f"{flags}: {' '.join(str(error).split())[:500]}") from error
    for name in ("canvas_height", "canvas_width"):
        side = getattr(config.canvas, name)
        if side % model.stride:
            raise ConfigError(
                name,
                side,
                f"not a multiple of {model.stride}, the stride of --backbone_endpoint="
                f"{backbone.backbone_endpoint}; {side + -side % model.stride} would do",
            )
    return model


def _rest(config: DetectConfig, features: LoadedEncoder) -> Rest:
    """Returns what follows --backbone_endpoint in the encoder. Raises ConfigError if nothing
    does.
    """
    backbone = config.detector.backbone
    encoder = features.encoder
    rest = encoder.after(backbone.backbone_endpoint) if isinstance(encoder, Network) else None
    if not rest:
        raise ConfigError(
            "region_head",
            "encoder",
            f"no stack follows --backbone_endpoint={backbone.backbone_endpoint} in"
            f" --encoder={backbone.encoder}; it must be a stack of a module of cpc-tf that is"
            " not the last, e.g. stack3 of a ResNet-152",
        )
    # Its batch norm does as that of the rest of the encoder.
    return lambda x, training: rest(x, training and backbone.backbone_statistics)


def rate_of(
    config: DetectorSgdConfig, batch_size: int, train_steps: int, phase: str = WHOLE
) -> Schedule:
    """Returns the detector's learning rate: proportional to the batch, a tenth after each of the
    `rate_drops`.

    In the second of two phases it is the encoder's, without a warm-up.
    """
    rate = config.learning_rate * (batch_size / config.rate_batch if config.rate_batch else 1.0)
    drops = [part * train_steps for part in config.numbers("rate_drops")]
    if phase == FINE_TUNED:
        return Schedule(rate * config.encoder_rate_factor, drops=drops)
    return Schedule(rate, config.warmup_steps, drops=drops)


class DetectorTraining(Trainee):
    """A detector with its optimizer, and one step of training.

    One SGD trains everything. In a run of one phase the encoder's gradients are multiplied by
    --encoder_rate_factor, which for SGD with momentum is the same as a smaller learning rate.

    Args:
      config: of the run.
      model: the detector; phases share it.
      strategy: where the model is.
      train_steps: length of the phase, for its learning rate.
      phase: FROZEN trains all but the encoder.

    Raises:
      ConfigError: the batch cannot be divided among the replicas.
    """

    # 'left_out': objects per image that are not learned from, since they are too small or too many.
    metric_names = (*LOSSES, "gradient_norm", "left_out")

    def __init__(
        self,
        config: DetectConfig,
        model: FasterRCNN,
        strategy: tf.distribute.Strategy,
        train_steps: int,
        phase: str = WHOLE,
    ):
        batch_size = config.training.batch_size
        super().__init__(strategy, batch_size, config.numerics)
        self.config = config
        self.model = model
        self._xla = self._xla and model.backbone.compiles
        with strategy.scope():
            self.optimizer = sgd(
                rate_of(config.sgd, batch_size, train_steps, phase), config.sgd.momentum
            )
        encoder = [] if phase == FROZEN else model.encoder_variables
        # of the variables, the first ones
        self._at_smaller_rate = len(encoder) if phase == WHOLE else 0
        self.set_up(
            {"optimizer": (self.optimizer, [*encoder, *model.detector_variables])},
            config.sgd.clip_norm,
            of_whole_batch="batch norm's statistics" if model.has_batch_norm else "",
            model=model,
        )

    def inputs(self, batch: dict[str, tf.Tensor]) -> tuple[tf.Tensor, ...]:
        """Returns the arguments of `losses`, from a batch of `canvas.batches`."""
        return tuple(batch[name] for name in ("image", "size", "boxes", "labels", "left_out"))

    def losses(
        self, rows: BatchPosition, images, sizes, boxes, labels, left_out
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        images = tf.image.convert_image_dtype(images, tf.float32)
        seed = tf.stack([self.config.training.seed % 2**31, tf.cast(rows.step, tf.int32)])
        draws = Draws(
            tf.random.experimental.stateless_fold_in(seed, 0), self.batch_size, rows.first
        )
        losses = self.model.training_losses(images, sizes, boxes, labels, draws)
        metrics = {name: losses[name] for name in LOSSES}
        return losses["loss"], {
            **metrics,
            "left_out": tf.reduce_mean(tf.cast(left_out, tf.float32)),
        }

    def scaled(self, gradients: list[tf.Tensor]) -> list[tf.Tensor]:
        """Adds the weight decay, and scales the encoder's gradients to its own rate."""
        sgd = self.config.sgd
        scaled = []
        for index, (gradient, variable) in enumerate(zip(gradients, self.trained)):
            if variable.shape.rank > 1:
                gradient += sgd.weight_decay * variable
            scaled.append(
                gradient * sgd.encoder_rate_factor if index < self._at_smaller_rate else gradient
            )
        return scaled
