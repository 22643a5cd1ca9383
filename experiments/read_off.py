"""What frozen latents tell, quickly: neighbours and logistic regression on their means, without a training run.

    python -m experiments.read_off --module=runs/imagenette/hub --pictures=../shared/data/imagenette-224
    python -m experiments.read_off --module=... --pictures=... --test=val

Without --test=val nothing of the validation set is seen: every third training image is held out and tested on.
"""

from __future__ import annotations

import json
import math

import numpy as np
from absl import app, flags
from sklearn.linear_model import LogisticRegression

from cpc_tf.data import catalog, pipeline
from cpc_tf.data.config import DataConfig
from cpc_tf.encoders.card import read_card
from cpc_tf.encoders.load import load_patch_encoder
from cpc_tf.evaluation.features import encode_dataset

FRACTIONS, LABEL_SEEDS, NEIGHBOURS = (0.01, 0.1, 1.0), 3, 20
INVERSE_PENALTIES = {0.01: 0.01, 0.1: 0.01, 1.0: 0.03}  # on standardized features; one for all encoders


def mean_latents(module: str, pictures: str, split: str) -> tuple[np.ndarray, np.ndarray]:
    """Of each image of a split the mean latent of its grid, [N, D], and its label, [N]."""
    geometry = read_card(module, "").geometry
    encode = load_patch_encoder(module, 0, geometry.patch_size).patch_latents
    source = catalog.open_labelled(DataConfig(dataset=f"folder:{pictures}", split=split), split, "split")
    found = encode_dataset(pipeline.plain_patches(source, geometry, 64), encode, source.num_examples, split)
    return found.latents.mean((1, 2)), found.labels


def read_off(train: tuple[np.ndarray, np.ndarray], test: tuple[np.ndarray, np.ndarray]) -> dict[str, float]:
    """Top-1 of a vote of neighbours, 'knn', and of logistic regression on parts of the labels, '0.01', ..."""
    mean, deviation = train[0].mean(0), train[0].std(0) + 1e-6
    features, tested = ((x - mean) / deviation for x in (train[0], test[0]))
    found = {"knn": float(np.mean(_vote(features, train[1], tested) == test[1]))}
    for fraction in FRACTIONS:
        scores = []
        for seed in range(LABEL_SEEDS if fraction < 1 else 1):
            chosen = some_of_each(train[1], fraction, seed)
            model = LogisticRegression(C=INVERSE_PENALTIES[fraction], max_iter=2000)
            model.fit(features[chosen], train[1][chosen])
            scores.append(model.score(tested, test[1]))
        found[f"{fraction:g}"] = float(np.mean(scores))
    return found


def some_of_each(labels: np.ndarray, fraction: float, seed: int) -> np.ndarray:
    """Indices of a part of each class, rounded up."""
    order = np.random.default_rng(seed).permutation(len(labels))
    parts = [order[labels[order] == label] for label in np.unique(labels)]
    return np.concatenate([part[: math.ceil(fraction * len(part))] for part in parts])


def _vote(features: np.ndarray, labels: np.ndarray, tested: np.ndarray) -> np.ndarray:
    features, tested = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (features, tested))
    nearest = np.argpartition(-tested @ features.T, NEIGHBOURS, axis=1)[:, :NEIGHBOURS]
    return np.array([np.bincount(labels[row]).argmax() for row in nearest])


def held_out(data: tuple[np.ndarray, np.ndarray]) -> tuple[tuple, tuple]:
    """Every third image is to be tested on, the others are to be learned from."""
    third = np.arange(len(data[1])) % 3 == 2
    return tuple(x[~third] for x in data), tuple(x[third] for x in data)


def main(_) -> None:
    """Prints the figures as JSON."""
    train = mean_latents(flags.FLAGS.module, flags.FLAGS.pictures, "train")
    parts = held_out(train)
    if flags.FLAGS.test == "val":
        parts = train, mean_latents(flags.FLAGS.module, flags.FLAGS.pictures, "val")
    print(json.dumps({name: round(value, 4) for name, value in read_off(*parts).items()}))


if __name__ == "__main__":
    flags.DEFINE_string("module", None, "directory of a module of ours", required=True)
    flags.DEFINE_string("pictures", None, "a folder with train/CLASS and val/CLASS", required=True)
    flags.DEFINE_enum("test", "held_out", ["held_out", "val"], "what is tested on")
    app.run(main)
