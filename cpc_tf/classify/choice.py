"""Chooses among encoders: the best one, or all side by side, by the cross-validation that states
the accuracy.

All candidates see the same images in the same folds, so they are compared image by image. The
smallest candidate within a standard error of the best is chosen. The best of several candidates
looks better than it is, since chance helps to choose it. So the stated accuracy uses, for each
fold, the candidate that the other folds choose.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from cpc_tf.classify import folds, logistic
from cpc_tf.classify.accuracy import Accuracy, judge, nearly_the_same
from cpc_tf.classify.logistic import LabelledFeatures, Validated
from cpc_tf.data import draws
from cpc_tf.encoders.features import Encoder
from cpc_tf.encoders.side_by_side import joined
from cpc_tf.evaluation.label_kinds import LabelKind
from cpc_tf.evaluation.scores import guesses

NOISE = 1.0  # standard errors of the difference from the best, within which the smallest is taken


class Candidate(NamedTuple):
    """An encoder, or several side by side, and the features of the labelled images by it."""

    encoder: Encoder
    examples: LabelledFeatures


class Compared(NamedTuple):
    """What cross-validation says of a candidate.

    Attributes:
      encoder: its value of --encoder.
      score: its main score of all images, see `LabelKind.main`. That of the one that is taken is
        the best by chance, too: see `Accuracy` for what may be stated.
      worse: by how much its cross-entropy is larger than that of the best.
      error: the standard error of this difference.
      points, points_error: the same of the share of right answers, and by how much it is smaller
        than that of the one taken; None of multi-label images.
      is_taken: whether it is the one.
    """

    encoder: str
    score: float
    worse: float
    error: float
    points: float | None
    points_error: float | None
    is_taken: bool

    @property
    def within_noise(self) -> bool:
        """Whether it is not worse than the best as far as the images can tell."""
        return self.worse <= NOISE * self.error


class Choice(NamedTuple):
    """The candidate that is taken.

    Attributes:
      number: which one of all.
      candidate: that one.
      accuracy: of classifiers that are chosen and trained like it; None if the labels are too few,
        see `judge`: then it is the first encoder.
      compared: of all candidates, the smallest first.
    """

    number: int
    candidate: Candidate
    accuracy: Accuracy | None
    compared: list[Compared]


def candidates(encoders: Sequence[Encoder], each: Sequence[LabelledFeatures]) -> list[Candidate]:
    """Returns every encoder alone, the smallest first, and all side by side.

    Args:
      encoders: one or more.
      each: the features of the same images by each.
    """
    single = [Candidate(*pair) for pair in zip(encoders, each)]
    single.sort(key=lambda one: (one.encoder.parameters, one.examples.features.shape[1]))
    if len(single) == 1:
        return single
    return [*single, Candidate(joined(encoders), logistic.side_by_side(each))]


def choose(
    every: Sequence[Candidate],
    first: Encoder,
    kind: LabelKind,
    drawn: np.ndarray | None = None,
    balanced: bool = False,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> Choice:
    """Cross-validates all candidates on the same folds, and takes the smallest of the best ones.

    Args:
      every: the candidates, the smallest first.
      first: the encoder that is taken if the labels are too few to choose.
      kind, drawn, balanced, seed, progress: as of `judge`.
    """
    # Cross-validate.
    near = nearly_the_same([one.examples for one in every if not one.examples.widths])
    judged = []
    for number, one in enumerate(every):

        def advance(done: int, of: int, number: int = number) -> None:
            progress(number * of + done, len(every) * of)

        judged.append(judge(one.examples, kind, drawn, balanced, seed, advance, near))
    if judged[0] is None:
        number = next(n for n, one in enumerate(every) if one.encoder is first)
        return Choice(number, every[number], None, [])

    # Choose.
    groups = judged[0].groups
    losses = np.stack([accuracy.validated.losses for accuracy in judged])  # [candidates, N]
    taken = smallest_of_best(losses, groups)
    if len(every) == 1:
        return Choice(0, every[0], judged[0], [])
    labels = every[0].examples.labels
    validated = [accuracy.validated for accuracy in judged]
    stated = _as_chosen_by_others(validated, losses, taken, labels, groups, seed)
    return Choice(
        taken,
        every[taken],
        judged[taken]._replace(validated=stated),
        _compared(every, validated, losses, taken, kind, groups),
    )


def difference(worse: np.ndarray, better: np.ndarray, groups: np.ndarray) -> tuple[float, float]:
    """Returns the mean of `worse - better` of the same images, [N], and its standard error.

    All images of a group count as one measurement. The error is that of cross-validation, whose
    classifiers learned from each other's tests; see `logistic.INFLATION`.
    """
    gaps = np.asarray(worse, np.float64) - better
    number = np.unique(groups, return_inverse=True)[1]
    sizes = np.bincount(number)
    deviations = np.bincount(number, gaps) - sizes * gaps.mean()
    variance = logistic.INFLATION * np.square(deviations).sum() / len(gaps) ** 2
    return float(gaps.mean()), float(np.sqrt(variance))


def smallest_of_best(losses: np.ndarray, groups: np.ndarray) -> int:
    """Returns the first candidate that is not worse than the best by more than the noise.

    Args:
      losses: cross-entropy of each image by each candidate, [candidates, N].
      groups: int [N].
    """
    best = losses[losses.mean(1).argmin()]
    for number, of_one in enumerate(losses):
        worse, error = difference(of_one, best, groups)
        if worse <= NOISE * error:
            return number
    raise AssertionError("the best is not worse than itself")


def _as_chosen_by_others(
    validated: Sequence[Validated],
    losses: np.ndarray,
    taken: int,
    labels: np.ndarray,
    groups: np.ndarray,
    seed: int,
) -> Validated:
    """Returns `validated[taken]` with the held-out logits, of each fold, by the candidate that the
    other folds choose.

    Logits of another candidate are scaled to the temperature of the one that is taken.
    """
    strata = draws.rarest(labels) if labels.ndim > 1 else labels
    chosen = validated[taken]
    logits = chosen.logits.copy()
    halved = chosen.halved.copy()
    for others, fold in folds.divide(strata, groups, seed * logistic.REPEATS):
        number = smallest_of_best(losses[:, others], groups[others])
        one = validated[number]
        scale = chosen.temperature / one.temperature if number != taken else 1.0
        logits[fold] = scale * one.logits[fold]
        halved[fold] = scale * one.halved[fold]
    return chosen._replace(logits=logits, halved=halved)


def _compared(
    every: Sequence[Candidate],
    validated: Sequence[Validated],
    losses: np.ndarray,
    taken: int,
    kind: LabelKind,
    groups: np.ndarray,
) -> list[Compared]:
    best = losses[losses.mean(1).argmin()]
    labels = every[0].examples.labels
    records = []
    for number, one in enumerate(every):
        points = points_error = None
        if labels.ndim == 1:
            right = guesses(validated[number].logits) == labels
            right_of_taken = guesses(validated[taken].logits) == labels
            points, points_error = difference(1.0 * right_of_taken, 1.0 * right, groups)
        score = kind.score(validated[number].logits, labels)[kind.main]
        worse, error = difference(losses[number], best, groups)
        records.append(
            Compared(one.encoder.path, score, worse, error, points, points_error, number == taken)
        )
    return records


def described(compared: Sequence[dict[str, Any]], kind: LabelKind) -> list[str]:
    """Returns the comparison of several encoders as lines of a table; no line of one.

    Args:
      compared: `Compared` of each candidate, as result.json has it.
      kind: of the labels.
    """
    if not compared:
        return []
    width = max(len(one["encoder"]) for one in compared)
    title = kind.score_names[kind.main]
    lines = [f"{'encoder':{width}}  {title:>6}"]
    for one in compared:
        if one["is_taken"]:
            verdict = "taken"
        elif one["worse"] <= NOISE * one["error"]:
            verdict = "as good within the noise, and larger"
        else:
            verdict = "worse by cross-entropy"
        if one["points"] is not None and not one["is_taken"]:
            verdict += f" ({-100 * one['points']:+.1f} points, standard error"
            verdict += f" {100 * one['points_error']:.1f})"
        lines.append(f"{one['encoder']:{width}}  {100 * one['score']:4.1f} %  {verdict}")
    return lines
