"""The table of objectives, and their settings: what is known of an objective before TensorFlow is imported."""

from __future__ import annotations

import dataclasses
import pkgutil
from typing import ClassVar

from cpc_tf.core.settings import (
    LARGEST,
    ConfigError,
    Settings,
    count,
    fraction,
    rate,
    setting,
    width,
)
from cpc_tf.data.config import GeometryConfig
from cpc_tf.encoders.networks import NETWORKS


@dataclasses.dataclass(frozen=True)
class ObjectiveSettings(Settings):
    """Base of the settings of an objective, which may have none. Names of flags are unique among all objectives."""

    MODEL: ClassVar[str]  # 'module:class', an `Objective`
    TITLE: ClassVar[str]  # its name in reports, where nothing more is known than the objective
    PATCHES: ClassVar[bool] = (
        True  # whether it sees the patches of a grid, not whole images or crops of them
    )
    NEGATIVES: ClassVar[bool] = False  # whether it compares images: a `Contrastive`
    NEEDS: ClassVar[str] = (
        ""  # what its encoder must see, the end of its name: `Entry.sees`; '': any does
    )
    FEWEST: ClassVar[int] = (
        1  # images of a batch, or of a group that gives negatives, from which it learns
    )

    def check_batch(self, batch_size: int, group: int) -> None:
        """Raises ConfigError if nothing is learned from so few images; 0: not known yet, or a group of all."""
        for flag, images in {"batch_size": batch_size, "negative_images": group}.items():
            if 0 < images < self.FEWEST:
                raise ConfigError(
                    flag,
                    images,
                    f"{self.TITLE} learns from differences between images; take {self.FEWEST} or more",
                )

    def check_encoder(self, encoder: str) -> None:
        """Raises ConfigError if an encoder of this name does not see what the objective needs."""
        if self.NEEDS and NETWORKS[encoder].sees != self.NEEDS:
            fitting = [name for name, entry in NETWORKS.items() if entry.sees == self.NEEDS]
            raise ConfigError(
                "encoder", encoder, f"{self.TITLE} needs {', '.join(fitting[:-1])} or {fitting[-1]}"
            )

    def method(self, augment: str) -> str:
        """Returns how a training with these settings and this augmentation policy is called in cards and reports."""
        return self.TITLE

    def check_images(self, geometry: GeometryConfig) -> None:
        """Raises ConfigError if the objective cannot be computed on images of this geometry."""
        # What is built on an exported module reads its geometry: here a grid of one patch, the whole image.
        if not self.PATCHES and geometry.patch_size != geometry.image_size:
            raise ConfigError(
                "patch_size",
                geometry.patch_size,
                "this objective sees whole images, as a grid of one patch; use "
                f"--patch_size={geometry.image_size}, the --image_size",
            )


@dataclasses.dataclass(frozen=True)
class CPCConfig(ObjectiveSettings):
    """The CPC listing of appendix A."""

    MODEL = "cpc_tf.objectives.cpc:CPC"
    TITLE = "CPC"
    NEGATIVES = True

    directions: int = setting(
        4,
        "Directions of CPC. 1: down; 2: down and up; 4: down, up, right and left",
        source="Sec. 4.1",
        choices=(1, 2, 4),
    )
    steps_to_ignore: int = setting(
        2,
        "Rows that CPC skips, since their patches overlap the context",
        source="App. A",
        minimum=0,
        maximum=10_000,
    )
    steps_to_predict: int = count(
        3, "Offset of the last row that CPC predicts", source="App. A", maximum=10_000
    )
    target_dim: int = width(64, "Dimension of CPC's targets and predictions", source="App. A")
    emb_scale: float = rate(0.1, "Scale of CPC's predictions", source="App. A")
    context_blocks: int = count(
        5, "Residual blocks of CPC's context network", source="App. A", maximum=1000
    )
    context_dim: int = width(256, "Width inside a block of CPC's context network", source="App. A")
    reduction: str = setting(
        "mean",
        "Reduction of CPC's losses of one offset, direction and group",
        choices=("mean", "sum"),
    )

    def method(self, augment: str) -> str:
        if (self.directions, augment) == (1, "v1"):
            return "CPC v1"
        if self.directions == 4 and augment in (
            "full",
            "small_patches",
        ):  # patch augmentation, and its small form
            return "CPC v2"
        return f"CPC, {self.directions} direction{'s' * (self.directions > 1)}"

    def check(self):
        if self.steps_to_predict <= self.steps_to_ignore:
            raise ConfigError(
                "steps_to_predict",
                self.steps_to_predict,
                "nothing left to predict after "
                f"--steps_to_ignore={self.steps_to_ignore}; use {self.steps_to_ignore + 1} or more",
            )

    def check_images(self, geometry: GeometryConfig) -> None:
        super().check_images(geometry)
        if geometry.grid <= self.steps_to_predict:
            raise ConfigError(
                "steps_to_predict",
                self.steps_to_predict,
                f"the grid has only {geometry.grid} rows; use a smaller --patch_stride or fewer steps",
            )


@dataclasses.dataclass(frozen=True)
class InstanceConfig(ObjectiveSettings):
    """The contrastive loss of Chen et al. 2020."""

    MODEL = "cpc_tf.objectives.instance:Instance"
    TITLE = "Instance discrimination"
    PATCHES = False
    FEWEST = 2
    NEGATIVES = True

    temperature: float = rate(0.1, "Divisor of cosine similarities", source="Chen et al. 2020")
    projection_dim: int = width(128, "Dimension of what is compared", source="Chen et al. 2020")


@dataclasses.dataclass(frozen=True)
class RelativePositionConfig(ObjectiveSettings):
    """Relative position has no settings."""

    MODEL = "cpc_tf.objectives.relative_position:RelativePosition"
    TITLE = "Relative position"

    def check_images(self, geometry: GeometryConfig) -> None:
        super().check_images(geometry)
        if geometry.grid < 3:
            raise ConfigError(
                "patch_stride",
                geometry.patch_stride,
                f"the grid has only {geometry.grid} rows, and a patch with "
                "eight neighbours needs 3; use a smaller --patch_stride or --patch_size",
            )


@dataclasses.dataclass(frozen=True)
class RotationConfig(ObjectiveSettings):
    """Rotation has no settings."""

    MODEL = "cpc_tf.objectives.rotation:Rotation"
    TITLE = "Rotation"
    PATCHES = False


@dataclasses.dataclass(frozen=True)
class AMDIMConfig(ObjectiveSettings):
    """Prediction across views and depths."""

    MODEL = "cpc_tf.objectives.amdim:AMDIM"
    TITLE = "AMDIM"
    PATCHES = False
    FEWEST = 2
    NEGATIVES = True

    # --n_rkhs in README.md of the authors' code, github.com/Philip-Bachman/amdim-public; larger networks: 2048, 2560.
    amdim_dim: int = width(
        1536, "Dimension of what is compared, at each depth", source="Bachman et al. 2019, code"
    )
    amdim_clip: float = rate(
        20.0, "Soft limit of scores, before their softmax", source="Bachman et al. 2019"
    )
    amdim_penalty: float = setting(
        0.04, "Weight of squared scores", source="Bachman et al. 2019", minimum=0, maximum=LARGEST
    )


@dataclasses.dataclass(frozen=True)
class InstanceBankConfig(ObjectiveSettings):
    """Instance discrimination with a memory bank."""

    MODEL = "cpc_tf.objectives.instance_bank:InstanceBank"
    TITLE = "Instance discrimination, memory bank"
    PATCHES = False

    bank_dim: int = width(128, "Dimension of the vectors of the bank", source="Wu et al. 2018")
    bank_temperature: float = rate(
        0.07, "Divisor of cosine similarities to the bank", source="Wu et al. 2018"
    )
    bank_negatives: int = count(
        4096,
        "Negatives: vectors of the bank that are drawn for each image; 0: all (full softmax)",
        source="Wu et al. 2018",
        minimum=0,
    )
    bank_momentum: float = fraction(
        0.5, "Weight of a vector in the bank when its image is seen again"
    )
    bank_proximal: float = setting(
        1.0,
        "Weight of the squared distance to an image's vector in the bank",
        minimum=0,
        maximum=LARGEST,
    )


@dataclasses.dataclass(frozen=True)
class MoCoConfig(ObjectiveSettings):
    """Momentum contrast, first version."""

    MODEL = "cpc_tf.objectives.moco:MoCo"
    TITLE = "MoCo"
    PATCHES = False

    moco_dim: int = width(128, "Dimension of queries and keys", source="He et al. 2019")
    moco_temperature: float = rate(
        0.07, "Divisor of the similarities of queries and keys", source="He et al. 2019"
    )
    moco_momentum: float = fraction(
        0.999, "Momentum of the encoder of the keys", source="He et al. 2019"
    )
    queue_length: int = count(
        65_536, "Keys of earlier batches that are negatives", source="He et al. 2019"
    )


@dataclasses.dataclass(frozen=True)
class BYOLConfig(ObjectiveSettings):
    """Bootstrap your own latent."""

    MODEL = "cpc_tf.objectives.byol:BYOL"
    TITLE = "BYOL"
    PATCHES = False
    FEWEST = 2

    byol_hidden: int = width(
        4096, "Units of the hidden layers of BYOL's heads", source="Grill et al. 2020"
    )
    byol_dim: int = width(256, "Dimension of BYOL's projections", source="Grill et al. 2020")
    byol_momentum: float = fraction(
        0.996,
        "Momentum of the target network at the start; it rises to 1",
        source="Grill et al. 2020",
    )


@dataclasses.dataclass(frozen=True)
class VICRegConfig(ObjectiveSettings):
    """Variance, invariance, covariance."""

    MODEL = "cpc_tf.objectives.vicreg:VICReg"
    TITLE = "VICReg"
    PATCHES = False
    FEWEST = 2

    vicreg_dim: int = width(
        8192, "Units of each layer of VICReg's expander", source="Bardes et al. 2022"
    )
    vicreg_invariance: float = rate(
        25.0, "Weight of the distance of two views", source="Bardes et al. 2022"
    )
    vicreg_variance: float = rate(
        25.0, "Weight of the hinge on standard deviations", source="Bardes et al. 2022"
    )
    vicreg_covariance: float = rate(1.0, "Weight of the covariances", source="Bardes et al. 2022")


@dataclasses.dataclass(frozen=True)
class ExemplarConfig(ObjectiveSettings):
    """Exemplar, in its triplet form."""

    MODEL = "cpc_tf.objectives.exemplar:Exemplar"
    TITLE = "Exemplar"
    PATCHES = False
    FEWEST = 2
    NEGATIVES = True

    exemplar_dim: int = width(
        4096, "Dimension of what is compared", source="Doersch & Zisserman 2017"
    )
    exemplar_margin: float = rate(
        0.5,
        "By how much another image is to be farther than the other view",
        source="Doersch & Zisserman 2017",
    )


@dataclasses.dataclass(frozen=True)
class DeepClusterConfig(ObjectiveSettings):
    """Classes that k-means finds between epochs."""

    MODEL = "cpc_tf.objectives.deep_cluster:DeepCluster"
    TITLE = "DeepCluster"
    PATCHES = False

    clusters: int = count(10_000, "Clusters of k-means", source="Caron et al. 2018", minimum=2)
    cluster_dim: int = width(
        256, "Principal components that k-means sees", source="Caron et al. 2018"
    )


@dataclasses.dataclass(frozen=True)
class LocalAggregationConfig(ObjectiveSettings):
    """Close neighbours of a bank among its background neighbours."""

    MODEL = "cpc_tf.objectives.local_aggregation:LocalAggregation"
    TITLE = "Local aggregation"
    PATCHES = False

    aggregation_dim: int = width(
        128, "Dimension of the vectors of the bank", source="Zhuang et al. 2019"
    )
    aggregation_temperature: float = rate(
        0.07, "Divisor of cosine similarities", source="Zhuang et al. 2019"
    )
    aggregation_momentum: float = fraction(
        0.5,
        "Weight of a vector in the bank when its image is seen again",
        source="Zhuang et al. 2019",
    )
    background: int = count(
        4096, "Background neighbours: the nearest in the bank", source="Zhuang et al. 2019"
    )
    # The authors' values: 3 of an AlexNet, 10 of a ResNet-50.
    clusterings: int = count(
        3, "Clusterings whose clusters are close neighbours", source="Zhuang et al. 2019, code"
    )
    clusters_of_each: int = count(
        30_000, "Clusters of each clustering", source="Zhuang et al. 2019, code", minimum=2
    )


@dataclasses.dataclass(frozen=True)
class PIRLConfig(ObjectiveSettings):
    """An image and its jigsaw against a bank."""

    MODEL = "cpc_tf.objectives.pirl:PIRL"
    TITLE = "PIRL"
    PATCHES = False

    pirl_dim: int = width(
        128, "Dimension of the vectors of the bank", source="Misra & van der Maaten 2019"
    )
    pirl_temperature: float = rate(
        0.07, "Divisor of cosine similarities", source="Misra & van der Maaten 2019"
    )
    pirl_negatives: int = count(
        32_000,
        "Negatives: vectors of the bank that are drawn for each image",
        source="Misra & van der Maaten 2019",
    )
    pirl_momentum: float = fraction(
        0.5,
        "Weight of a vector in the bank when its image is seen again",
        source="Misra & van der Maaten 2019",
    )
    pirl_jigsaw: float = fraction(
        0.5,
        "Weight of the jigsaw's loss; the image's has the rest",
        source="Misra & van der Maaten 2019",
    )


@dataclasses.dataclass(frozen=True)
class CMCConfig(ObjectiveSettings):
    """Lightness and colours against banks of each other."""

    MODEL = "cpc_tf.objectives.cmc:CMC"
    TITLE = "CMC"
    PATCHES = False
    NEEDS = "lab"

    cmc_dim: int = width(128, "Dimension of the vectors of both banks", source="Tian et al. 2019")
    cmc_temperature: float = rate(0.07, "Divisor of cosine similarities", source="Tian et al. 2019")
    cmc_negatives: int = count(
        16_384,
        "Negatives: vectors of the other view's bank that are drawn for each image",
        source="Tian et al. 2019",
    )
    cmc_momentum: float = fraction(
        0.5,
        "Weight of a vector in the bank when its image is seen again",
        source="Tian et al. 2019",
    )


@dataclasses.dataclass(frozen=True)
class ColorizationConfig(ObjectiveSettings):
    """The colours of each place of a grey image."""

    MODEL = "cpc_tf.objectives.colorization:Colorization"
    TITLE = "Colorization"
    PATCHES = False
    NEEDS = "grey"

    colour_uniform: float = fraction(
        0.5,
        "Part of the uniform distribution in the frequencies of colours by which rare ones count more",
        source="Zhang et al. 2016",
    )


# Name, as --objective takes it -> settings.
OBJECTIVES: dict[str, type[ObjectiveSettings]] = {
    "amdim": AMDIMConfig,
    "byol": BYOLConfig,
    "cmc": CMCConfig,
    "colorization": ColorizationConfig,
    "cpc": CPCConfig,
    "deep_cluster": DeepClusterConfig,
    "exemplar": ExemplarConfig,
    "instance": InstanceConfig,
    "instance_bank": InstanceBankConfig,
    "local_aggregation": LocalAggregationConfig,
    "moco": MoCoConfig,
    "pirl": PIRLConfig,
    "relative_position": RelativePositionConfig,
    "rotation": RotationConfig,
    "vicreg": VICRegConfig,
}


@dataclasses.dataclass(frozen=True)
class SumConfig(ObjectiveSettings):
    """Several objectives on one encoder, as in --objective=cpc+rotation: their settings by name."""

    summed: dict[str, ObjectiveSettings]

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "TITLE", title("+".join(self.summed)))
        for name in ("PATCHES", "NEGATIVES"):
            object.__setattr__(
                self, name, any(getattr(each, name) for each in self.summed.values())
            )
        object.__setattr__(
            self, "NEEDS", next((each.NEEDS for each in self.summed.values() if each.NEEDS), "")
        )

    def check_batch(self, batch_size: int, group: int) -> None:
        for each in self.summed.values():
            each.check_batch(batch_size, group if each.NEGATIVES else 0)

    def check_encoder(self, encoder: str) -> None:
        for each in self.summed.values():
            each.check_encoder(encoder)

    def check_images(self, geometry: GeometryConfig) -> None:
        for each in self.summed.values():
            # Beside a grid of patches an image is cut as a whole, too.
            each.check_images(geometry.whole if self.PATCHES and not each.PATCHES else geometry)


def is_objective(name: str) -> bool:
    """Returns whether a text names an objective, or the sum of several, each once."""
    names = name.split("+")
    return set(names) <= set(OBJECTIVES) and len(set(names)) == len(names)


def title(name: str) -> str:
    """Returns the name of an objective, or of a sum, in cards and reports."""
    return " + ".join(OBJECTIVES[each].TITLE for each in name.split("+"))


def model_class(name: str) -> type:
    """Returns the class of an objective or of a sum, an `Objective`; imports TensorFlow."""
    if "+" in name:
        return pkgutil.resolve_name("cpc_tf.objectives.sum:sum_of")(name)
    return pkgutil.resolve_name(OBJECTIVES[name].MODEL)
