"""What frozen features tell in minutes: neighbours and logistic regression on their means, without
a training run.

    python -m studies.read_off --module=runs/imagenette/small/hub \\
      --pictures=../shared/data/imagenette-224
    python -m studies.read_off --module=... --pictures=... --test=val
    python -m studies.read_off --module=... --pictures=... --whole

Without --test=val every third training image is held out and tested on, and no validation image is
read.
"""

from __future__ import annotations

import json
import sys

import numpy as np
from absl import app, flags
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from cpc_tf.augment.config import AugmentConfig
from cpc_tf.core.files import write_file
from cpc_tf.core.settings import ConfigError
from cpc_tf.data import catalog, pipeline
from cpc_tf.data.config import DataConfig
from cpc_tf.efficient.config import LabelsConfig
from cpc_tf.efficient.inputs import choose_labels
from cpc_tf.encoders.card import EncoderName
from cpc_tf.encoders.load import load_patch_encoder
from cpc_tf.evaluation.inference import encode_dataset

NEIGHBOURS = 20
SEEDS = 3
# Part of the labels -> C of the logistic regression on standardized features: one for all encoders,
# never tuned.
PARTS = {0.01: 0.01, 0.1: 0.01, 1.0: 0.03}

Labelled = tuple[np.ndarray, np.ndarray]  # features [N, D] and labels [N]


def dataset(pictures: str) -> str:
    """The value of --dataset for --pictures."""
    return pictures if pictures == "photos" else f"folder:{pictures}"


def mean_latents(module: str, pictures: str, split: str, whole: bool = False) -> Labelled:
    """Each image's label and the mean of its patch grid's latents, or of the map of the whole
    image.
    """
    card = EncoderName.parse(module).card()
    geometry = card.geometry
    trained = card.training
    # grey if it saw grey alone
    policy = AugmentConfig(trained.augment or "none", trained.augment_changes or "").policy
    encode = load_patch_encoder(module, 0, geometry.patch_size).patch_latents
    split = "test" if (pictures, split) == ("photos", "val") else split
    source = catalog.open_labelled(
        DataConfig(dataset=dataset(pictures), split=split), split, "split"
    )
    if whole:  # a grid of one patch
        images = pipeline.plain_images(source, geometry, 64, policy=policy)
        found = encode_dataset(
            images, lambda x: encode(x[:, None, None]), source.num_examples, split, "image"
        )
    else:
        patches = pipeline.plain_patches(source, geometry, 64, policy=policy)
        found = encode_dataset(patches, encode, source.num_examples, split)
    return found.latents.mean((1, 2)), found.labels


def held_out(data: Labelled) -> tuple[Labelled, Labelled]:
    """The others, to learn from, and every third example, to test on."""
    third = np.arange(len(data[1])) % 3 == 2
    return tuple(x[~third] for x in data), tuple(x[third] for x in data)


def neighbours(train: Labelled, test: Labelled) -> float:
    """Top-1 of a vote of neighbours by cosine, after the mean of the training features is
    subtracted.
    """
    mean = train[0].mean(0)
    voters = KNeighborsClassifier(NEIGHBOURS, metric="cosine").fit(train[0] - mean, train[1])
    return voters.score(test[0] - mean, test[1])


def read_off(train: Labelled, test: Labelled) -> dict[str, float]:
    """Top-1 of a vote of neighbours, 'knn', and of logistic regression on parts of the labels,
    '0.01', ...
    """
    mean = train[0].mean(0)
    deviation = train[0].std(0) + 1e-6
    found = {"knn": neighbours(train, test)}
    features, tested = ((x - mean) / deviation for x in (train[0], test[0]))
    for part, inverse_penalty in PARTS.items():
        scores = []
        for seed in range(SEEDS if part < 1 else 1):
            labels = LabelsConfig(label_fraction=part, held_out=0.0)
            chosen = choose_labels(
                train[1], tuple(map(str, range(train[1].max() + 1))), labels, seed
            ).chosen
            model = LogisticRegression(C=inverse_penalty, max_iter=2000).fit(
                features[chosen], train[1][chosen]
            )
            scores.append(model.score(tested, test[1]))
        found[f"{part:g}"] = float(np.mean(scores))
    return found


def main(_) -> None:
    """Prints the figures as JSON, and writes them."""
    values = flags.FLAGS
    try:
        splits = ["train", "val"] if values.test == "val" else ["train"]
        parts = [
            mean_latents(values.module, values.pictures, split, values.whole) for split in splits
        ]
        parts = parts if values.test == "val" else held_out(*parts)
    except ConfigError as error:
        sys.exit(str(error))
    found = read_off(*parts)
    if values.test == "val":  # by which settings may be chosen
        found["held_out_knn"] = neighbours(*held_out(parts[0]))
    found = {name: round(value, 4) for name, value in found.items()}
    origin = {"module": values.module, "of": "whole images" if values.whole else "patches"}
    found = {**origin, "tested_on": values.test, "images": len(parts[1][1]), **found}
    print(json.dumps(found))
    if values.output:
        write_file(values.output, json.dumps(found) + "\n")


if __name__ == "__main__":
    flags.DEFINE_string("module", None, "directory of a module of cpc-tf", required=True)
    flags.DEFINE_string(
        "pictures", None, "photos, or a folder with train/CLASS and val/CLASS", required=True
    )
    flags.DEFINE_enum("test", "held_out", ["held_out", "val"], "what is tested on")
    flags.DEFINE_bool("whole", False, "the map of the whole image instead of its patches' latents")
    flags.DEFINE_string("output", "", "JSON file to write, too")
    app.run(main)
