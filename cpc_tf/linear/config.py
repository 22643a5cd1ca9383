"""Trains a linear classifier on a frozen encoder (the paper's appendix B), beside two baselines.

    cpc-tf linear --preset=photos/linear --encoder=runs/photos/small/hub \\
      --workdir=runs/photos/small/linear

Leaves in its workdir result.json, table.txt and linear.png, and the baselines' runs in random/ and
pixels/.
"""

import dataclasses
from typing import ClassVar

from cpc_tf.augment import operations
from cpc_tf.augment.config import AugmentConfig
from cpc_tf.core.settings import MOST, ConfigError, Settings, count, rate, setting
from cpc_tf.data.config import GeometryConfig, PicturesConfig
from cpc_tf.encoders.released import MODULE
from cpc_tf.training.config import (
    NO_PARTS_OF_BATCHES,
    ONLY_PRETRAINING,
    LabelledTrainingConfig,
    NumericsConfig,
    run_directory,
)


@dataclasses.dataclass(frozen=True)
class ProbeConfig(Settings):
    """Appendix B: the frozen encoder's patch grid, batch norm, 1x1 convolution, mean of the
    logits.
    """

    encoder: str = setting(
        "",
        f"Encoder to classify on: {MODULE}; 'random:MODULE': the untrained copy of a module of"
        " cpc-tf; 'graph:MODULE': such a module as its SavedModel; 'pixels': none. A"
        " third-party one may have its range of pixels before it, as '-1..1:MODULE'; also"
        " '0..255:', 'torch:', 'caffe:'",
        path=True,
        compared=False,
        needed="a TF-Hub module, e.g. --encoder=imagenette_128px",
    )
    signature: str = setting(
        "", "Signature of a third-party SavedModel, such as 'encode'; empty: its call"
    )
    endpoint: str = setting(
        "", "Output of the encoder, pooled if it is a map; empty: its default output"
    )
    geometry_from: str = setting(
        "encoder",
        "Source of resize, crop and patches: the module's encoder.json or the flags; --nomirror"
        " applies either way",
        choices=("encoder", "flags"),
    )
    test_split: str = setting("test", "Split of the dataset to test on")
    learning_rate: float = rate(5e-4, "Learning rate of --optimizer", source="App. B")
    optimizer: str = setting(
        "adam",
        "Optimizer of the classifier. 'sgd': with momentum 0.9",
        source="App. B",
        choices=("adam", "sgd"),
    )
    drop_steps: str = setting(
        "",
        "Steps, e.g. 50000,75000, at each of which the rate drops to a tenth",
        listed=int,
        above=0,
        maximum=MOST,
    )
    latent_norm: bool = setting(
        True, "Batch norm, without scale, of the latents before the classifier", source="App. B"
    )
    cached_views: int = count(
        0,
        "Augmented views of each image that are encoded once; 0: encode at each step",
        minimum=0,
        maximum=10_000,
    )
    baselines: bool = setting(
        True, "Also classify from the module's untrained copy and from raw pixels", compared=False
    )

    def check(self):
        if self.encoder == "pixels" and self.geometry_from == "encoder":
            raise ConfigError(
                "encoder", "pixels", "has no geometry of its own; add --geometry_from=flags"
            )
        if self.endpoint == "latents":
            raise ConfigError(
                "endpoint", "latents", "the classifier is on the patch grid already; leave it out"
            )


AS_ENCODER = "encoder"
# In result.json: the scores of the mean logits of each picture's three channels, each shown alone,
# as colour dropping does in the training. The scores beside it are of images in colours that
# neither encoder nor classifier has seen.
BY_CHANNEL = "by_channel"


@dataclasses.dataclass(frozen=True)
class ProbeAugmentConfig(AugmentConfig):
    """The augmentation, by default that of the encoder's pre-training: "the same data pipeline"
    (appendix B).
    """

    augment: str = setting(
        AS_ENCODER,
        "Policy of the patch augmentation. 'encoder': that of the encoder's pre-training, by its"
        " encoder.json; else as in pre-training. If it makes all patches grey, the test is on grey"
        " images, too",
        source="App. B",
        choices=(AS_ENCODER, *operations.POLICIES),
    )

    def check(self):
        if self.augment != AS_ENCODER:
            super().check()
        elif self.augment_changes:
            raise ConfigError(
                "augment_changes",
                self.augment_changes,
                "changes a named policy, and --augment=encoder takes all of "
                "it from the module's encoder.json; name one, e.g. --augment=full",
            )


@dataclasses.dataclass(frozen=True)
class LinearConfig(Settings):
    """All settings of `cpc-tf linear`."""

    HIDDEN: ClassVar = {
        "unlabelled": (
            "a classifier learns from images with labels only; pre-train on these with cpc-tf"
            " pretrain"
        ),
        **NO_PARTS_OF_BATCHES,
        **ONLY_PRETRAINING,
    }

    workdir: str = run_directory()
    data: PicturesConfig = PicturesConfig()
    geometry: GeometryConfig = GeometryConfig(mirror=True)
    augment: ProbeAugmentConfig = ProbeAugmentConfig()
    probe: ProbeConfig = ProbeConfig()
    training: LabelledTrainingConfig = LabelledTrainingConfig()
    numerics: NumericsConfig = NumericsConfig()
