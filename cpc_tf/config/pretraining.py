"""Settings of pre-training and of the export of what it made."""

import dataclasses

from cpc_tf.config.images import AugmentConfig, DataConfig, GeometryConfig
from cpc_tf.config.training import NumericsConfig, TrainingConfig
from cpc_tf.settings import ConfigError, Settings, setting

ENCODERS = (
    "resnet161",
    "resnet50",
    "resnet101_v1",
    "resnet50_v2",
    "resnet101_v2",
    "resnet152_v2",
    "resnet200_v2",
    "small",
    "tiny",
)


@dataclasses.dataclass(frozen=True)
class EncoderConfig(Settings):
    """The network that turns a patch, or a whole image, into latents."""

    encoder: str = setting("resnet161", "architecture", source="Sec. 4.1", choices=ENCODERS)
    norm: str = setting(
        "layer", "normalization inside the encoder", source="Sec. 4.1", choices=("layer", "channel", "batch", "none")
    )
    block_order: str = setting(
        "pre", "'pre': norm and ReLU before each convolution (ResNet v2); 'post': after it", choices=("pre", "post")
    )
    output_stack: int = setting(0, "which stack of blocks is the output, from 1; 0: the last", minimum=0, maximum=4)
    recompute: bool = setting(False, "recompute activations in the backward pass: less memory, a third more time")


@dataclasses.dataclass(frozen=True)
class ObjectiveConfig(Settings):
    """The CPC listing of appendix A."""

    directions: int = setting(
        4, "1: down; 2: down and up; 4: down, up, right and left", source="Sec. 4.1", choices=(1, 2, 4)
    )
    steps_to_ignore: int = setting(
        2, "rows skipped, since their patches overlap the context", source="App. A", minimum=0
    )
    steps_to_predict: int = setting(3, "last predicted row offset", source="App. A", minimum=1)
    target_dim: int = setting(64, "dimension of targets and predictions", source="App. A", minimum=1)
    emb_scale: float = setting(0.1, "scale of the predictions", source="App. A", above=0)
    context_blocks: int = setting(5, "residual blocks of the context network", source="App. A", minimum=1)
    context_dim: int = setting(256, "width inside a block of the context network", source="App. A", minimum=1)
    negatives: str = setting(
        "replica", "negatives from the images of a replica, or gathered from all", choices=("replica", "gathered")
    )
    reduction: str = setting("mean", "over the predictions of one offset and direction", choices=("mean", "sum"))

    def check(self):
        if self.steps_to_predict <= self.steps_to_ignore:
            raise ConfigError(
                f"--steps_to_predict={self.steps_to_predict}: nothing left to predict after "
                f"--steps_to_ignore={self.steps_to_ignore}; use {self.steps_to_ignore + 1} or more"
            )


@dataclasses.dataclass(frozen=True)
class OptimizerConfig(Settings):
    """Adam with Polyak averaging, appendix A."""

    learning_rate: float = setting(4e-4, "peak learning rate", source="App. A", above=0)
    schedule: str = setting("constant", "learning rate after the warm-up", choices=("constant", "cosine"))
    warmup_steps: int = setting(0, "linear warm-up", unit="steps", minimum=0)
    beta1: float = setting(0.8, "Adam's beta 1", source="App. A", minimum=0, maximum=1)
    beta2: float = setting(0.999, "Adam's beta 2", source="App. A", minimum=0, maximum=1)
    epsilon: float = setting(1e-8, "Adam's epsilon", source="App. A", above=0)
    clip_norm: float = setting(0.01, "largest global norm of the gradient", source="App. A", above=0)
    average_decay: float = setting(
        0.9999, "Polyak averaging; ramps up as (1 + step) / (10 + step)", source="App. A", minimum=0, maximum=1
    )


@dataclasses.dataclass(frozen=True)
class MonitorConfig(Settings):
    """What is looked at on the way."""

    probe_every: int = setting(
        0,
        "steps between nearest-neighbour probes where labels exist; 0: none",
        unit="steps",
        minimum=0,
        free_on_resume=True,
    )
    probe_split: str = setting(
        "",
        "labelled split that the nearest-neighbour probe looks at; empty: --split",
        free_on_resume=True,
    )


@dataclasses.dataclass(frozen=True)
class PretrainConfig(Settings):
    """Everything `python -m cpc_tf.pretrain` can be told."""

    workdir: str = setting("", "directory of the run; a run that stands there is resumed", free_on_resume=True)
    data: DataConfig = DataConfig()
    geometry: GeometryConfig = GeometryConfig()
    augment: AugmentConfig = AugmentConfig()
    encoder: EncoderConfig = EncoderConfig()
    objective: ObjectiveConfig = ObjectiveConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    training: TrainingConfig = TrainingConfig()
    numerics: NumericsConfig = NumericsConfig()
    monitor: MonitorConfig = MonitorConfig()

    def check(self):
        if self.geometry.grid <= self.objective.steps_to_predict:
            raise ConfigError(
                f"--steps_to_predict={self.objective.steps_to_predict}: the grid has only {self.geometry.grid} rows; "
                "use a smaller --patch_stride or fewer steps"
            )


@dataclasses.dataclass(frozen=True)
class ExportConfig(Settings):
    """Everything `python -m export` can be told."""

    workdir: str = setting("", "directory of the run: pre-training, `cpc_tf.efficient` or a detector's")
    output: str = setting("", "directory to write the TF-Hub module to; must not exist yet")
    weights: str = setting(
        "averaged",
        "Polyak averages or the weights themselves; only pre-training has averages",
        source="App. A",
        choices=("averaged", "raw"),
    )
    step: int = setting(0, "which checkpoint; 0: the newest whole one", unit="steps", minimum=0)
