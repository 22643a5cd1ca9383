"""Settings of what is built on an encoder: linear and efficient classification."""

import dataclasses

from cpc_tf.augment.config import AugmentConfig
from cpc_tf.data.config import DataConfig, ImageConfig
from cpc_tf.encoders.networks import NETWORKS
from cpc_tf.settings import ConfigError, Settings, setting
from cpc_tf.training.config import NumericsConfig, TrainingConfig


@dataclasses.dataclass(frozen=True)
class LabelsConfig(Settings):
    """Which labels may be seen, and which of them only to select settings."""

    test_split: str = setting("test", "part of the dataset to test on, once per chosen model")
    label_fraction: float = setting(
        1.0, "part of each class's labels; smaller parts lie in larger ones", source="Sec. 4.2", above=0, maximum=1
    )
    labels_per_class: int = setting(0, "so many labels of each class instead of a fraction; 0: the fraction", minimum=0)
    held_out: float = setting(
        0.2,
        "part of these labels that settings and lengths are selected on; 0: nothing is selected",
        minimum=0,
        maximum=0.9,
    )


@dataclasses.dataclass(frozen=True)
class ClassifierConfig(Settings):
    """What is trained on the labels: appendix C."""

    encoder: str = setting(
        "",
        "TF-Hub module (directory or handle); 'random': --backbone with new weights in its place; 'pixels': --backbone "
        "trained on the labels alone, the baseline",
    )
    endpoint: str = setting(
        "feature_map", "which output of a module that has several feeds the classifier, e.g. 'stack2', 'features'"
    )
    backbone: str = setting(
        "resnet200_v2", "architecture of 'pixels' and 'random'", source="App. C.1", choices=tuple(NETWORKS)
    )
    head_blocks: int = setting(11, "residual blocks between encoder and mean-pool", source="App. C.2", minimum=0)
    head_width: int = setting(4096, "maps of a block", source="App. C.2", minimum=1)
    head_bottleneck: int = setting(1024, "maps inside a block", source="App. C.2", minimum=1)
    dropout: float = setting(
        0.5, "before the last layer; searched from 0 to 1 in the paper", source="App. C", minimum=0, maximum=0.99
    )


@dataclasses.dataclass(frozen=True)
class SgdConfig(Settings):
    """How it is trained: appendix C."""

    learning_rate: float = setting(0.1, "of SGD, at the start of a cosine", source="App. C: 0.05, 0.1, 0.2", above=0)
    momentum: float = setting(0.9, "of SGD", minimum=0, maximum=1)
    weight_decay: float = setting(
        1e-4, "times half the square of kernels; the whole of 'pixels', the classifier else", source="App. C", minimum=0
    )
    warmup_steps: int = setting(0, "linear warm-up of SGD", unit="steps", minimum=0)
    finetune_steps: int = setting(
        0, "longest fine-tuning of the whole stack, after the frozen phase; 0: none", unit="steps", minimum=0
    )
    finetune_rate: float = setting(0.01, "of the classifier's SGD while fine-tuning", above=0)
    encoder_rate: float = setting(1e-4, "of the encoder's Adam while fine-tuning", above=0)
    finetune_schedule: str = setting(
        "constant", "both rates while fine-tuning; a cosine ends at --finetune_steps", choices=("constant", "cosine")
    )
    look_every: int = setting(
        100, "steps between looks at the held-out labels while fine-tuning: lengths to choose from", minimum=1
    )
    cached_views: int = setting(
        0,
        "frozen phase: encode this many augmented views of each image once and train on those; 0: encode at each step",
        minimum=0,
    )


@dataclasses.dataclass(frozen=True)
class SearchConfig(Settings):
    """Random search in the paper's space, judged on the held-out labels; the settings given are its first trial."""

    search_trials: int = setting(1, "settings tried for the first phase; 1: only those given", minimum=1)
    search_rates: str = setting("0.05,0.1,0.2", "learning rates to draw from", source="App. C.1")
    search_decays: str = setting(
        "1e-5,1e-2", "least and largest weight decay, drawn on the log scale", source="App. C.1"
    )
    search_dropouts: str = setting("0,1", "least and largest dropout", source="App. C.1")
    search_batches: str = setting(
        "", "batch sizes to draw from; empty: only --batch_size", source="App. C.1: 16, 32 a worker"
    )
    search_encoder_rates: str = setting("", "of fine-tuning, each tried; empty: only --encoder_rate")

    def check(self):
        for name in ("search_rates", "search_decays", "search_dropouts", "search_batches", "search_encoder_rates"):
            self.numbers(name)
        for name in ("search_decays", "search_dropouts"):
            low_high = self.numbers(name)
            if len(low_high) != 2 or low_high[0] > low_high[1]:
                raise ConfigError(f"--{name}={getattr(self, name)}: two numbers, the least and the largest")
        if self.numbers("search_decays")[0] <= 0:
            raise ConfigError(f"--search_decays={self.search_decays}: above 0, for they are drawn on the log scale")

    def numbers(self, name: str) -> list[float]:
        """The numbers of a list such as '0.05,0.1'."""
        text = getattr(self, name)
        try:
            return [float(word) for word in text.split(",")] if text else []
        except ValueError:
            raise ConfigError(f"--{name}={text}: numbers with commas between them, e.g. 0.05,0.1") from None


@dataclasses.dataclass(frozen=True)
class EfficientConfig(Settings):
    """Everything `python -m cpc_tf.efficient` can be told."""

    workdir: str = setting("", "directory of the run; a run that stands there is resumed", free_on_resume=True)
    data: DataConfig = DataConfig()
    labels: LabelsConfig = LabelsConfig()
    images: ImageConfig = ImageConfig()
    augment: AugmentConfig = AugmentConfig()
    classifier: ClassifierConfig = ClassifierConfig()
    sgd: SgdConfig = SgdConfig()
    search: SearchConfig = SearchConfig()
    training: TrainingConfig = TrainingConfig()
    numerics: NumericsConfig = NumericsConfig()
