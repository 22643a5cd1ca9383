"""Settings of the detector. Defaults are the public C4 recipe: stride-16 features and a residual stack per region."""

import dataclasses

from cpc_tf.settings import ConfigError, Settings, setting


@dataclasses.dataclass(frozen=True)
class BackboneConfig(Settings):
    """How the exported encoder feeds the detector."""

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
        text = getattr(self, name)
        try:
            return [float(word) for word in text.split(",")]
        except ValueError:
            raise ConfigError(f"--{name}={text}: numbers with commas between them, e.g. 0.5,1,2") from None


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
    """What becomes a detection, and when it is right."""

    detection_score: float = setting(0.05, "least probability", source="C4", minimum=0, maximum=1)
    detection_nms_iou: float = setting(
        0.5, "of two detections of a class that overlap so much one goes", source="C4", above=0, maximum=1
    )
    detections: int = setting(100, "of an image at most", source="C4", minimum=1)
    detection_iou: float = setting(0.5, "overlap at which a detection is right", source="VOC", above=0, maximum=1)


@dataclasses.dataclass(frozen=True)
class DetectorConfig(Settings):
    """Everything `FasterRCNN` can be told."""

    backbone: BackboneConfig = BackboneConfig()
    anchors: AnchorConfig = AnchorConfig()
    rpn: RpnConfig = RpnConfig()
    head: HeadConfig = HeadConfig()
    inference: InferenceConfig = InferenceConfig()
