"""Gives images their classes in the browser: few well chosen labels, from which a classifier learns
at once.

    cpc-tf label --pictures=my_pictures --labels=labels.csv

A page on this machine alone shows images to label next, how good a classifier of the labels so far
is, labels that may be slips, and commands for what comes next. Each label is in the table before
the next one is given, so that the program may be stopped at any time; the same command goes on.
Features are computed once and kept in the cache.
"""

from __future__ import annotations

import dataclasses

from cpc_tf.core.settings import ConfigError, Settings, count, setting, side
from cpc_tf.encoders.released import DEFAULT, MODULE


@dataclasses.dataclass(frozen=True)
class LabelConfig(Settings):
    """All settings of `cpc-tf label`."""

    pictures: str = setting(
        "",
        "Folder of the images (with all below it)",
        needed="a folder of images, e.g. --pictures=my_pictures",
    )
    labels: str = setting(
        "labels.csv",
        "CSV file of the labels (file,label,by), read if it is there and written after each label",
    )
    encoder: str = setting(
        DEFAULT,
        f"Encoder whose features tell images apart: {MODULE}; or 'pixels'; several separated"
        " by commas: the labels so far choose one, or all side by side",
    )
    multi_label: bool = setting(False, "Whether an image may have several classes, or none of them")
    image_size: int = side(
        0,
        "Side of the images for a network of Keras (0: its own) or a third-party module (0:"
        " 224); modules of cpc-tf have their own sizes",
        minimum=0,
    )
    batch_size: int = count(64, "Images encoded at a time", unit="images", maximum=10_000)
    port: int = count(0, "Port of the page on 127.0.0.1; 0: any free one", minimum=0, maximum=65535)
    browser: bool = setting(
        True, "Whether to open the page in the browser, which is not done over SSH"
    )
    seed: int = count(0, "Seed of the choice of images", minimum=0, maximum=10**6)

    def check(self):
        if not self.labels.lower().endswith(".csv"):
            raise ConfigError("labels", self.labels, "must end with .csv")
        if "://" in self.pictures + self.labels:
            name = "pictures" if "://" in self.pictures else "labels"
            raise ConfigError(
                name, getattr(self, name), "must be on a disk of this machine; copy it there first"
            )

    def check_complete(self):
        super().check_complete()
        if not self.encoder:
            raise ConfigError(
                "--encoder= is empty: name an encoder, e.g. --encoder=imagenette_128px"
            )
