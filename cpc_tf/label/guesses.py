"""What a classifier of the labels so far says: guesses for all images, its accuracy, labels that
may be slips.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from cpc_tf.classify import choice as comparison
from cpc_tf.classify import logistic, random_sample
from cpc_tf.classify.advice import another_encoder
from cpc_tf.classify.choice import Candidate, choose
from cpc_tf.classify.logistic import LabelledFeatures
from cpc_tf.data.labels import MODEL
from cpc_tf.evaluation import label_kinds
from cpc_tf.evaluation.scores import probabilities
from cpc_tf.label.config import LabelConfig
from cpc_tf.label.gallery import Gallery
from cpc_tf.label.table import Labels

MORE = 50  # labels of the forecast
# part of held-out guesses that must be right for more like these to be selected; of how many
SURE = 0.9
ENOUGH = 30
# Times as probable as the label another class must be for the label to count as a likely slip, and
# the accuracy on held-out labels below which none does.
DOUBT = 20
GOOD = 0.75


class Labelled(NamedTuple):
    """The labelled images.

    Attributes:
      indices: int64 [n], ascending.
      classes: their names, in the order of the numbers.
      labels: int64 [n], or multi-label float32 [n, classes] of 0 and 1.
      by_person: bool [n]: whether the label is no accepted guess.
      sampled: bool [n]: whether the image is of the random sample, so that no choice may depend on
        its label.
      drawn: bool [n]: whether the image was drawn at random, and the label is no accepted guess.
    """

    indices: np.ndarray
    classes: list[str]
    labels: np.ndarray
    by_person: np.ndarray
    sampled: np.ndarray
    drawn: np.ndarray

    @property
    def can_teach(self) -> bool:
        """Whether there is anything to tell apart."""
        return len(np.unique(self.labels)) > 1

    def take(self, chosen: np.ndarray) -> Labelled:
        """Returns some of them, by a bool [n]."""
        of_rows = (self.indices, self.labels, self.by_person, self.sampled, self.drawn)
        indices, labels, *rest = (values[chosen] for values in of_rows)
        return Labelled(indices, self.classes, labels, *rest)


def labelled(
    table: Labels,
    names: Sequence[str],
    classes: Sequence[str],
    multi_label: bool,
    sample: np.ndarray,
) -> Labelled:
    """Returns the labelled ones of these images; of single labels those with exactly one class."""
    given = [(i, table[name]) for i, name in enumerate(names) if name in table]
    if not multi_label:
        given = [(i, label) for i, label in given if len(label.classes) == 1]
    number = {name: n for n, name in enumerate(classes)}
    rows = np.zeros([len(given), len(classes)], np.float32)
    for row, (_, label) in zip(rows, given):
        row[[number[name] for name in label.classes]] = 1
    indices = np.array([i for i, _ in given], np.int64)
    by_person = np.array([label.by != MODEL for _, label in given], bool)
    labels = rows
    if not multi_label:
        labels = rows.argmax(1) if len(classes) else np.zeros(0, np.int64)
    # Guesses are accepted where they are sure, so what is left of the sample would be the hard part
    # of it.
    drawn = np.isin(indices, random_sample.drawn(sample, indices[by_person]))
    return Labelled(indices, [*classes], labels, by_person, np.isin(indices, sample), drawn)


def _examples(gallery: Gallery, given: Labelled) -> LabelledFeatures:
    indices = np.arange(len(given.indices))
    features = gallery.take(given.indices)
    return LabelledFeatures(
        features, given.labels, indices, len(given.classes), widths=gallery.widths
    )


class Guesses(NamedTuple):
    """The guesses for all images.

    Attributes:
      classes: names.
      shares: float32 [N, classes]: probabilities, of multi-label classes each for itself.
      margins: float32 [N]: how sure a classifier is that learned nothing from the random sample, 0
        to 1: its first probability minus the second; of multi-label classes twice the distance of
        the least sure one from one half. None if that one has only one class.
    """

    classes: list[str]
    shares: np.ndarray
    margins: np.ndarray | None


def guess(gallery: Gallery, given: Labelled, strength: float = logistic.USUAL) -> Guesses | None:
    """Trains the classifier on labels of people and applies it to all images; None while there is
    only one class.

    Args:
      gallery: the images.
      given: the labels.
      strength: as in `logistic.fit`; that of `Figures`, for their temperature and level to hold.
    """
    given = given.take(given.by_person)
    if not given.can_teach:
        return None
    chosen = given.take(~given.sampled)
    margins = None
    if chosen.can_teach:
        shares = shares_of(gallery, chosen, strength=strength)
        second, first = (
            np.partition(shares, -2, 1)[:, -2:].T if shares.shape[1] > 1 else (0, shares[:, 0])
        )
        margins = np.abs(2 * shares - 1).min(1) if given.labels.ndim > 1 else first - second
    return Guesses(given.classes, shares_of(gallery, given, strength=strength), margins)


def shares_of(
    gallery: Gallery,
    given: Labelled,
    others: Gallery | None = None,
    strength: float = logistic.USUAL,
) -> np.ndarray:
    """Returns `Guesses.shares` of all images, or of `others`, by a classifier of the labelled
    ones.
    """
    classifier = logistic.fit(_examples(gallery, given), strength)
    logits = np.concatenate([classifier.logits(block) for block in (others or gallery).blocks()])
    return expit(logits) if given.labels.ndim > 1 else probabilities(logits).astype(np.float32)


class Figures(NamedTuple):
    """How good the classifier is, by cross-validation.

    Attributes:
      labels: how many labels of people it learned from.
      sample: how many of them, of images drawn at random, it was tested on.
      accuracy, low, high: 0 to 1, and the 95 % interval; None of too few, and of multi-label
        classes, which have the mean average precision in the sentence alone.
      sentence, forecast: for people.
      slips: (index, number of the class that the others suggest, its probability), the most
        doubtful first; None where the classifier is not good enough to see them.
      strength: of the classifier that guesses, see `logistic.fit`: the validated one, or the usual
        one if that is less. Weaker regularization is more accurate, but a classifier of all labels
        is then surer than those of the folds, whose mean is taken: on Imagenette with 72 labels, of
        guesses of 89 % on average 81 % were right.
      temperature: of the probabilities, see `calibrated`.
      level: the probability from which on guesses are likely right, see `sure_from`; None if there
        is none.
      view: which of `Gallery.candidates` was chosen.
      features: for people: which were compared, and whether another encoder may help.
    """

    labels: int
    sample: int
    accuracy: float | None
    low: float | None
    high: float | None
    sentence: str
    forecast: str
    slips: list[tuple[int, int, float]] | None
    strength: float
    temperature: float
    level: float | None
    view: int
    features: list[str]


def measure(
    gallery: Gallery, given: Labelled, seed: int, encoder: str = LabelConfig.encoder
) -> Figures | None:
    """Cross-validates the classifier as `cpc-tf classify` does; None where that is not possible.

    `encoder` is the value of --encoder.
    """
    if not given.can_teach:
        return None
    people = given.take(given.by_person)
    if not people.can_teach:
        return None
    kind = label_kinds.of(people.labels.ndim > 1)
    views = gallery.candidates or (gallery,)
    every = [Candidate(view.encoder, _examples(view, people)) for view in views]
    choice = choose(every, gallery.encoder, kind, people.drawn, seed=seed)
    judged = choice.accuracy
    if judged is None:
        return None
    validated = judged.validated
    labels = people.labels
    count = len(people.indices)
    logits = validated.logits
    sample = int(people.drawn.sum())
    several = labels.ndim > 1
    shares = calibrated(
        expit(logits) if several else probabilities(logits), validated.temperature, several
    )
    of_guesses = {
        "strength": min(validated.strength, logistic.USUAL),
        "temperature": validated.temperature,
        "level": sure_from(*held_out_guesses(shares, labels)),
        "view": choice.number,
        "features": comparison.described([one._asdict() for one in choice.compared], kind),
    }
    few = Figures(count, sample, None, None, None, "", "", [], **of_guesses)
    least = random_sample.LEAST
    if not judged.at_random:
        few = few._replace(
            sentence=f"not measured yet: {sample} of {least} images drawn at random have a label"
        )
    if len(gallery.rows) < least * random_sample.PART:
        few = few._replace(
            sentence=(
                f"not measured: a random sample of fewer than {least * random_sample.PART} images"
                " is too small"
            )
        )
    if people.labels.ndim > 1:
        if judged.at_random:
            score = judged.score(kind, labels)[kind.main]
            few = few._replace(
                sentence=f"mean average precision {100 * score:.0f} % on {sample} drawn at random"
            )
        return few
    doubted = likely_slips(shares, labels, people.by_person)
    slips = doubted and [
        (int(people.indices[i]), int(shares[i].argmax()), float(shares[i].max())) for i in doubted
    ]
    few = few._replace(slips=slips)
    if not judged.at_random:
        return few
    right, before = (
        (values.argmax(1) == labels)[people.drawn] for values in (logits, validated.halved)
    )
    score = judged.score(kind, labels)
    sentence = f"{kind.value('top1', score)} of those drawn at random"
    ends = dict(
        zip(
            ("accuracy", "low", "high"), (score[name] for name in ("top1", "top1_low", "top1_high"))
        )
    )
    advice = another_encoder(score, logistic.forecast(right, before), count, encoder)
    return few._replace(
        sentence=sentence,
        forecast=_forecast(right, before, count),
        features=[*few.features, *advice],
        **ends,
    )


def calibrated(shares: np.ndarray, temperature: float, multi_label: bool) -> np.ndarray:
    """Returns probabilities [n, classes] as those of logits that are divided by a temperature.

    Args:
      shares: of the logits as they are.
      temperature: with which held-out guesses are as often right as their probabilities say.
      multi_label: whether the probability of each class is for itself.
    """
    shares = np.asarray(shares, np.float64)
    powers = shares ** (1 / temperature)
    others = (1 - shares) ** (1 / temperature)
    return powers / (powers + others if multi_label else powers.sum(1, keepdims=True))


def held_out_guesses(shares: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the probabilities of what is guessed and whether it is right: one an image,
    multi-label any number.

    Args:
      shares: [n, classes], by classifiers that did not learn these labels.
      labels: int64 [n], or multi-label [n, classes] of 0 and 1.
    """
    if labels.ndim == 1:
        return shares.max(1), shares.argmax(1) == labels
    guessed = shares >= 0.5
    return shares[guessed], labels[guessed] > 0.5


def sure_from(shares: np.ndarray, right: np.ndarray) -> float | None:
    """Returns the least probability from which on held-out guesses were right in `SURE` of the
    cases.

    None if fewer than `ENOUGH` guesses show that. On 2,000 photographs of Imagenette with 48 to 240
    labels, 91 to 99 % of all guesses as sure as that were right (two encoders, 26 draws, 89 % in
    the worst); the sum of their probabilities expected 80 to 98 %. Where few labels make 40 to 60 %
    of all guesses right, mostly none is so sure.

    Args:
      shares: float [n], of what is guessed.
      right: bool [n].
    """
    order_of_shares = np.argsort(-shares, kind="stable")
    shares, count = shares[order_of_shares], np.arange(1, len(shares) + 1)
    is_last = np.append(shares[1:] != shares[:-1], True)[: len(shares)]  # of equal ones
    enough = (np.cumsum(right[order_of_shares]) >= SURE * count) & (count >= ENOUGH) & is_last
    return float(shares[enough][-1]) if enough.any() else None


def likely_slips(shares: np.ndarray, labels: np.ndarray, by_person: np.ndarray) -> list[int] | None:
    """Returns the rows whose labels may be slips, the most doubtful first; None if fewer than
    `GOOD` are right.

    On 2,000 photographs of Imagenette with 48 to 240 labels, of which one in twenty was wrong, 89 %
    of what is listed were slips, and 90 % of the slips were listed; without wrong ones, 1 of 100
    labels. There the classifier named 75 to 99 % of held-out labels. With an encoder with which it
    named 40 to 70 %, half of what this ratio lists was right, and half of the slips were not
    listed.

    Args:
      shares: [n, classes], by classifiers that did not learn these labels.
      labels: int64 [n].
      by_person: bool [n]: whether the label is no accepted guess.
    """
    if (shares.argmax(1) == labels)[by_person].sum() < GOOD * by_person.sum():
        return None
    share_of_label = shares[np.arange(len(labels)), labels]
    best = shares.max(1)
    return [
        int(i)
        for i in np.argsort(share_of_label - best, kind="stable")
        if by_person[i] and best[i] > DOUBT * share_of_label[i]
    ]


def _forecast(right: np.ndarray, before: np.ndarray, count: int) -> str:
    """Returns what `MORE` labels may bring, by the power law of `logistic.forecast`.

    Args:
      right: whether each image that was drawn at random was right, bool [n].
      before: the same with half as many labels.
      count: of all labels.
    """
    forecast = logistic.forecast(right, before)
    if not forecast.tells:
        return f"what the next {MORE} labels bring cannot be estimated from {len(right)}"
    wrong = 1 - right.mean()
    slope = math.log2((wrong + forecast.rise) / wrong) if wrong else 0.0
    gain = 100 * wrong * (1 - ((count + MORE) / count) ** -slope)
    return f"the next {MORE} labels may bring about {gain:.0f} point{'s' * (round(gain) != 1)}"
