"""Turns images into features with an encoder, and shows what features tell of images without
labels.

    cpc-tf embed --encoder=runs/photos/small/hub --pictures=my_pictures \\
      --output=features.npz --map=map.png
    cpc-tf embed --encoder=runs/photos/small/hub --pictures=my_pictures \\
      --to_label=60 --duplicates=repeats.csv
    cpc-tf embed --encoder=runs/photos/small/hub --pictures=my_pictures --neighbours=one.jpg

Features: the mean of the feature map of a module of `cpc-tf export`, or of the output of another
TF-Hub module, over the whole image and its mirror image, as in `cpc-tf classify` and `label`. Those
of a folder are kept in the cache. A broken image is named and left out.
"""

from __future__ import annotations

import dataclasses

from cpc_tf.core.settings import ConfigError, Settings, count, setting, side
from cpc_tf.core.texts import PICTURES
from cpc_tf.encoders.released import MODULE

# Endings of --output. Parquet needs the package pyarrow.
NPZ, CSV, PARQUET = FORMATS = (".npz", ".csv", ".parquet")


@dataclasses.dataclass(frozen=True)
class EmbedConfig(Settings):
    """What to encode, and what to make of the features."""

    encoder: str = setting(
        "",
        f"Encoder that turns images into features: {MODULE}; those of several, separated by"
        " commas, are concatenated, since nothing tells which are better",
        needed="a TF-Hub module, e.g. --encoder=imagenette_128px",
    )
    pictures: str = setting(
        "", f"Images to encode: {PICTURES} for such a list on standard input", needed=PICTURES
    )
    output: str = setting(
        "", f"File of the features with the names of the files: {', '.join(FORMATS)}; empty: none"
    )
    batch_size: int = count(64, "Images encoded at a time", unit="images", maximum=10_000)
    image_size: int = side(
        0,
        "Side of the images for a network of Keras (0: its own) or a third-party module (0:"
        " 224); modules of cpc-tf have their own sizes",
        minimum=0,
    )
    map: str = setting("", "PNG to draw with similar images near each other; empty: none")
    map_method: str = setting(
        "pca",
        "How the map is made: 'pca' (directions of largest variance) or 'tsne' (t-SNE keeps"
        " neighbours together)",
        choices=("pca", "tsne"),  # drawing.map.METHODS, which would import TensorFlow
    )
    labels: str = setting(
        "",
        "CSV file with the classes of images (lines such as pictures/1.jpg,cat), for --map and"
        " --to_label",
    )
    neighbours: str = setting(
        "",
        "Images, in the forms that --pictures takes, whose nearest images --sheet"
        " shows; empty: none",
    )
    sheet: str = setting("neighbours.png", "PNG that --neighbours draws")
    duplicates: str = setting(
        "", "CSV to write with images that nearly repeat an earlier one; empty: none"
    )
    duplicate_similarity: float = setting(
        0.95, "Least cosine similarity of centred features for --duplicates", minimum=-1, maximum=1
    )
    to_label: int = count(
        0, "How many images --to_label_output names; 0: it is not written", minimum=0
    )
    to_label_output: str = setting(
        "to_label.csv",
        "CSV (file,label) to fill in, with the images that are best labelled first",
    )
    seed: int = count(0, "Seed of t-SNE and of an untrained --encoder=random:MODULE", minimum=0)

    def check_complete(self):
        super().check_complete()
        if not any((self.output, self.map, self.neighbours, self.duplicates, self.to_label)):
            raise ConfigError(
                "--output= is empty: name a file, or ask for --map, --neighbours, --duplicates or"
                " --to_label"
            )

    def check(self):
        if self.output and not self.output.lower().endswith(FORMATS):
            raise ConfigError("output", self.output, f"must end with {', '.join(FORMATS)}")
        if self.pictures == self.neighbours == "-":
            raise ConfigError(
                "neighbours", "-", "standard input is the list of --pictures already; name files"
            )
