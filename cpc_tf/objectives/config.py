"""The table of objectives, and their settings: what is known of an objective before TensorFlow is imported."""

from __future__ import annotations

import dataclasses
import pkgutil
from typing import ClassVar

from cpc_tf.data.config import GeometryConfig
from cpc_tf.settings import ConfigError, Settings, count, rate, setting, width


@dataclasses.dataclass(frozen=True)
class ObjectiveSettings(Settings):
    """Base of the settings of an objective, which may have none. Names of flags are unique among all objectives."""

    MODEL: ClassVar[str]  # 'module:class', an `Objective`
    TITLE: ClassVar[str]  # its name in reports, where nothing more is known than the objective
    PATCHES: ClassVar[bool] = True  # whether it sees the patches of a grid, not whole images or crops of them
    NEGATIVES: ClassVar[bool] = False  # whether it compares images: a `Contrastive`

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
        2, "Rows that CPC skips, since their patches overlap the context", source="App. A", minimum=0, maximum=10_000
    )
    steps_to_predict: int = count(3, "Offset of the last row that CPC predicts", source="App. A", maximum=10_000)
    target_dim: int = width(64, "Dimension of CPC's targets and predictions", source="App. A")
    emb_scale: float = rate(0.1, "Scale of CPC's predictions", source="App. A")
    context_blocks: int = count(5, "Residual blocks of CPC's context network", source="App. A", maximum=1000)
    context_dim: int = width(256, "Width inside a block of CPC's context network", source="App. A")
    reduction: str = setting(
        "mean", "Reduction of CPC's losses of one offset, direction and group", choices=("mean", "sum")
    )

    def method(self, augment: str) -> str:
        if (self.directions, augment) == (1, "v1"):
            return "CPC v1"
        if self.directions == 4 and augment in ("full", "small_patches"):  # patch augmentation, and its small form
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


# Name, as --objective takes it -> settings.
OBJECTIVES: dict[str, type[ObjectiveSettings]] = {
    "cpc": CPCConfig,
    "instance": InstanceConfig,
    "relative_position": RelativePositionConfig,
    "rotation": RotationConfig,
}


def model_class(name: str) -> type:
    """Returns the class of the objective of a name in OBJECTIVES, an `Objective`; imports TensorFlow."""
    return pkgutil.resolve_name(OBJECTIVES[name].MODEL)
