"""Classifies images, from a few labels, in a minute: a logistic regression on the features of
an encoder.

    cpc-tf classify --labelled=my_pictures --labels=labels.csv
    cpc-tf classify --labelled=my_pictures --labels=labels.csv --workdir=runs/mine/classify \\
      --pictures=new_pictures --output=predictions.csv --sheet=sheet.png
    cpc-tf classify --labelled=my_pictures --labels=labels.csv --workdir=runs/mine/classify --curve

The classifier is trained on all labels of people; its accuracy is estimated by cross-validation.
The workdir gets the classifier as a module (classifier/), result.json, and the prediction of each
tested image by classifiers that had not learned it (predictions.csv). A second run in the same
workdir, with more labels, replaces them.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from cpc_tf.core.settings import ConfigError, Settings, count, setting, side
from cpc_tf.core.texts import PICTURES
from cpc_tf.data.config import PicturesConfig
from cpc_tf.encoders.released import DEFAULT

NONE = "none"
BALANCED = "balanced"


@dataclasses.dataclass(frozen=True)
class LabelledConfig(PicturesConfig):
    """Where the labelled images come from: all of them, none is held out for a test."""

    draws_test = False


@dataclasses.dataclass(frozen=True)
class ClassifyConfig(Settings):
    """All settings of `cpc-tf classify`."""

    HIDDEN: ClassVar = {
        "share_records": "each process reads all labelled images",
        "shuffle_window": "all labelled images are in memory",
    }

    data: LabelledConfig = LabelledConfig()
    encoder: str = setting(
        DEFAULT,
        "Encoder whose features are classified: a released one by its name, a module of"
        " cpc-tf export, another TF-Hub module of images, or keras:NAME; 'random:MODULE': the"
        " untrained copy of a module of cpc-tf; 'pixels': none. keras:NAME is a network of"
        " Keras Applications, whose weights Keras downloads; keras:NAME:FILE reads them from a"
        " file (.h5); keras_hub:PRESET is a network of KerasHub. Several separated by commas:"
        " cross-validation chooses one, or all side by side",
        compared=False,
    )
    endpoint: str = setting("", "Output of the encoder, pooled if it is a map; empty: its features")
    image_size: int = side(
        0,
        "Side of the images for a network of Keras (0: its own) or a third-party module (0:"
        " 224); modules of cpc-tf have their own sizes",
        minimum=0,
    )
    class_weights: str = setting(
        NONE,
        "How much the images of a class count. 'none': all images count alike; 'balanced': all"
        " classes do, for rare classes that matter as much as frequent ones",
        choices=(NONE, BALANCED),
    )
    most_unlabelled: int = count(
        2000,
        "Maximum number of unlabelled images, of --labelled or --unlabelled, for self-training,"
        " which is used if cross-validation is better with it; only with up to 1,000 labels, one an"
        " image. 0: none",
        unit="images",
        minimum=0,
    )
    workdir: str = setting(
        "",
        "Directory for the classifier and its figures, which replace those of a classifier there;"
        " empty: none",
        free_on_resume=True,
    )
    pictures: str = setting(
        "",
        f"New images to predict: {PICTURES} for such a list on standard input; empty: none",
        free_on_resume=True,
    )
    output: str = setting(
        "",
        "File of the predictions: .csv, .jsonl (JSON lines) or '-' for CSV on standard output;"
        " empty: none",
        free_on_resume=True,
    )
    sheet: str = setting(
        "",
        "PNG to draw with at most 60 new images and their predictions, the least sure first",
        free_on_resume=True,
    )
    curve: bool = setting(
        False,
        "Draw the accuracy with 10, 20, 50, ... labels, beside an untrained encoder and pixels;"
        " takes --workdir",
        free_on_resume=True,
    )
    batch_size: int = count(
        64, "Images encoded at a time", unit="images", maximum=10_000, free_on_resume=True
    )
    seed: int = count(
        0,
        "Seed of the folds, of the label curve and of an untrained encoder",
        minimum=0,
        maximum=10**6,
        compared=False,
    )

    def check(self):
        if self.pictures and not (self.output or self.sheet):
            raise ConfigError(
                "pictures",
                self.pictures,
                "say where the predictions go, e.g. --output=predictions.csv",
            )
        if not self.pictures and (self.output or self.sheet):
            name = "output" if self.output else "sheet"
            raise ConfigError(
                name,
                getattr(self, name),
                "needs new images, e.g. --pictures=new_pictures",
            )
        if self.curve and not self.workdir:
            raise ConfigError(
                "--curve: is drawn into --workdir, which is empty; set it, e.g."
                " --workdir=runs/mine/classify"
            )

    def check_complete(self):
        super().check_complete()
        if not self.encoder:
            raise ConfigError(
                "--encoder= is empty: name an encoder, e.g. --encoder=imagenette_128px"
            )
