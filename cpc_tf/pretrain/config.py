"""Pre-trains an encoder on unlabelled images.

    cpc-tf pretrain --preset=photos/pretrain --workdir=runs/photos/small/pretrain

After a kill the same command resumes the run. The workdir holds run.flags (replays the run), patches.png (what the
encoder sees), metrics.jsonl, TensorBoard events, checkpoints and, at the end, result.json.
"""

import dataclasses

from cpc_tf.augment.config import AugmentConfig
from cpc_tf.core.settings import ConfigError, Settings, count, setting
from cpc_tf.core.texts import shown
from cpc_tf.data.config import GeometryConfig, PicturesConfig
from cpc_tf.encoders.config import EncoderConfig
from cpc_tf.encoders.released import NAMES
from cpc_tf.objectives.config import (
    OBJECTIVES,
    ObjectiveSettings,
    SumConfig,
    is_objective,
    model_class,
)
from cpc_tf.training.config import NumericsConfig, OptimizerConfig, TrainingConfig, run_directory

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
class ChosenObjective(Settings):
    """Which objective is trained."""

    objective: str = setting(
        "cpc",
        "Objective that the encoder is trained for, without labels, or several with + between them, whose losses are "
        f"summed, such as cpc+rotation: {', '.join(OBJECTIVES)}",
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
        "Images of a batch over whose patches --norm=batch takes statistics, on whatever devices they are; 0: all. 16 "
        "as on a worker of the paper",
        minimum=0,
        maximum=2**20,
    )

    def check(self):
        if not is_objective(self.objective):
            raise ConfigError(
                "objective",
                shown(self.objective),
                f"must be one of {', '.join(OBJECTIVES)}, or several, each once, with + between them (default cpc)",
            )

    @property
    def kind(self) -> type:
        """The class of the chosen objective, an `Objective`; needs TensorFlow."""
        return model_class(self.objective)

    @property
    def settings(self) -> ObjectiveSettings:
        """The settings of the chosen objective."""
        chosen = {name: getattr(self, name) for name in self.objective.split("+")}
        return SumConfig(chosen) if len(chosen) > 1 else chosen[self.objective]


ObjectiveConfig = dataclasses.make_dataclass(
    "ObjectiveConfig",
    [(name, settings, settings()) for name, settings in OBJECTIVES.items()],
    bases=(ChosenObjective,),
    namespace={
        "__doc__": "The chosen objective, and the settings of every objective, each under its name."
    },
    frozen=True,
)


@dataclasses.dataclass(frozen=True)
class PretrainConfig(Settings):
    """All settings of `cpc-tf pretrain`."""

    workdir: str = run_directory()
    initial_encoder: str = setting(
        "",
        f"Module of `cpc-tf export` with the initial weights, or the name of one that comes with the code ({NAMES}); "
        "empty: new weights",
        path=True,
        compared=False,
    )
    rung: str = setting(
        "",
        "Name of this training as a step of a ladder, as '3_bu': the report shows such encoders in order, apart",
    )
    data: PicturesConfig = PicturesConfig()
    geometry: GeometryConfig = GeometryConfig()
    augment: AugmentConfig = AugmentConfig()
    encoder: EncoderConfig = EncoderConfig()
    objective: ObjectiveConfig = ObjectiveConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    training: TrainingConfig = TrainingConfig()
    numerics: NumericsConfig = NumericsConfig()
    monitor: MonitorConfig = MonitorConfig()

    def check(self):
        chosen, group = self.objective.settings, self.objective.negative_images
        chosen.check_images(self.geometry)
        chosen.check_encoder(self.encoder.encoder)
        chosen.check_batch(self.training.batch_size, group)
        if chosen.NEEDS and self.augment.policy.always_grey:
            raise ConfigError(
                "augment", self.augment.title, f"leaves no colours for {chosen.TITLE}; take none"
            )
        if group and not chosen.NEGATIVES:
            raise ConfigError(
                "negative_images",
                group,
                f"--objective={self.objective.objective} has no negatives; leave it at 0",
            )
        images, norm = self.objective.norm_images, self.encoder.norm
        if images and (norm != "batch" or not chosen.PATCHES):
            raise ConfigError(
                "norm_images",
                images,
                f"groups what batch norm takes statistics of, the patches of images; --norm={norm} and --objective="
                f"{self.objective.objective} have no such statistics; leave it at 0",
            )

    @property
    def parts(self) -> int:
        """The number of parts of a batch that a CPU encodes side by side."""
        # Batch norm's statistics are of the whole batch, and XLA runs nothing side by side.
        return (
            1 if self.encoder.norm == "batch" or self.numerics.xla == "on" else self.numerics.parts
        )
