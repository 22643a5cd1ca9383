"""The table of objectives, and CPC's settings: what is known of one before TensorFlow is
imported.
"""

from __future__ import annotations

import dataclasses
import functools
import pkgutil
from typing import ClassVar

from cpc_tf.core.settings import (
    ConfigError,
    Settings,
    count,
    rate,
    setting,
    width,
)
from cpc_tf.data.config import GeometryConfig
from cpc_tf.encoders.networks import NETWORKS


@dataclasses.dataclass(frozen=True)
class ObjectiveSettings(Settings):
    """Base of the settings of an objective, which may have none.

    Their flags begin with the objective's name, as --moco_dim; those of CPC alone do not.
    """

    MODEL: ClassVar[str]  # 'module:class', an `Objective`
    TITLE: ClassVar[str]  # its name in reports, where nothing more is known than the objective
    # Whether it sees the patches of a grid, not whole images or crops of them.
    PATCHES: ClassVar[bool] = True
    NEGATIVES: ClassVar[bool] = False  # whether it compares images: a `Contrastive`
    # What its encoder must see, the end of its name: `Entry.sees`; '': any does.
    NEEDS: ClassVar[str] = ""
    # Images of a batch, or of a group that gives negatives, from which it learns.
    FEWEST: ClassVar[int] = 1

    def check_batch(self, batch_size: int, group: int) -> None:
        """Raises ConfigError if nothing is learned from so few images; 0: not known yet, or a group
        of all.
        """
        for flag, images in {"batch_size": batch_size, "negative_images": group}.items():
            if 0 < images < self.FEWEST:
                raise ConfigError(
                    flag,
                    images,
                    f"{self.TITLE} learns from differences between images; use {self.FEWEST}"
                    " or more",
                )

    def check_encoder(self, encoder: str) -> None:
        """Raises ConfigError if an encoder of this name does not see what the objective needs."""
        if self.NEEDS and NETWORKS[encoder].sees != self.NEEDS:
            fitting = [name for name, entry in NETWORKS.items() if entry.sees == self.NEEDS]
            raise ConfigError(
                "encoder", encoder, f"{self.TITLE} needs {', '.join(fitting[:-1])} or {fitting[-1]}"
            )

    def method(self, augment: str) -> str:
        """Returns how a training with these settings and this augmentation policy is called in
        cards and reports.
        """
        return self.TITLE

    def check_images(self, geometry: GeometryConfig) -> None:
        """Raises ConfigError if the objective cannot be computed on images of this geometry."""
        # What is built on an exported module reads its geometry: here a grid of one patch, the
        # whole image.
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
        detail=True,
    )

    def method(self, augment: str) -> str:
        if (self.directions, augment) == (1, "v1"):
            return "CPC v1"
        # patch augmentation, and its small form
        if self.directions == 4 and augment in (
            "full",
            "small_patches",
        ):
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
                f"the grid has only {geometry.grid} rows; use a smaller --patch_stride or fewer"
                " steps",
            )


# Name, as --objective takes it -> 'module:class' of its settings, which are loaded when it is
# chosen.
OBJECTIVES = {
    "cpc": "cpc_tf.objectives.config:CPCConfig",
    "amdim": "cpc_tf.objectives.others.amdim_config:AMDIMConfig",
    "byol": "cpc_tf.objectives.others.byol_config:BYOLConfig",
    "cmc": "cpc_tf.objectives.others.cmc_config:CMCConfig",
    "colorization": "cpc_tf.objectives.others.colorization_config:ColorizationConfig",
    "deep_cluster": "cpc_tf.objectives.others.deep_cluster_config:DeepClusterConfig",
    "exemplar": "cpc_tf.objectives.others.exemplar_config:ExemplarConfig",
    "instance": "cpc_tf.objectives.others.instance_config:InstanceConfig",
    "instance_bank": "cpc_tf.objectives.others.instance_bank_config:InstanceBankConfig",
    "local_aggregation": "cpc_tf.objectives.others.local_aggregation_config:LocalAggregationConfig",
    "moco": "cpc_tf.objectives.others.moco_config:MoCoConfig",
    "pirl": "cpc_tf.objectives.others.pirl_config:PIRLConfig",
    "relative_position": "cpc_tf.objectives.others.relative_position_config:RelativePositionConfig",
    "rotation": "cpc_tf.objectives.others.rotation_config:RotationConfig",
    "vicreg": "cpc_tf.objectives.others.vicreg_config:VICRegConfig",
}


@dataclasses.dataclass(frozen=True)
class SumConfig(ObjectiveSettings):
    """Several objectives on one encoder, as in --objective=cpc+rotation; each sum has a class.

    Its fields are the settings of the objectives, by name.
    """

    @property
    def summed(self) -> dict[str, ObjectiveSettings]:
        """The settings of each objective, by name."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

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


@functools.cache
def settings_class(name: str) -> type[ObjectiveSettings]:
    """Returns the class of the settings of an objective, or of a sum, a `SumConfig`."""
    if "+" not in name:
        return pkgutil.resolve_name(OBJECTIVES[name])
    summed = {each: settings_class(each) for each in name.split("+")}
    of_sum = {
        "TITLE": title(name),
        "PATCHES": any(each.PATCHES for each in summed.values()),
        "NEGATIVES": any(each.NEGATIVES for each in summed.values()),
        "NEEDS": next((each.NEEDS for each in summed.values() if each.NEEDS), ""),
    }
    fields = [(each, settings, settings()) for each, settings in summed.items()]
    return dataclasses.make_dataclass(
        "SumConfig", fields, bases=(SumConfig,), namespace=of_sum, frozen=True
    )


def title(name: str) -> str:
    """Returns the name of an objective, or of a sum, in cards and reports."""
    return " + ".join(settings_class(each).TITLE for each in name.split("+"))


def model_class(name: str) -> type:
    """Returns the class of an objective or of a sum, an `Objective`; imports TensorFlow."""
    if "+" in name:
        return pkgutil.resolve_name("cpc_tf.objectives.sum:sum_of")(name)
    return pkgutil.resolve_name(settings_class(name).MODEL)
