"""Fine-tunes a detector on an encoder (Faster R-CNN, Sec. 4.3 of the paper) and scores it by the
rules of PASCAL VOC.

    cpc-tf detect --boxes=my_boxes --workdir=runs/mine/imagenette_128px/detect
    cpc-tf detect --preset=collages/detect --encoder=runs/photos/small/hub \\
      --workdir=runs/collages/small/detect

Writes to its workdir result.json, table.txt, derived.txt (which settings follow from what of the
data), curves.png (precision over recall), sheet.png (true and found boxes, worst misses first),
detections.json and detections/ (VOC's result files, which other tools can score), class_names.json,
and the files of every run.
"""

import dataclasses
import functools
from typing import ClassVar

from cpc_tf.boxes.config import CanvasConfig
from cpc_tf.core.settings import (
    LARGEST,
    WIDEST,
    ConfigError,
    Settings,
    count,
    fraction,
    rate,
    setting,
    width,
)
from cpc_tf.data.config import DataConfig
from cpc_tf.encoders.networks import OWN, check_new
from cpc_tf.encoders.released import MODULE
from cpc_tf.training.config import (
    ONLY_PRETRAINING,
    LabelledTrainingConfig,
    NumericsConfig,
    run_directory,
)


@dataclasses.dataclass(frozen=True)
class BackboneConfig(Settings):
    """The encoder below the detector."""

    encoder: str = setting(
        "",
        f"Encoder to fine-tune: {MODULE}; 'random': --backbone with new weights;"
        " 'random:MODULE': the untrained copy of a module of cpc-tf; 'graph:MODULE': such a"
        " module as its SavedModel",
        path=True,
        compared=False,
        needed="a TF-Hub module, e.g. --encoder=imagenette_128px",
    )
    backbone: str = setting(
        "resnet50",
        f"Architecture of the encoder if --encoder=random: {OWN}",
    )
    backbone_endpoint: str = setting(
        "feature_map",
        "Endpoint of the encoder to detect on, e.g. 'stack3'; empty: the encoder's output",
    )
    backbone_norm: str = setting(
        "none",
        "Normalization of --backbone_endpoint; block order 'pre' leaves 'stack1', 'stack2', ..."
        " without one",
        choices=("none", "layer", "channel"),
    )
    restore_kernel_norms: bool = setting(
        True,
        "Scale grown kernels before a norm back to the norm that they were drawn with",
        detail=True,
    )
    backbone_statistics: bool = setting(
        False, "Update the statistics of the encoder's batch norm", detail=True
    )
    recompute: bool = setting(
        False,
        "Recompute the encoder's activations in the backward pass: less memory, a third more time",
    )

    def check(self):
        check_new(self.backbone, "backbone")


@dataclasses.dataclass(frozen=True)
class AnchorConfig(Settings):
    """The anchors of each cell of the feature map."""

    anchor_sizes: str = setting(
        "",
        "Square roots of the areas of the anchors; empty: sizes that fit your objects as shown",
        unit="px",
        listed=float,
        above=0,
        maximum=10_000,
        derived=True,
    )
    anchor_ratios: str = setting(
        "0.5,1,2",
        "Aspect ratios of the anchors, height over width",
        listed=float,
        minimum=0.001,
        maximum=1000,
    )

    def check(self):
        if not self.numbers("anchor_ratios"):
            raise ConfigError(
                "anchor_ratios", "", "must be numbers separated by commas, at least one"
            )


regions = functools.partial(count, maximum=10**7)  # per image


@dataclasses.dataclass(frozen=True)
class RpnConfig(Settings):
    """The region proposal network."""

    rpn_width: int = width(1024, "Width of the region proposal network")
    rpn_samples: int = regions(
        256, "Anchors of an image in the loss of the region proposal network"
    )
    rpn_positive_fraction: float = fraction(
        0.5, "Maximum fraction of sampled anchors on objects", detail=True
    )
    rpn_positive_iou: float = fraction(0.7, "Overlap from which an anchor is positive", detail=True)
    rpn_negative_iou: float = fraction(
        0.3, "Overlap below which an anchor is background", detail=True
    )
    rpn_nms_iou: float = fraction(
        0.7, "Overlap from which one proposal suppresses another", detail=True
    )
    rpn_train_candidates: int = regions(
        12000, "Best anchors before the suppression of proposals in training"
    )
    rpn_train_proposals: int = regions(
        2000, "Maximum proposals after their suppression in training"
    )
    rpn_test_candidates: int = regions(
        6000, "Best anchors before the suppression of proposals in the test"
    )
    rpn_test_proposals: int = regions(1000, "Maximum proposals after their suppression in the test")


@dataclasses.dataclass(frozen=True)
class HeadConfig(Settings):
    """The head that classifies each region and corrects its box."""

    region_samples: int = regions(512, "Regions of an image in the loss of the region head")
    region_positive_fraction: float = fraction(
        0.25, "Maximum fraction of sampled regions on objects"
    )
    region_positive_iou: float = fraction(
        0.5, "Overlap from which a region is positive", detail=True
    )
    region_reduce: int = setting(
        1024, "Width that wider feature maps are reduced to; 0: off", minimum=0, maximum=WIDEST
    )
    region_pool: int = count(
        14, "Side of the grid that a region is pooled to", unit="cells", maximum=1000
    )
    region_points: int = count(
        2, "Sampling points per bin and axis of a pooled region", maximum=100, detail=True
    )
    region_chunk: int = count(
        128, "Regions pooled at a time: fewer need less memory; 0: all", minimum=0
    )
    region_head: str = setting(
        "residual",
        "Head of a region. 'residual': blocks and a mean; 'mlp': linear layers; 'encoder': the"
        " encoder's own stacks after --backbone_endpoint and a mean",
        choices=("residual", "mlp", "encoder"),
    )
    region_blocks: int = setting(
        3, "Number of blocks or layers of the region head", minimum=0, maximum=1000
    )
    region_width: int = width(2048, "Width of the blocks or layers of the region head")
    region_bottleneck: int = width(512, "Width inside a block of the region head")
    region_stride: int = count(2, "Stride of the first block of the region head", maximum=1000)
    region_norm: str = setting(
        "layer",
        "Normalization inside a block of the region head",
        choices=("layer", "channel", "batch", "none"),
    )


@dataclasses.dataclass(frozen=True)
class InferenceConfig(Settings):
    """Which boxes become detections."""

    detection_score: float = fraction(0.05, "Minimum probability of a detection")
    detection_nms_iou: float = fraction(
        0.5, "Overlap at which detections of a class suppress", detail=True
    )
    detections: int = regions(100, "Maximum detections of an image")


@dataclasses.dataclass(frozen=True)
class DetectorConfig(Settings):
    """All settings of `FasterRCNN`."""

    backbone: BackboneConfig = BackboneConfig()
    anchors: AnchorConfig = AnchorConfig()
    rpn: RpnConfig = RpnConfig()
    head: HeadConfig = HeadConfig()
    inference: InferenceConfig = InferenceConfig()


@dataclasses.dataclass(frozen=True)
class DetectorSgdConfig(Settings):
    """Training of encoder and detector."""

    learning_rate: float = rate(0.02, "Detector's learning rate for batches of --rate_batch images")
    rate_batch: int = count(
        16,
        "Batch size that --learning_rate is for; it scales with the batch; 0: it does not",
        minimum=0,
    )
    encoder_rate_factor: float = setting(
        0.1,
        "Encoder's learning rate, as a factor of the detector's; with --frozen_epochs both have it"
        " in the second phase",
        minimum=0,
        maximum=LARGEST,
    )
    momentum: float = fraction(0.9, "Momentum of SGD")
    weight_decay: float = setting(
        1e-4, "Factor on half the squared norm of the kernels", minimum=0, maximum=LARGEST
    )
    clip_norm: float = setting(
        0.0, "Maximum global norm of the gradient; 0: no clipping", minimum=0, maximum=LARGEST
    )
    warmup_steps: int = count(
        100, "Length of the linear warm-up of the learning rates", unit="steps", minimum=0
    )
    rate_drops: str = setting(
        "0.75,0.9167",
        "Fractions of a phase after which learning rates drop to a tenth; empty: never",
        source="C4: 18k and 22k of 24k steps",
        listed=float,
        above=0,
        maximum=0.9999,
    )


@dataclasses.dataclass(frozen=True)
class PhasesConfig(Settings):
    """Training in two phases: the detector on the frozen encoder, then both at a smaller rate (Sec.
    2.2).
    """

    frozen_epochs: float = setting(
        0.0,
        "Length of a first phase that trains only the detector; the rest of the run trains both; 0:"
        " no such phase",
        unit="epochs",
        minimum=0,
        maximum=1e6,
    )
    held_out: float = setting(
        0.1,
        "Fraction of the training images held out to choose the length of the second phase; 0: it"
        " is as given",
        minimum=0,
        maximum=0.9,
    )
    looks: int = count(
        10, "Tests on held-out images in the second phase", maximum=10_000, detail=True
    )
    patience: int = count(
        4, "Tests after the best one that end the choice of a length", maximum=1000, detail=True
    )


@dataclasses.dataclass(frozen=True)
class ScoringConfig(Settings):
    """The test of the detector."""

    test_split: str = setting(
        "test", "Split of the dataset that the detector is tested on at the end"
    )
    test_batch_size: int = count(
        4, "Images per device and step in the test", maximum=2**20, free_on_resume=True
    )
    detection_iou: float = fraction(
        0.5, "Overlap from which a detection is a true positive", detail=True
    )


@dataclasses.dataclass(frozen=True)
class DetectConfig(Settings):
    """All settings of `cpc-tf detect`."""

    HIDDEN: ClassVar = ONLY_PRETRAINING
    PRESETS: ClassVar = {"boxes": "boxes/detect"}

    workdir: str = run_directory()
    boxes: str = setting(
        "",
        "Folder of your images and their boxes, instead of --dataset: whether they are VOC's,"
        " COCO's, YOLO's or a table is found. Without --preset, --preset=boxes/detect is meant, and"
        " the rest follows from the data",
        compared=False,
    )
    data: DataConfig = DataConfig()
    negatives_without_xml: bool = setting(
        False, "Take images of --dataset=voc:PATH without an XML file for images without objects"
    )
    canvas: CanvasConfig = CanvasConfig()
    detector: DetectorConfig = DetectorConfig()
    sgd: DetectorSgdConfig = DetectorSgdConfig()
    phases: PhasesConfig = PhasesConfig()
    scoring: ScoringConfig = ScoringConfig()
    training: LabelledTrainingConfig = LabelledTrainingConfig()
    numerics: NumericsConfig = NumericsConfig()
