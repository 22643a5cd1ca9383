"""Pre-trains an encoder on unlabelled images.

    cpc-tf pretrain --preset=photos/pretrain --workdir=runs/photos/small/pretrain

After a kill the same command resumes the run. The workdir holds run.flags (replays the run),
patches.png (what the encoder sees), metrics.jsonl, TensorBoard events, checkpoints and, at the end,
result.json.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection, Sequence

from cpc_tf.augment.config import AugmentConfig
from cpc_tf.core.settings import ConfigError, Settings, all_leaves, count, leaves, setting
from cpc_tf.core.texts import shown
from cpc_tf.data.config import GeometryConfig, PicturesConfig
from cpc_tf.encoders.config import EncoderConfig
from cpc_tf.encoders.networks import check_new
from cpc_tf.encoders.released import NAMES
from cpc_tf.objectives.config import (
    OBJECTIVES,
    CPCConfig,
    is_objective,
    model_class,
    settings_class,
)
from cpc_tf.training.config import NumericsConfig, OptimizerConfig, TrainingConfig, run_directory

# Flags of objectives in a run.flags that version 0.1.0 began -> today's. It has those of all
# objectives.
FORMER_FLAGS = {
    "temperature": "instance_temperature",
    "projection_dim": "instance_dim",
    "bank_dim": "instance_bank_dim",
    "bank_temperature": "instance_bank_temperature",
    "bank_negatives": "instance_bank_negatives",
    "bank_momentum": "instance_bank_momentum",
    "bank_proximal": "instance_bank_proximal",
    "queue_length": "moco_queue_length",
    "clusters": "deep_cluster_clusters",
    "cluster_dim": "deep_cluster_dim",
    "aggregation_dim": "local_aggregation_dim",
    "aggregation_temperature": "local_aggregation_temperature",
    "aggregation_momentum": "local_aggregation_momentum",
    "background": "local_aggregation_background",
    "clusterings": "local_aggregation_clusterings",
    "clusters_of_each": "local_aggregation_clusters",
    "colour_uniform": "colorization_uniform",
}
DRAWS = 4  # augmented draws of an image on the sheet of patches


@dataclasses.dataclass(frozen=True)
class MonitorConfig(Settings):
    """What is measured during training."""

    probe_every: int = count(
        0,
        "Steps between nearest-neighbour probes; 0: no probes",
        unit="steps",
        minimum=0,
        free_on_resume=True,
    )
    probe_split: str = setting(
        "", "Labelled split of the nearest-neighbour probe; empty: --split", free_on_resume=True
    )


@dataclasses.dataclass(frozen=True)
class ObjectiveConfig(Settings):
    """Which objective is trained."""

    objective: str = setting(
        "cpc",
        "Objective that the encoder is trained for, without labels, or several with + between"
        f" them, whose losses are summed, such as cpc+rotation: {', '.join(OBJECTIVES)}",
    )
    negative_images: int = count(
        0,
        "Images of a batch that give each other negatives, on whatever devices they are; 0: all",
        source="App. A: 16",
        minimum=0,
        maximum=2**20,
    )
    norm_images: int = count(
        0,
        "Images of a batch over whose patches --norm=batch takes statistics, on whatever devices"
        " they are; 0: all. 16 as on a worker of the paper",
        minimum=0,
        maximum=2**20,
    )

    def check(self):
        if not is_objective(self.objective):
            raise ConfigError(
                "objective",
                shown(self.objective),
                f"must be one of {', '.join(OBJECTIVES)}, or several, each once, with + between"
                " them (default cpc)",
            )

    @property
    def kind(self) -> type:
        """The class of the chosen objective, an `Objective`; needs TensorFlow."""
        return model_class(self.objective)


@dataclasses.dataclass(frozen=True)
class PretrainConfig(Settings):
    """All settings of `cpc-tf pretrain`: `objective_settings` are those of the chosen objective.

    This class is that of CPC; `having` makes those of the others. To change the objective of
    settings there is `settings.replace`.
    """

    CHOICE = "objective"

    workdir: str = run_directory()
    initial_encoder: str = setting(
        "",
        "Module of `cpc-tf export` with the initial weights, or the name of one that comes with"
        f" the code ({NAMES}); empty: new weights",
        path=True,
        compared=False,
    )
    minutes: float = setting(
        0.0,
        "Length of training in minutes on this machine, in place of --train_steps and"
        " --train_epochs: a trial of some seconds finds how many steps fit; 0: those decide",
        unit="minutes",
        minimum=0,
        maximum=1e6,
        free_on_resume=True,
    )
    rung: str = setting(
        "",
        "Name of this training as a step of a ladder, such as '3_bu': the report shows such"
        " encoders in order, apart",
        detail=True,
    )
    data: PicturesConfig = PicturesConfig()
    geometry: GeometryConfig = GeometryConfig()
    augment: AugmentConfig = AugmentConfig()
    encoder: EncoderConfig = EncoderConfig()
    objective: ObjectiveConfig = ObjectiveConfig()
    objective_settings: CPCConfig = CPCConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    training: TrainingConfig = TrainingConfig()
    numerics: NumericsConfig = NumericsConfig()
    monitor: MonitorConfig = MonitorConfig()

    @classmethod
    def choices(cls) -> Collection[str]:
        return [*OBJECTIVES]

    @classmethod
    def having(cls, value: str) -> type[PretrainConfig]:
        with_cpc = vars(cls).get("with_cpc", cls)
        if value == "cpc" or not is_objective(value):
            return with_cpc
        return _with_objective(with_cpc, value)

    @classmethod
    def current(cls, lines: Sequence[str]) -> Sequence[str]:
        flags = [line.removeprefix("--").split("=", 1) for line in lines]
        if not any(name in FORMER_FLAGS for name, *_ in flags):
            return lines
        flags = [(FORMER_FLAGS.get(name, name), *value) for name, *value in flags]
        objective = next((value for name, value in flags if name == "objective"), "cpc")
        others = {field.name for _, field in all_leaves(cls)}
        others -= {field.name for _, field in leaves(cls.having(objective))}
        return ["--" + "=".join(flag) for flag in flags if flag[0] not in others]

    def check(self):
        chosen = self.objective_settings
        group = self.objective.negative_images
        if type(chosen) is not settings_class(self.objective.objective):
            raise TypeError("settings of another objective: change it with `settings.replace`")
        chosen.check_images(self.geometry)
        if not self.initial_encoder:
            check_new(self.encoder.encoder, "encoder")
        chosen.check_encoder(self.encoder.encoder)
        chosen.check_batch(self.training.batch_size, group)
        if chosen.NEEDS and self.augment.policy.always_grey:
            raise ConfigError(
                "augment",
                self.augment.title,
                f"removes the colours, which {chosen.TITLE} needs; use --augment=none",
            )
        if group and not chosen.NEGATIVES:
            raise ConfigError(
                "negative_images",
                group,
                f"--objective={self.objective.objective} has no negatives; leave it at 0",
            )
        images = self.objective.norm_images
        norm = self.encoder.norm
        if images and (norm != "batch" or not chosen.PATCHES):
            raise ConfigError(
                "norm_images",
                images,
                "groups the images over whose patches batch norm takes statistics;"
                f" --norm={norm} with --objective={self.objective.objective} has no such"
                " statistics; leave it at 0",
            )

    @property
    def parts(self) -> int:
        """The number of parts of a batch that a CPU encodes side by side."""
        # Batch norm's statistics are of the whole batch, and XLA runs nothing side by side.
        return (
            1 if self.encoder.norm == "batch" or self.numerics.xla == "on" else self.numerics.parts
        )


@functools.cache
def _with_objective(config_class: type[PretrainConfig], name: str) -> type[PretrainConfig]:
    """Returns a class of settings with those of an objective in place of CPC's."""
    settings = settings_class(name)
    return dataclasses.make_dataclass(
        config_class.__name__,
        [("objective_settings", settings, settings())],
        bases=(config_class,),
        namespace={
            "__doc__": config_class.__doc__,
            "__module__": config_class.__module__,
            "with_cpc": config_class,
        },
        frozen=True,
    )
