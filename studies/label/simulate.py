"""A simulated person who knows the truth labels images in the order of `cpc-tf label`, or in
another one.

    python -m studies.label.simulate --dataset=photos --order=default --seed=0 --output=result.json

Each seed leaves another fifth of the training images out. The result has the accuracy on the test
after 20, 50, 100 and 200 labels, and what the page states then.
"""

from __future__ import annotations

import json
import os
import time

import numpy as np
from absl import app, flags

from cpc_tf.classify import random_sample
from cpc_tf.core import files
from cpc_tf.data import catalog
from cpc_tf.data.config import DataConfig
from cpc_tf.data.pictures import Pictures
from cpc_tf.encoders.features import Encoder
from cpc_tf.label import gallery, guesses, order
from cpc_tf.label.gallery import Gallery

ENCODER = "imagenette_128px"
NUMBERS = (20, 50, 100, 200)  # of labels
BATCH = 10  # labels, after which the classifier learns
DEFAULT = "default"  # that of the page, `order.choose`
PART = 0.8  # of the training images, which a seed has


def encoded(dataset: str, split: str) -> tuple[np.ndarray, np.ndarray]:
    """The features float32 [N, D] and labels int64 [N] of a split; they are cached."""
    source = catalog.open_labelled(DataConfig(dataset=dataset, split=split), split, "split")
    encoder = Encoder(ENCODER)
    labels = source.labels()

    def make() -> files.Findings:
        return {"features": encoder.encode_source(source, 64, lambda done: None)}

    key = [encoder.digest, os.path.realpath(dataset), split, str(len(labels))]
    found = files.remember(
        "studies_label", key, make, lambda features: len(features) == len(labels)
    )
    return found["features"], labels


def simulated(train: tuple, test: tuple, name: str, seed: int) -> dict:
    """Returns {number of labels: what was right then}, and the CPU seconds of the choices."""
    random = np.random.default_rng(seed)
    chosen = np.sort(random.choice(len(train[1]), round(PART * len(train[1])), replace=False))
    features = train[0][chosen]
    truth = train[1][chosen]
    pictures = Gallery(
        Pictures([], []), features, np.arange(len(truth)), np.zeros([0, 0], np.float32), {}
    )
    pictures = pictures._replace(directions=gallery.directions(pictures))
    tested = Gallery(
        Pictures([], []), test[0], np.arange(len(test[1])), np.zeros([0, 0], np.float32), {}
    )
    sample = (
        random.permutation(len(truth))[: random_sample.MOST]
        if name == DEFAULT
        else np.zeros(0, np.int64)
    )
    classes = [str(number) for number in range(truth.max() + 1)]
    labelled = np.zeros(0, np.int64)
    margins = None
    result = {}
    spent = 0.0
    while len(labelled) < NUMBERS[-1]:
        began = time.process_time()
        choice_seed = 1000 * seed + len(labelled)
        pool = order.Pool(pictures.directions, np.setdiff1d(labelled, sample), margins, labelled)
        if name == DEFAULT:
            more, _ = order.choose(pool, sample, len(labelled), BATCH, choice_seed)
        else:
            more = order.ORDERS[name](pool, BATCH, choice_seed)
        spent += time.process_time() - began
        labelled = np.sort(np.append(labelled, more))
        person = np.ones(len(labelled), bool)
        sampled = np.isin(labelled, sample)
        drawn = np.isin(labelled, random_sample.drawn(sample, labelled))
        given = guesses.Labelled(labelled, classes, truth[labelled], person, sampled, drawn)
        said = guesses.guess(pictures, given)
        margins = said.margins if said else None
        if len(labelled) in NUMBERS:
            right = guesses.shares_of(pictures, given, tested).argmax(1) == test[1]
            figures = guesses.measure(pictures, given, seed)
            stated = {"stated": figures.accuracy, "sample": figures.sample} if figures else {}
            result[str(len(labelled))] = {"top1": float(right.mean()), **stated}
    return {"at": result, "choice_cpu_seconds": round(spent, 2)}


def main(_) -> None:
    """Writes and prints the result."""
    values = flags.FLAGS
    data = (
        encoded(values.dataset, split)
        for split in ("train", "test" if values.dataset == "photos" else "val")
    )
    result = simulated(*data, values.order, values.seed)
    files.write_file(values.output, json.dumps(result) + "\n")
    print(json.dumps(result))


if __name__ == "__main__":
    flags.DEFINE_string("dataset", "photos", "photos, or folder:PATH with train and val")
    flags.DEFINE_enum("order", DEFAULT, [DEFAULT, *order.ORDERS], "the order of labels")
    flags.DEFINE_integer(
        "seed", 0, "of the images that are left out, and of choices", lower_bound=0
    )
    flags.DEFINE_string("output", None, "JSON file of the result", required=True)
    app.run(main)
