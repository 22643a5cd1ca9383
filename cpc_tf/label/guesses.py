"""What a classifier of the labels so far says: guesses for all pictures, its accuracy, labels that may be slips."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from cpc_tf.classify import logistic
from cpc_tf.classify.logistic import Examples
from cpc_tf.evaluation import label_kinds
from cpc_tf.evaluation.counts import interval, share_text
from cpc_tf.evaluation.scores import probabilities
from cpc_tf.label import order
from cpc_tf.label.gallery import Gallery
from cpc_tf.label.table import PERSON, Labels

MORE = 50  # labels of the forecast
LEAST = 10  # pictures drawn at random, below which no accuracy is stated


class Labelled(NamedTuple):
    """The labelled pictures.

    Attributes:
      indices: int64 [n], ascending.
      classes: their names, in the order of the numbers.
      labels: int64 [n], or multi-label float32 [n, classes] of 0 and 1.
      by_person: bool [n]: whether the label is no accepted guess.
      drawn: bool [n]: whether the picture was drawn at random, and the label is no accepted guess.
    """

    indices: np.ndarray
    classes: list[str]
    labels: np.ndarray
    by_person: np.ndarray
    drawn: np.ndarray

    @property
    def can_teach(self) -> bool:
        """Whether there is anything to tell apart."""
        return len(self.classes) > 1 or (self.labels.ndim > 1 and len(np.unique(self.labels)) > 1)


def labelled(
    table: Labels, names: Sequence[str], classes: Sequence[str], multi_label: bool, random_order: np.ndarray
) -> Labelled:
    """Returns the labelled ones of these pictures; of single labels those with exactly one class."""
    known = [(i, table[name]) for i, name in enumerate(names) if name in table]
    if not multi_label:
        known = [(i, label) for i, label in known if len(label.classes) == 1]
    number = {name: n for n, name in enumerate(classes)}
    rows = np.zeros([len(known), len(classes)], np.float32)
    for row, (_, label) in zip(rows, known):
        row[[number[name] for name in label.classes]] = 1
    indices = np.array([i for i, _ in known], np.int64)
    by_person = np.array([label.by == PERSON for _, label in known], bool)
    labels = rows if multi_label else rows.argmax(1) if len(classes) else np.zeros(0, np.int64)
    drawn = np.isin(indices, order.drawn(random_order, indices)) & by_person
    return Labelled(indices, [*classes], labels, by_person, drawn)


def _examples(gallery: Gallery, known: Labelled) -> Examples:
    indices = np.arange(len(known.indices))
    return Examples(gallery.take(known.indices), known.labels, indices, len(known.classes))


class Guesses(NamedTuple):
    """The guesses for all pictures.

    Attributes:
      classes: names.
      shares: float32 [N, classes]: probabilities, of multi-label classes each for itself.
      margins: float32 [N]: how sure the guess is, 0 to 1: the first probability minus the second; of multi-label
        classes twice the distance of the least sure one from one half.
    """

    classes: list[str]
    shares: np.ndarray
    margins: np.ndarray


def guess(gallery: Gallery, known: Labelled, others: Gallery | None = None) -> Guesses | None:
    """Trains the classifier and applies it to all pictures, or to `others`; None while there is only one class."""
    if not known.can_teach:
        return None
    classifier = logistic.fit(_examples(gallery, known), logistic.USUAL)
    logits = np.concatenate([classifier.logits(block) for block in (others or gallery).blocks()])
    if known.labels.ndim > 1:
        shares = expit(logits)
        return Guesses(known.classes, shares, np.abs(2 * shares - 1).min(1))
    shares = probabilities(logits).astype(np.float32)
    second, first = np.partition(shares, -2, 1)[:, -2:].T
    return Guesses(known.classes, shares, first - second)


class Figures(NamedTuple):
    """How good the classifier is, by cross-validation.

    Attributes:
      labels: how many labels it learned from.
      sample: how many of them, of pictures drawn at random, it was tested on.
      accuracy, low, high: 0 to 1, and the 95 % interval; None of too few, and of multi-label classes, which have the
        mean average precision in the sentence alone.
      sentence, forecast: for people.
      slips: (index, number of the class that the others suggest, its probability), the most doubtful first.
    """

    labels: int
    sample: int
    accuracy: float | None
    low: float | None
    high: float | None
    sentence: str
    forecast: str
    slips: list[tuple[int, int, float]]


def measure(gallery: Gallery, known: Labelled, seed: int) -> Figures | None:
    """Cross-validates the classifier as `cpc-tf classify` does; None where that is not possible."""
    if not known.can_teach:
        return None
    kind = label_kinds.of(known.labels.ndim > 1)
    validated = logistic.validate(_examples(gallery, known), kind, seed=seed)
    if validated is None:
        return None
    labels, logits, count = known.labels, validated.logits, len(known.indices)
    sample = known.drawn.sum()
    few = Figures(count, int(sample), None, None, None, "", "", [])
    if sample < LEAST:
        few = few._replace(sentence=f"not measured yet: {sample} of {LEAST} pictures drawn at random have a label")
    if known.labels.ndim > 1:
        if sample >= LEAST:
            score = kind.score(logits[known.drawn], labels[known.drawn])[kind.main]
            few = few._replace(sentence=f"mean average precision {100 * score:.0f} % on {sample} drawn at random")
        return few
    shares = probabilities(logits, validated.temperature)
    own, suggested = shares[np.arange(count), labels], shares.argmax(1)
    doubtful = [i for i in np.argsort(own - shares.max(1), kind="stable") if suggested[i] != labels[i]]
    slips = [(int(known.indices[i]), int(suggested[i]), float(shares[i].max())) for i in doubtful if known.by_person[i]]
    if sample < LEAST:
        return few._replace(slips=slips)
    right, before = ((values.argmax(1) == labels)[known.drawn] for values in (logits, validated.halved))
    accuracy, (low, high) = float(right.mean()), interval(right.sum(), sample)
    sentence = f"{share_text(accuracy, int(sample))} of those drawn at random"
    return Figures(count, int(sample), accuracy, low, high, sentence, _forecast(right, before, count), slips)


def _forecast(right: np.ndarray, before: np.ndarray, count: int) -> str:
    """Returns what `MORE` labels may bring, by the power law of `logistic.forecast`.

    Args:
      right: whether each picture that was drawn at random was right, bool [n].
      before: the same with half as many labels.
      count: of all labels.
    """
    told = logistic.forecast(right, before)
    if not told.tells:
        return f"what the next {MORE} labels bring cannot be estimated from {len(right)}"
    wrong = 1 - right.mean()
    slope = math.log2((wrong + told.rise) / wrong) if wrong else 0.0
    gain = 100 * wrong * (1 - ((count + MORE) / count) ** -slope)
    return f"the next {MORE} labels may bring about {gain:.0f} point{'s' * (round(gain) != 1)}"
