"""Settings of a training run, whatever is trained."""

import dataclasses
import math

from cpc_tf.settings import ConfigError, Settings, setting


@dataclasses.dataclass(frozen=True)
class TrainingConfig(Settings):
    """How long, on what, and how often to look."""

    batch_size: int = setting(512, "images per step over all replicas", unit="images", source="App. A", minimum=1)
    train_steps: int = setting(
        0, "length of training; 0: take --train_epochs", unit="steps", minimum=0, free_on_resume=True
    )
    train_epochs: float = setting(
        200, "length of training", unit="passes over the data", source="App. A", minimum=0, free_on_resume=True
    )
    seed: int = setting(0, "seed of weights, order, crops and augmentation", minimum=0)
    strategy: str = setting(
        "auto",
        "tf.distribute strategy",
        choices=("auto", "single", "mirrored", "multiworker", "tpu"),
        free_on_resume=True,
    )
    tpu: str = setting("", "name or address of the TPU; empty: this machine's", free_on_resume=True)
    deterministic: bool = setting(True, "ask TensorFlow for reproducible kernels", free_on_resume=True)
    steps_per_loop: int = setting(
        50, "steps run on the device between two looks", unit="steps", minimum=1, free_on_resume=True
    )
    checkpoint_every: int = setting(1000, "steps between checkpoints", unit="steps", minimum=1, free_on_resume=True)
    keep_checkpoints: int = setting(3, "how many of the latest checkpoints stay", minimum=2, free_on_resume=True)

    def check(self):
        if not self.train_steps and not self.train_epochs:
            raise ConfigError("--train_steps=0: give --train_steps or --train_epochs, both are 0")

    def steps(self, num_examples: int) -> int:
        """How many steps a run over so many examples takes."""
        return self.train_steps or math.ceil(self.train_epochs * num_examples / self.batch_size)


@dataclasses.dataclass(frozen=True)
class NumericsConfig(Settings):
    """How the numbers are computed."""

    precision: str = setting("float32", "of activations and convolutions", choices=("float32", "bfloat16"))
    xla: str = setting(
        "auto", "compile the gradient with XLA; auto: on a GPU", choices=("auto", "on", "off"), free_on_resume=True
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
