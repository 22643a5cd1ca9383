"""How often the stated interval holds the accuracy on all the rest, on one set of images with one
kind of labels.

    python -m studies.coverage.measure --pictures_of=digits --labels=plain --output=result.json

Each draw labels some images of each class and cross-validates a classifier as `cpc-tf classify`
does. The true accuracy is that of the same classifier on all other images of the set.
"""

from __future__ import annotations

import json
import time
from typing import NamedTuple

import numpy as np
from absl import app, flags

from cpc_tf.classify import logistic
from cpc_tf.classify.accuracy import judge
from cpc_tf.classify.config import ClassifyConfig
from cpc_tf.classify.logistic import LabelledFeatures
from cpc_tf.classify.run import by_people
from cpc_tf.core.files import write_file
from cpc_tf.encoders.features import Encoder
from cpc_tf.evaluation.counts import whole_percents
from cpc_tf.evaluation.label_kinds import SINGLE_LABEL
from cpc_tf.evaluation.scores import guesses, probabilities
from studies.coverage import pictures
from studies.runner import Places

ENCODER = "imagenette_128px"
LABELS = ("plain", "groups", "copies", "accepted")  # kinds
NUMBERS = (2, 3, 5, 10, 20)  # labels per class
DRAWS = 20
GROUP = 3  # images of a group, and versions of an image with copies
BRIGHTNESSES = (0.85, 1.0, 1.15)
SURE = 0.9  # probability from which on a guess is accepted
UNLABELLED = 300  # images that self-training may use


class Encoded(NamedTuple):
    """The images of a set, each also darker and brighter: features float32 [versions, N, D], labels
    int64 [N].
    """

    features: np.ndarray
    labels: np.ndarray


class Drawn(NamedTuple):
    """What a person would have: labelled examples, which of them are accepted guesses, and the rest
    with its truth.
    """

    examples: LabelledFeatures
    accepted: np.ndarray
    rest: np.ndarray
    truth: np.ndarray


def encoded(name: str, places: Places, with_versions: bool) -> Encoded:
    """Returns the features of a set by the released encoder."""
    found = pictures.squares(pictures.SETS[name](places))
    encoder = Encoder(ENCODER)
    versions = []
    for factor in BRIGHTNESSES if with_versions else (1.0,):
        images = np.clip(found.images * factor, 0, 255).astype(np.uint8)
        parts = [
            encoder.encode_batch(images[start : start + 64]) for start in range(0, len(images), 64)
        ]
        versions.append(np.concatenate(parts))
    return Encoded(np.stack(versions), found.labels)


def draw(data: Encoded, kind: str, each: int, seed: int) -> Drawn:
    """Labels `each` images of every class at random.

    Args:
      data: the set.
      kind: 'plain'; 'groups': groups of GROUP images that are much alike, as of one patient, are
        labelled whole, and the table names the groups; 'copies': each labelled image is there in
        three brightnesses, of which no table tells; 'accepted': a person accepts every guess of the
        first classifier that is SURE.
      each: labels per class.
      seed: of the draw.
    """
    random = np.random.default_rng([seed, each])
    labels = data.labels
    classes = int(data.labels.max()) + 1
    original = data.features[len(data.features) // 2]
    chosen = []
    groups = []
    for number in range(classes):
        members = np.flatnonzero(labels == number)
        if kind == "groups":
            for group in range(max(1, each // GROUP)):
                free = np.setdiff1d(members, chosen)
                first = random.choice(free)
                distance = np.square(original[free] - original[first]).sum(1)
                chosen += free[np.argsort(distance, kind="stable")[:GROUP]].tolist()
                groups += [number * 1000 + group] * GROUP
        else:
            chosen += random.choice(members, each, replace=False).tolist()
    rows = np.array(chosen)
    rest = random.permutation(np.setdiff1d(np.arange(len(labels)), rows))
    if kind == "groups":
        examples = LabelledFeatures(original[rows], labels[rows], np.array(groups), classes)
    elif kind == "copies":
        versions = np.concatenate(data.features[:, rows])
        examples = LabelledFeatures(
            versions, np.tile(labels[rows], 3), np.arange(3 * len(rows)), classes
        )
    else:
        examples = LabelledFeatures(original[rows], labels[rows], np.arange(len(rows)), classes)
    examples = examples._replace(unlabelled=original[rest[:UNLABELLED]])
    accepted = np.zeros(len(examples.labels), bool)
    if kind == "accepted":
        examples, accepted = _with_guesses(examples)
    return Drawn(examples, accepted, original[rest], labels[rest])


def _with_guesses(examples: LabelledFeatures) -> tuple[LabelledFeatures, np.ndarray]:
    """Returns the examples with all guesses that are SURE, and which these are."""
    shares = probabilities(logistic.fit(examples, logistic.USUAL).logits(examples.unlabelled))
    sure = shares.max(1) >= SURE
    count = len(examples.labels) + int(sure.sum())
    every = examples._replace(
        features=np.concatenate([examples.features, examples.unlabelled[sure]]),
        labels=np.append(examples.labels, shares[sure].argmax(1)),
        groups=np.arange(count),
        unlabelled=examples.unlabelled[~sure] if (~sure).any() else None,
    )
    return every, np.arange(count) >= len(examples.labels)


def measured(drawn: Drawn, seed: int) -> dict:
    """Returns what `cpc-tf classify` states of a draw, and what is true of its classifier on the
    rest.
    """
    config = ClassifyConfig()
    taught = by_people(drawn.examples, drawn.accepted, config, SINGLE_LABEL)
    judged = judge(taught, SINGLE_LABEL, seed=seed)
    if judged is None:
        return {"stated": None}
    validated = judged.validated
    classifier = logistic.fit(taught, validated.strength, False, validated.self_training)
    logits = classifier.logits(drawn.rest)
    score = judged.score(SINGLE_LABEL, taught.labels)
    low, high = whole_percents(score["top1_low"], score["top1_high"])
    true = float(np.mean(guesses(logits) == drawn.truth))
    record = {
        "stated": score["top1"],
        "low": low / 100,
        "high": high / 100,
        "true": true,
        "confidence": float(probabilities(logits, validated.temperature).max(1).mean()),
        "self_training": validated.self_training,
    }
    if drawn.accepted.any():
        as_labels = logistic.fit(drawn.examples, validated.strength, False, validated.self_training)
        record["true_with_guesses_as_labels"] = float(
            np.mean(guesses(as_labels.logits(drawn.rest)) == drawn.truth)
        )
    return record


def main(_) -> None:
    """Measures all draws and writes them as JSON."""
    values = flags.FLAGS
    places = Places(pictures=values.pictures, boxes=values.boxes, drawings=values.drawings)
    data = encoded(values.pictures_of, places, values.labels == "copies")
    began = time.process_time()
    draws = []
    for each in NUMBERS:
        for seed in range(values.draws):
            draws.append(
                {
                    "each": each,
                    "draw": seed,
                    **measured(draw(data, values.labels, each, seed), seed),
                }
            )
        print(f"{values.pictures_of}, {values.labels}: {each} labels per class", flush=True)
    result = {"draws": draws, "cpu_seconds": round(time.process_time() - began)}
    write_file(values.output, json.dumps(result) + "\n")


if __name__ == "__main__":
    flags.DEFINE_enum("pictures_of", None, [*pictures.SETS], "the set of images", required=True)
    flags.DEFINE_enum("labels", "plain", LABELS, "which labels the images have")
    flags.DEFINE_integer("draws", DRAWS, "draws of labels for each number")
    flags.DEFINE_string("pictures", Places().pictures, "folder of imagenette-224")
    flags.DEFINE_string("boxes", Places().boxes, "folder of bccd-voc")
    flags.DEFINE_string("drawings", Places().drawings, "folder of Debian's openclipart-png")
    flags.DEFINE_string("output", None, "JSON file to write", required=True)
    app.run(main)
