"""Settings of detection. Defaults are the public C4 recipe: stride-16 features and a residual stack per region."""

import dataclasses

from cpc_tf.data.config import CanvasConfig, DataConfig
from cpc_tf.encoders.networks import NETWORKS
from cpc_tf.settings import ConfigError, Settings, setting
from cpc_tf.training.config import NumericsConfig, TrainingConfig


@dataclasses.dataclass(frozen=True)
class BackboneConfig(Settings):
    """Which encoder feeds the detector, and how."""

    encoder: str = setting(
        "",
        "TF-Hub module (directory or handle), fine-tuned; 'random': --backbone with new weights in its place; "
        "'random:MODULE': the untrained twin of one of ours",
    )
    backbone: str = setting("resnet50", "architecture of 'random'", choices=tuple(NETWORKS))
    backbone_endpoint: str = setting(
        "feature_map", "endpoint of the encoder that feeds the detector, e.g. 'stack3', 'feature_map'; '': its output"
    )
    backbone_norm: str = setting(
        "none",
        "normalization of that endpoint; an encoder of block order 'pre' has none on 'stack1', 'stack2', ...",
        choices=("none", "layer", "channel"),
    )
    backbone_statistics: bool = setting(
        False, "go on averaging the statistics of the encoder's batch norm, if it has one", source="C4: frozen"
    )


def _numbers(flag: str, text: str, example: str) -> list[float]:
    try:
        return [float(word) for word in text.split(",")]
    except ValueError:
        raise ConfigError(f"--{flag}={text}: numbers with commas between them, e.g. {example}") from None


@dataclasses.dataclass(frozen=True)
class AnchorConfig(Settings):
    """The boxes that each cell of the feature map proposes from."""

    anchor_sizes: str = setting("32,64,128,256,512", "square roots of the areas", unit="px", source="C4")
    anchor_ratios: str = setting("0.5,1,2", "heights over widths", source="C4")

    def check(self):
        for name in ("anchor_sizes", "anchor_ratios"):
            if not all(number > 0 for number in self.numbers(name)):
                raise ConfigError(f"--{name}={getattr(self, name)}: must be above 0, each of them")

    def numbers(self, name: str) -> list[float]:
        """The numbers of a list such as '0.5,1,2'. Raises ConfigError if there are none."""
        return _numbers(name, getattr(self, name), "0.5,1,2")


@dataclasses.dataclass(frozen=True)
class RpnConfig(Settings):
    """The region proposal network."""

    rpn_width: int = setting(1024, "channels of its 3x3 convolution", source="C4", minimum=1)
    rpn_samples: int = setting(256, "anchors of an image in the loss", source="C4", minimum=1)
    rpn_positive_fraction: float = setting(0.5, "of them on objects at most", source="C4", minimum=0, maximum=1)
    rpn_positive_iou: float = setting(0.7, "an anchor from here on is an object's", source="C4", above=0, maximum=1)
    rpn_negative_iou: float = setting(0.3, "an anchor below is background", source="C4", minimum=0, maximum=1)
    rpn_nms_iou: float = setting(0.7, "of two proposals that overlap so much one goes", source="C4", above=0, maximum=1)
    rpn_train_candidates: int = setting(12000, "best anchors that go into that suppression", source="C4", minimum=1)
    rpn_train_proposals: int = setting(2000, "and come out of it, in training", source="C4", minimum=1)
    rpn_test_candidates: int = setting(6000, "the same in the test", source="C4", minimum=1)
    rpn_test_proposals: int = setting(1000, "the same in the test", source="C4", minimum=1)

    def check(self):
        if self.rpn_negative_iou > self.rpn_positive_iou:
            raise ConfigError(
                f"--rpn_negative_iou={self.rpn_negative_iou}: above --rpn_positive_iou={self.rpn_positive_iou}"
            )


@dataclasses.dataclass(frozen=True)
class HeadConfig(Settings):
    """What classifies each region and moves its box."""

    learn_difficult: bool = setting(
        True, "learn from objects marked difficult as from others; else what lies on them is not learned from"
    )
    region_samples: int = setting(512, "regions of an image in the loss", source="C4", minimum=1)
    region_positive_fraction: float = setting(0.25, "of them on objects at most", source="C4", minimum=0, maximum=1)
    region_positive_iou: float = setting(0.5, "a region from here on is an object's", source="C4", above=0, maximum=1)
    region_reduce: int = setting(
        1024, "1x1 convolution to so many channels first, where the encoder has more; 0: never", minimum=0
    )
    region_pool: int = setting(14, "side of the grid a region is pooled to", unit="cells", source="C4", minimum=1)
    region_points: int = setting(2, "sampling points per bin and axis of that pooling", minimum=1)
    region_chunk: int = setting(
        128, "regions pooled at a time: fewer take less memory; 0: all", unit="regions", minimum=0
    )
    region_head: str = setting(
        "residual", "'residual': bottleneck blocks; 'mlp': linear layers", source="C4", choices=("residual", "mlp")
    )
    region_blocks: int = setting(3, "blocks or linear layers", source="C4", minimum=0)
    region_width: int = setting(2048, "their width", source="C4", minimum=1)
    region_bottleneck: int = setting(512, "width inside a block", source="C4", minimum=1)
    region_stride: int = setting(2, "of the first block", source="C4", minimum=1)
    region_norm: str = setting(
        "layer", "normalization inside the blocks, of each region", choices=("layer", "channel", "batch", "none")
    )


@dataclasses.dataclass(frozen=True)
class InferenceConfig(Settings):
    """What becomes a detection."""

    detection_score: float = setting(0.05, "least probability", source="C4", minimum=0, maximum=1)
    detection_nms_iou: float = setting(
        0.5, "of two detections of a class that overlap so much one goes", source="C4", above=0, maximum=1
    )
    detections: int = setting(100, "of an image at most", source="C4", minimum=1)


@dataclasses.dataclass(frozen=True)
class DetectorConfig(Settings):
    """Everything `FasterRCNN` can be told."""

    backbone: BackboneConfig = BackboneConfig()
    anchors: AnchorConfig = AnchorConfig()
    rpn: RpnConfig = RpnConfig()
    head: HeadConfig = HeadConfig()
    inference: InferenceConfig = InferenceConfig()


@dataclasses.dataclass(frozen=True)
class DetectorSgdConfig(Settings):
    """How encoder and detector are trained. The schedule is written in parts of the run, for any length."""

    learning_rate: float = setting(0.02, "of the detector, for batches of --rate_batch images", source="C4", above=0)
    rate_batch: int = setting(
        16, "rates grow in proportion to --batch_size from here; 0: they are as written", source="C4", minimum=0
    )
    encoder_rate_factor: float = setting(0.1, "rate of the encoder, over the detector's", minimum=0)
    momentum: float = setting(0.9, "of SGD", source="C4", minimum=0, maximum=1)
    weight_decay: float = setting(1e-4, "times half the square of kernels", source="C4", minimum=0)
    clip_norm: float = setting(0.0, "largest global norm of the gradient; 0: any", minimum=0)
    warmup_steps: int = setting(100, "linear warm-up", unit="steps", source="C4", minimum=0)
    rate_drops: str = setting(
        "0.75,0.9167",
        "parts of the run after which the rates fall to a tenth; empty: never",
        source="C4: 18k and 22k of 24k steps",
    )

    def check(self):
        for part in self.drops():
            if not 0 < part < 1:
                raise ConfigError(f"--rate_drops={self.rate_drops}: parts of the run, between 0 and 1")

    def drops(self) -> list[float]:
        """The parts of the run after which the rates fall."""
        return _numbers("rate_drops", self.rate_drops, "0.75,0.9167") if self.rate_drops else []


@dataclasses.dataclass(frozen=True)
class ScoringConfig(Settings):
    """What the detector is tested on, and how."""

    test_split: str = setting("test", "part of the dataset to test on, in the end")
    test_batch_size: int = setting(4, "images at a time and device in the test", minimum=1, free_on_resume=True)
    detection_iou: float = setting(0.5, "overlap at which a detection is right", source="VOC", above=0, maximum=1)


@dataclasses.dataclass(frozen=True)
class DetectConfig(Settings):
    """Everything `python -m cpc_tf.detect` can be told."""

    workdir: str = setting("", "directory of the run; a run that stands there is resumed", free_on_resume=True)
    data: DataConfig = DataConfig()
    canvas: CanvasConfig = CanvasConfig()
    detector: DetectorConfig = DetectorConfig()
    sgd: DetectorSgdConfig = DetectorSgdConfig()
    scoring: ScoringConfig = ScoringConfig()
    training: TrainingConfig = TrainingConfig()
    numerics: NumericsConfig = NumericsConfig()
