"""Classifies with few labels, the paper's protocol (appendix C): on an encoder, frozen and
fine-tuned, or on pixels.

    cpc-tf efficient --preset=photos/efficient --encoder=runs/photos/small/hub \\
      --label_fraction=0.01 --workdir=runs/photos/small/efficient_0.01

Settings are selected on a part of the chosen labels, then a classifier with the best of them is
trained on all chosen labels and tested once. Leaves in its workdir result.json, predictions.csv,
labels.json (the chosen examples) and the runs of its phases.
"""

import dataclasses
import os
from typing import ClassVar

from cpc_tf.augment.config import AugmentConfig
from cpc_tf.core import cli
from cpc_tf.core.settings import (
    LARGEST,
    WIDEST,
    ConfigError,
    Settings,
    count,
    fraction,
    rate,
    replace,
    setting,
    to_flagfile,
)
from cpc_tf.data.config import ImageConfig, PicturesConfig
from cpc_tf.efficient.propagation_config import NONE, SELF_TRAINING, PropagationConfig
from cpc_tf.encoders.config import PIXELS
from cpc_tf.encoders.networks import check_new
from cpc_tf.encoders.released import MODULE
from cpc_tf.training.config import (
    NO_PARTS_OF_BATCHES,
    ONLY_PRETRAINING,
    LabelledTrainingConfig,
    NumericsConfig,
    run_directory,
)

TEACHER = "teacher"  # folder of the first training of self-training

# Datasets of TFDS that are a part of another one's training images, with all its test images ->
# that one, which part. Without a name of its part the first one is TFDS' default.
PARTS = {
    **dict.fromkeys(("imagenet2012_subset", "imagenet2012_subset/1pct"), ("imagenet2012", 0.01)),
    "imagenet2012_subset/10pct": ("imagenet2012", 0.1),
}


@dataclasses.dataclass(frozen=True)
class LabelsConfig(Settings):
    """Which labels are used, and which of them only to select settings."""

    test_split: str = setting(
        "test", "Split of the dataset to test on, once for each selected model"
    )
    label_fraction: float = setting(
        1.0,
        "Fraction of each class's labels to use; smaller fractions are subsets of larger ones",
        source="Sec. 4.2",
        above=0,
        maximum=1,
        compared=False,
    )
    labels_per_class: int = count(
        0,
        "Labels of each class to use, instead of --label_fraction; 0: --label_fraction decides",
        minimum=0,
        compared=False,
    )
    held_out: float = setting(
        0.2,
        "Fraction of these labels held out to select settings and lengths and to calibrate"
        " probabilities; 0: none. Not used with --validation_split",
        minimum=0,
        maximum=0.9,
    )
    validation_split: str = setting(
        "",
        "Split that is held out in place of --held_out, e.g. 'train[:10000]': its images are"
        " trained on with no fraction, and its labels are beside --label_fraction, which is of the"
        " others. Empty: none",
        source="App. C.1: about 10k images of the training set",
    )
    refit: bool = setting(
        False,
        "After the test, train the classifier on all labels, including those of the test, and"
        " export that one. The figures stay those of the classifier before that. A finished"
        " run can be refitted, too",
        free_on_resume=True,
    )

    def check(self):
        few = {
            "label_fraction": self.label_fraction < 1,
            "labels_per_class": self.labels_per_class > 0,
        }
        for name in (name for name, is_set in few.items() if is_set and self.refit):
            raise ConfigError(
                f"--refit: trains on all labels, and --{name} leaves some out; give only one"
            )


@dataclasses.dataclass(frozen=True)
class ClassifierConfig(Settings):
    """The classifier: appendix C."""

    encoder: str = setting(
        "",
        f"Encoder to classify on: {MODULE}; 'random': --backbone with new weights; 'pixels':"
        " none, the baseline that trains --backbone on the labels alone; 'random:MODULE': the"
        " untrained copy of a module of cpc-tf; 'graph:MODULE': such a module as its"
        " SavedModel, which computes in float32. A third-party one may have its range of"
        " pixels before it, as '-1..1:MODULE'; also '0..255:', 'torch:', 'caffe:'",
        path=True,
        compared=False,
        needed="a TF-Hub module, e.g. --encoder=imagenette_128px",
    )
    signature: str = setting(
        "",
        "Signature of a third-party SavedModel, such as 'encode', to classify on frozen;"
        " empty: its call",
    )
    endpoint: str = setting(
        "feature_map",
        "Output of the module to classify, e.g. 'feature_map', 'stack2' or 'latents'",
    )
    backbone: str = setting(
        "resnet200_v2",
        "Architecture of the encoder if --encoder is 'pixels' or 'random'. For 'pixels' it may be a"
        " list with commas: the search tries the first one first and then draws from all",
        source="App. C.1",
    )
    norm: str = setting(
        "auto",
        "Norm of --backbone and of the classifier's blocks; auto: batch norm, except that the"
        " backbone of --encoder=random has the norm of pre-training",
        choices=("auto", "layer", "channel", "batch", "none"),
    )
    recompute: bool = setting(
        False,
        "Recompute the encoder's activations in the backward pass: less memory, a third more time",
    )
    head_blocks: int = setting(
        -1,
        "Residual blocks of the classifier; -1: none if --encoder is 'pixels', else 11, or as many"
        " as follow from the number of labels if --head_width does",
        source="App. C.2",
        minimum=-1,
        maximum=1000,
        derived=True,
    )
    head_width: int = setting(
        0,
        "Channels of a block of the classifier; inside it a quarter of these. 0: two blocks of 512,"
        " or eleven of 4096 with 10,000 labels or more",
        source="App. C.2: 4096",
        minimum=0,
        maximum=WIDEST,
        derived=True,
    )
    dropout: float = setting(
        0.5, "Dropout before the last layer", source="App. C", minimum=0, maximum=0.99
    )

    def check(self):
        if 0 < self.head_width < 4:
            raise ConfigError("head_width", self.head_width, "must be at least 4, or 0")
        for backbone in self.backbones:
            check_new(backbone, "backbone", self.backbone)
        # A preset alone names no encoder.
        if len(self.backbones) > 1 and self.encoder not in ("", PIXELS):
            raise ConfigError(
                "backbone",
                self.backbone,
                f"several are only for --encoder={PIXELS}, the supervised baseline; name one",
            )

    @property
    def backbones(self) -> list[str]:
        """The architectures of --backbone."""
        return self.backbone.split(",")

    @property
    def blocks(self) -> int:
        """The number of residual blocks of the classifier."""
        if self.head_blocks >= 0:
            return self.head_blocks
        return 0 if self.encoder == PIXELS else 11


@dataclasses.dataclass(frozen=True)
class SgdConfig(Settings):
    """Its training: appendix C."""

    learning_rate: float = rate(
        0.1,
        "Initial learning rate of SGD; it decays as a cosine, or see --drops_at and --patience",
        source="App. C: 0.05, 0.1, 0.2",
    )
    momentum: float = fraction(0.9, "Momentum of SGD")
    weight_decay: float = setting(
        1e-4,
        "Weight decay of kernels that SGD trains: with --encoder=pixels all, else the classifier's",
        source="App. C",
        minimum=0,
        maximum=LARGEST,
    )
    finetune_steps: int = count(
        0,
        "Maximum steps of fine-tuning after the frozen phase; 0: no fine-tuning",
        unit="steps",
        minimum=0,
    )
    finetune_rate: float = rate(0.01, "Learning rate of the classifier's SGD while fine-tuning")
    encoder_rate: float = rate(1e-4, "Learning rate of the encoder's Adam while fine-tuning")
    encoder_adam: str = setting(
        "paper",
        "Details of the encoder's Adam while fine-tuning. 'paper': those of pre-training, with"
        " clipped gradients and averaged weights; 'keras': Keras' defaults",
        source="App. C.2: the same as previously",
        choices=("paper", "keras"),
    )
    warmup_steps: int = count(
        0,
        "Length of the linear warm-up of --learning_rate in the first phase",
        unit="steps",
        minimum=0,
    )
    drops_at: str = fraction(
        "",
        "Fractions of the first phase after which its rate drops to a tenth, e.g. '0.5,0.75', in"
        " place of a cosine",
        listed=float,
    )
    patience: int = count(
        0,
        "Consecutive evaluations without a better held-out score after which the rate drops to a"
        " tenth, see --rate_drops; fine-tuning ends at once. --train_steps is the maximum. What is"
        " trained on more images at the end keeps the epochs. 0: lengths as given",
        source="Sec. 4.2: till convergence",
        minimum=0,
        maximum=1000,
    )
    rate_drops: int = count(
        1,
        "How often --patience lowers the rate of the first phase; the next time the phase ends",
        minimum=0,
        maximum=10,
    )
    stop_at_loss: float = setting(
        0.0,
        "When the training loss of the last 100 steps is below this, the rate drops to a tenth, and"
        " the frozen phase ends 50 steps later; the classifier on all labels goes on from the one"
        " that was trained without the held-out ones. 0: a fifth of the loss of guessing if"
        " --labelled has fewer than 128 labels, or if the length follows from their number; else"
        " there is no such end",
        minimum=0,
        maximum=LARGEST,
        derived=True,
    )
    look_steps: int = count(
        500,
        "Least number of steps between evaluations on held-out labels; an epoch, if that is longer",
        unit="steps",
        detail=True,
    )
    finetune_look_steps: int = count(
        500,
        "The same while fine-tuning; 1: after each epoch",
        unit="steps",
        source="App. C.2: epochs",
        detail=True,
    )
    least_looks: int = count(
        4, "Least number of evaluations on held-out labels in a phase", maximum=10_000, detail=True
    )
    cached_views: int = count(
        -1,
        "Views of each image that the frozen phase encodes once; 0: encode at each step; -1: 16,"
        " but fewer with more than 500 labels and none with more than 4,000",
        minimum=-1,
        maximum=10_000,
        derived=True,
    )


@dataclasses.dataclass(frozen=True)
class SearchConfig(Settings):
    """Random search in the paper's space, judged on the held-out labels; the settings given are its
    first trial.
    """

    search_trials: int = count(
        1,
        "Number of settings tried for the first phase, starting with the given ones; 1: only those",
        maximum=1_000_000,
    )
    search_rates: str = rate(
        "0.05,0.1,0.2", "Learning rates that the search draws from", source="App. C.1", listed=float
    )
    # Above 0, since they are drawn on the log scale.
    search_decays: str = rate(
        "1e-5,1e-2",
        "Smallest and largest weight decay of the search (log scale)",
        source="App. C.1",
        listed=float,
    )
    search_dropouts: str = fraction(
        "0,1", "Smallest and largest dropout of the search", source="App. C.1", listed=float
    )
    search_multiples: str = count(
        "1,2",
        "Batch sizes that the search draws from, as multiples of --batch_size",
        source="App. C.1: 16, 32 a worker",
        listed=int,
        maximum=1000,
    )
    search_encoder_rates: str = rate(
        "", "Encoder rates that are tried for fine-tuning; empty: only --encoder_rate", listed=float
    )

    def check(self):
        for name in ("search_decays", "search_dropouts"):
            low_high = self.numbers(name)
            if len(low_high) != 2 or low_high[0] > low_high[1]:
                raise ConfigError(
                    name, getattr(self, name), "must be two numbers, the smallest and the largest"
                )


@dataclasses.dataclass(frozen=True)
class EfficientConfig(Settings):
    """All settings of `cpc-tf efficient`."""

    HIDDEN: ClassVar = {
        "share_records": "labels are chosen among all records",
        **NO_PARTS_OF_BATCHES,
        **ONLY_PRETRAINING,
    }

    workdir: str = run_directory()
    data: PicturesConfig = PicturesConfig()
    labels: LabelsConfig = LabelsConfig()
    images: ImageConfig = ImageConfig()
    augment: AugmentConfig = AugmentConfig()
    classifier: ClassifierConfig = ClassifierConfig()
    sgd: SgdConfig = SgdConfig()
    search: SearchConfig = SearchConfig()
    propagation: PropagationConfig = PropagationConfig()
    training: LabelledTrainingConfig = LabelledTrainingConfig()
    numerics: NumericsConfig = NumericsConfig()

    def check(self):
        if self.data.unlabelled and not self.data.labelled:
            raise ConfigError(
                "unlabelled",
                self.data.unlabelled,
                "needs --labelled=FOLDER, a folder of images with labels",
            )
        self._check_phases()
        if self.propagation.propagation != NONE:
            self._check_propagation()
        elif self.data.unlabelled:
            raise ConfigError(
                "unlabelled",
                self.data.unlabelled,
                "a classifier learns from images without labels only with "
                "--propagation; pre-train on these with cpc-tf pretrain",
            )

    def _check_phases(self):
        """Refuses settings of the lengths of the phases that exclude each other."""
        if self.sgd.stop_at_loss and self.sgd.patience:
            raise ConfigError(
                "stop_at_loss",
                self.sgd.stop_at_loss,
                f"with --patience={self.sgd.patience} the held-out labels end the phase; give"
                " only one",
            )
        if self.sgd.stop_at_loss and self.classifier.encoder == PIXELS:
            raise ConfigError(
                "stop_at_loss",
                self.sgd.stop_at_loss,
                f"ends a frozen phase, and --encoder={PIXELS} has none; leave it out",
            )
        if self.labels.refit and not self.data.ref.is_folder:
            raise ConfigError(
                "--refit: only for your own images, --labelled=FOLDER or"
                f" --dataset=folder:PATH; {self.data.flag} has a test that others are compared"
                " on, too"
            )
        if self.sgd.patience and not (self.labels.held_out or self.labels.validation_split):
            raise ConfigError(
                "patience", self.sgd.patience, "needs held-out labels, but --held_out is 0"
            )
        if self.sgd.patience and self.sgd.drops_at:
            raise ConfigError(
                "drops_at",
                self.sgd.drops_at,
                "with --patience the held-out labels decide when rates drop; give only one",
            )

    def _check_propagation(self):
        """Refuses settings that do not go with the method of --propagation."""
        flag = f"--propagation={self.propagation.propagation}"
        if whole := PARTS.get(self.data.ref.builder):
            raise ConfigError(
                f"{flag}: all images of {self.data.flag} have labels; use --dataset={whole[0]}"
                f" --label_fraction={whole[1]:g}, which learns from its other images without"
                " their labels"
            )
        if self.propagation.propagation == SELF_TRAINING:
            if self.labels.refit:
                raise ConfigError(
                    f"--refit: cannot be used with {flag}, whose classifier learns"
                    " from predicted labels"
                )
            self.of_teacher()
            return
        if self.classifier.encoder != PIXELS and not self.sgd.finetune_steps:
            raise ConfigError(
                f"{flag}: a frozen encoder's classifier learns from labels alone; fine-tune with"
                " --finetune_steps or train all with --encoder=pixels"
            )
        if self.propagation.propagation == "pseudo_labels" and self.sgd.patience:
            raise ConfigError(
                f"{flag}: their weight rises with the fraction of the training that is done,"
                f" which is not known with --patience={self.sgd.patience}; use --patience=0"
            )
        if self.propagation.propagation == "uda" and not self.augment.policy.used:
            raise ConfigError(
                f"{flag}: needs the transformations of --augment, which is {self.augment.title}"
            )
        if self.propagation.propagation == "vat" and self.numerics.precision == "float16":
            raise ConfigError(
                f"{flag}: the gradient of an image is too small for --precision=float16; use"
                " bfloat16 or float32"
            )

    def of_teacher(self) -> "EfficientConfig":
        """The settings of the first training of self-training, in a folder of the run. Raises
        ConfigError.
        """
        words = to_flagfile(replace(self, propagation=NONE, teacher="")).splitlines()
        if self.propagation.teacher:
            words.append(f"--set={self.propagation.teacher}")
        try:
            config = cli.parse(EfficientConfig, words)
        except ConfigError as error:
            raise ConfigError("teacher", self.propagation.teacher, str(error)) from error
        return replace(config, workdir=os.path.join(self.workdir, TEACHER))
