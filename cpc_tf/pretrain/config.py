"""Settings of pre-training."""

import dataclasses

from cpc_tf.augment.config import AugmentConfig
from cpc_tf.data.config import GeometryConfig, PretrainPicturesConfig
from cpc_tf.encoders.config import EncoderConfig
from cpc_tf.objectives import OBJECTIVES
from cpc_tf.objectives.base import Objective
from cpc_tf.objectives.contrast import Contrastive
from cpc_tf.settings import ConfigError, Settings, count, setting
from cpc_tf.training.config import AccumulatingConfig, OptimizerConfig, TrainingConfig


@dataclasses.dataclass(frozen=True)
class MonitorConfig(Settings):
    """What is measured during training."""

    probe_every: int = count(
        0, "Steps between nearest-neighbour probes; 0: no probes", unit="steps", minimum=0, free_on_resume=True
    )
    probe_split: str = setting("", "Labelled split of the nearest-neighbour probe; empty: --split", free_on_resume=True)


@dataclasses.dataclass(frozen=True)
class ChosenObjective(Settings):
    """Which objective is trained."""

    objective: str = setting(
        "cpc", "Objective that the encoder is trained for, without labels", choices=tuple(OBJECTIVES)
    )
    negative_images: int = count(
        0,
        "Images of a batch that give each other negatives, on whatever devices they are; 0: all",
        source="App. A: 16",
        minimum=0,
        maximum=2**20,
    )

    @property
    def kind(self) -> type[Objective]:
        """The chosen class."""
        return OBJECTIVES[self.objective]

    @property
    def settings(self) -> Settings:
        """The settings of the chosen objective."""
        return getattr(self, self.objective)


# ChosenObjective and the settings of every objective, each under its objective's name.
ObjectiveConfig = dataclasses.make_dataclass(
    "ObjectiveConfig",
    [(name, kind.SETTINGS, kind.SETTINGS()) for name, kind in OBJECTIVES.items()],
    bases=(ChosenObjective,),
    frozen=True,
)


@dataclasses.dataclass(frozen=True)
class PretrainConfig(Settings):
    """All settings of `cpc-tf pretrain`."""

    workdir: str = setting("", "Directory of the run; a run that is in it is resumed", path=True, free_on_resume=True)
    initial_encoder: str = setting(
        "", "Module of `cpc-tf export` with the initial weights; empty: new weights", path=True, compared=False
    )
    data: PretrainPicturesConfig = PretrainPicturesConfig()
    geometry: GeometryConfig = GeometryConfig()
    augment: AugmentConfig = AugmentConfig()
    encoder: EncoderConfig = EncoderConfig()
    objective: ObjectiveConfig = ObjectiveConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    training: TrainingConfig = TrainingConfig()
    numerics: AccumulatingConfig = AccumulatingConfig()
    monitor: MonitorConfig = MonitorConfig()

    def check(self):
        kind, group = self.objective.kind, self.objective.negative_images
        kind.of_whole_batch()
        kind.check(self.objective.settings, self.geometry)
        if group and not issubclass(kind, Contrastive):
            raise ConfigError(f"--negative_images={group}: --objective={kind.NAME} has no negatives; leave it at 0")
        if self.encoder.recompute and self.encoder.norm == "batch":
            raise ConfigError(
                "--recompute: with --norm=batch a step would average the statistics of its batch twice; leave it out, "
                "or take another --norm"
            )

    @property
    def parts(self) -> int:
        """The number of parts of a batch that a CPU encodes side by side."""
        # Batch norm's statistics are of the whole batch, and XLA runs nothing side by side.
        return 1 if self.encoder.norm == "batch" or self.numerics.xla == "on" else self.numerics.parts
