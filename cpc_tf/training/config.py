"""Settings of a training run, whatever is trained."""

import dataclasses
import math
from typing import Any

from cpc_tf.core.settings import ConfigError, Settings, count, fraction, rate, setting

# float16 is for GPUs without bfloat16; its loss is scaled.
PRECISIONS = ("float32", "bfloat16", "float16")
# For HIDDEN of the others.
ONLY_PRETRAINING = {"parts": "only pre-training encodes parts of a batch side by side"}
NO_PARTS_OF_BATCHES = {"accumulate": "the classifier's batch norm uses all images of a step"}


def run_directory() -> Any:
    """Returns the field --workdir of a task."""
    return setting(
        "",
        "Directory of the run; a run that is in it is resumed",
        path=True,
        free_on_resume=True,
        needed="a directory for the run, e.g. --workdir=runs/first",
    )


@dataclasses.dataclass(frozen=True)
class TrainingConfig(Settings):
    """How long, on what devices, and how often to record and save."""

    batch_size: int = count(
        512, "Images per step, over all replicas", unit="images", source="App. A", maximum=2**20
    )
    train_steps: int = count(
        0,
        "Length of training; 0: --train_epochs decides",
        unit="steps",
        minimum=0,
        free_on_resume=True,
    )
    train_epochs: float = setting(
        200,
        "Length of training",
        unit="epochs",
        source="App. A",
        minimum=0,
        maximum=1e6,
        free_on_resume=True,
    )
    # The range of numpy's global generator, which Keras seeds, too.
    seed: int = setting(
        0,
        "Seed of weights, order, crops and augmentation",
        minimum=0,
        maximum=2**32 - 1,
        compared=False,
    )
    strategy: str = setting(
        "auto",
        "Strategy of tf.distribute; auto: as many GPUs as divide the batch",
        choices=("auto", "single", "mirrored", "multiworker", "tpu"),
        free_on_resume=True,
    )
    tpu: str = setting("", "Name or address of the TPU; empty: this machine's", free_on_resume=True)
    data_service: str = setting(
        "",
        "HOST:PORT of a dispatcher of tf.data's service with one worker, which computes the input; "
        "empty: this process does",
        free_on_resume=True,
    )
    deterministic: bool = setting(
        True, "Ask TensorFlow for reproducible kernels", free_on_resume=True
    )
    steps_per_loop: int = count(
        50, "Steps that run on the device between two records", unit="steps", free_on_resume=True
    )
    checkpoint_every: int = count(
        1000, "Steps between checkpoints", unit="steps", free_on_resume=True
    )
    keep_checkpoints = 3  # the latest ones

    def refuse_large_batch(self, images: int) -> None:
        """Raises ConfigError if a step takes more images than there are to train on."""
        if self.batch_size > images:
            raise ConfigError(
                "batch_size",
                self.batch_size,
                f"more than the {images} images to train on; --batch_size={images} or less"
                " would do",
            )

    def check(self):
        if not self.train_steps and not self.train_epochs:
            raise ConfigError(
                "train_steps", "0", "give --train_steps or --train_epochs, both are 0"
            )

    @property
    def length(self) -> tuple[int, float]:
        """--train_steps and --train_epochs, 0 for the one that does not count."""
        return self.train_steps, 0 if self.train_steps else self.train_epochs

    def steps(self, num_examples: int) -> int:
        """Returns the number of steps of a run over so many examples."""
        return self.train_steps or math.ceil(self.train_epochs * num_examples / self.batch_size)


@dataclasses.dataclass(frozen=True)
class LabelledTrainingConfig(TrainingConfig):
    """For tasks that learn from labels: without a batch size or a length, both follow from the
    number of images.
    """

    batch_size: int = count(
        0,
        "Images per step, over all replicas; 0: a power of two that the images to train on are"
        " enough for",
        unit="images",
        minimum=0,
        maximum=2**20,
        derived=True,
    )
    train_steps: int = count(
        0,
        "Length of training; 0: --train_epochs decides",
        unit="steps",
        minimum=0,
        free_on_resume=True,
        derived=True,
        instead="train_epochs",
    )
    train_epochs: float = setting(
        0,
        "Length of training; 0: --train_steps decides. If both are 0, it follows from the number of"
        " images",
        unit="epochs",
        minimum=0,
        maximum=1e6,
        free_on_resume=True,
        derived=True,
        instead="train_steps",
    )

    def check(self):
        """Nothing: a length that is not given is derived."""


@dataclasses.dataclass(frozen=True)
class UsualTraining:
    """A task's defaults of batch size and length, which follow from the number of images."""

    batch: int  # the largest one
    epochs: float
    least_steps: int

    def settings(self, images: int, replicas: int, given_batch: int = 0) -> dict[str, float]:
        """Returns batch size and length for so many images to train on, on so many devices."""
        batch = max(1 << int(math.log2(min(images, self.batch))), replicas)
        epochs = max(self.epochs, self.least_steps * (given_batch or batch) / images)
        return {"batch_size": batch, "train_epochs": math.ceil(epochs)}


@dataclasses.dataclass(frozen=True)
class NumericsConfig(Settings):
    """Precision, compilation and parallelism."""

    precision: str = setting(
        "float32", "Precision of activations and convolutions", choices=PRECISIONS
    )
    xla: str = setting(
        "auto",
        "Compile the gradient with XLA; auto: on a GPU",
        choices=("auto", "on", "off"),
        free_on_resume=True,
    )
    # Trained batch norm prevents it: tasks with that hide the flag.
    accumulate: int = count(
        1,
        "Parts of a replica's images whose gradients are computed one after the other before an"
        " update: less memory",
        maximum=2**20,
        free_on_resume=True,
    )
    parts: int = count(2, "Parts of a batch that a CPU encodes side by side", maximum=1024)


@dataclasses.dataclass(frozen=True)
class OptimizerConfig(Settings):
    """Adam with Polyak averaging, appendix A."""

    learning_rate: float = rate(4e-4, "Peak learning rate of Adam", source="App. A")
    schedule: str = setting(
        "constant", "Learning rate after the warm-up", choices=("constant", "cosine")
    )
    warmup_steps: int = count(
        0, "Length of the linear warm-up of the learning rate", unit="steps", minimum=0
    )
    beta1: float = fraction(0.8, "Adam's decay of the first moment", source="App. A")
    beta2: float = fraction(0.999, "Adam's decay of the second moment")
    epsilon: float = setting(1e-8, "Adam's epsilon", above=0, maximum=1)
    clip_norm: float = rate(0.01, "Largest global norm of the gradient", source="App. A")
    average_decay: float = fraction(
        0.9999, "Decay of the Polyak average; at first (1 + step) / (10 + step)", source="App. A"
    )
