"""What the features of an encoder are worth for labelled images: neighbours, and a classifier from
few labels.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cpc_tf.classify import logistic
from cpc_tf.classify.logistic import LabelledFeatures
from cpc_tf.evaluation.neighbours import normalized
from cpc_tf.evaluation.scores import guesses

NUMBERS = (5, 12, 50)  # labels per class
DRAWS = 5
NEIGHBOURS = 10


class Worth(NamedTuple):
    """Figures of an encoder's features, fractions.

    Attributes:
      chosen_by: neighbours on the third of the images by which a trial is chosen.
      neighbours: on the other images.
      few_labels: labels per class -> accuracy of each draw of labels, on the other images.
    """

    chosen_by: float
    neighbours: float
    few_labels: dict[int, list[float]]


def worth(examples: LabelledFeatures, numbers: tuple[int, ...], seed: int = 0) -> Worth:
    """Measures the features of labelled images.

    Args:
      examples: features and labels; no group is divided between both parts.
      numbers: labels per class to learn from, see `possible_numbers`.
      seed: of the draws of labels.
    """
    third = chosen_third(examples)
    rest = examples.take(np.flatnonzero(~third))
    few = {}
    for number in numbers:
        few[number] = [accuracy(rest, number, seed + draw) for draw in range(DRAWS)]
    return Worth(
        chosen_by=neighbours(examples.take(np.flatnonzero(third))),
        neighbours=neighbours(rest),
        few_labels=few,
    )


def chosen_third(examples: LabelledFeatures) -> np.ndarray:
    """Returns which images choose a trial, bool [N]: every third group of each class."""
    third = np.zeros(len(examples.labels), bool)
    for label in range(examples.classes):
        groups = np.unique(examples.groups[examples.labels == label])
        third |= np.isin(examples.groups, groups[2::3])
    return third


def possible_numbers(labels: np.ndarray, classes: int) -> tuple[int, ...]:
    """Returns the numbers of labels per class that leave half of the smallest class to test on."""
    smallest = np.bincount(labels, minlength=classes).min()
    return tuple(number for number in NUMBERS if 2 * number <= smallest)


def neighbours(examples: LabelledFeatures) -> float:
    """Returns the mean over the classes of how many images the nearest others name right, by
    cosine; images of the same group do not vote.
    """
    features = normalized(examples.features)
    similarity = features @ features.T  # [N, N]
    similarity[examples.groups[:, None] == examples.groups] = -np.inf
    voters = min(NEIGHBOURS, len(features) - 1)
    nearest = np.argsort(-similarity, axis=1, kind="stable")[:, :voters]  # [N, K]
    votes = [np.bincount(row, minlength=examples.classes) for row in examples.labels[nearest]]
    right = np.argmax(votes, axis=1) == examples.labels
    return mean_of_classes(right, examples.labels, examples.classes)


def accuracy(examples: LabelledFeatures, each: int, seed: int) -> float:
    """Returns the mean over the classes of how many of the other images are right, from `each`
    labels per class, drawn at random: the same ones whatever the features.
    """
    labels = examples.labels
    random = np.random.default_rng([seed, each])
    drawn = []
    for label in range(examples.classes):
        drawn.append(random.choice(np.flatnonzero(labels == label), each, replace=False))
    chosen = np.concatenate(drawn)
    classifier = logistic.fit(examples.take(chosen), logistic.USUAL)
    others = np.flatnonzero(~np.isin(examples.groups, examples.groups[chosen]))
    right = guesses(classifier.logits(examples.features[others])) == labels[others]
    return mean_of_classes(right, labels[others], examples.classes)


def mean_of_classes(right: np.ndarray, labels: np.ndarray, classes: int) -> float:
    """Returns the mean over the classes that occur of the part that is right."""
    shares = [right[labels == label].mean() for label in range(classes) if (labels == label).any()]
    return float(np.mean(shares))
