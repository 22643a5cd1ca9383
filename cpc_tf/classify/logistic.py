"""Logistic regression on features: its strength, accuracy and temperature come from one
cross-validation.

With few labels, unlabelled images can help by self-training (Scudder 1965): the classifier is
trained again with its own most confident predictions as labels, for some rounds. Cross-validation
decides whether it is used.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from cpc_tf.classify import folds
from cpc_tf.data import draws
from cpc_tf.evaluation.label_kinds import LabelKind
from cpc_tf.evaluation.scores import fitted_temperature, probabilities

REPEATS = 3  # of cross-validation, with another division each
# The variance of an accuracy by cross-validation is this much larger than that of a test on as many
# images, since its classifiers learned from each other's tests: the mean of 20 measurements
# (docs/notebook/2026-11-28-honest.md).
INFLATION = 1.3
# labels; with more, one round of cross-validation is precise enough and self-training brings
# nothing
FEW = 1000
# Inverse strengths of regularization that are tried, for features of mean square 1.
STRENGTHS = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
USUAL = 10.0  # the default, unless another one is better by more than a standard error
# Self-training: its rounds, the fraction of the unlabelled images that a round uses, their weight
# relative to that of labelled ones, and the number of principal components.
ROUNDS = 3
SUREST = 0.5
PSEUDO_WEIGHT = 0.3
DIRECTIONS = 128
_WORSE = 2  # strengths in a row that are worse than the best, after which weaker ones are not tried
_ITERATIONS = 500
_ABSENT = 5.0  # minus the logit of a class without examples: a probability below 1 %


class LabelledFeatures(NamedTuple):
    """What is learned from.

    Attributes:
      features: float32 [N, D].
      labels: int64 [N], or float32 [N, classes] of 0 and 1.
      groups: int64 [N]; all of a group are held out together.
      classes: how many there are.
      unlabelled: features of images without labels, float32 [M, D]; none of multi-label classes.
      widths: how many of the features are of each encoder, of several side by side: all encoders
        count alike. (): one encoder.
    """

    features: np.ndarray
    labels: np.ndarray
    groups: np.ndarray
    classes: int
    unlabelled: np.ndarray | None = None
    widths: tuple[int, ...] = ()

    def take(self, rows: np.ndarray) -> LabelledFeatures:
        """Returns these labelled examples, with all unlabelled ones."""
        return self._replace(
            features=self.features[rows], labels=self.labels[rows], groups=self.groups[rows]
        )


def side_by_side(each: Sequence[LabelledFeatures]) -> LabelledFeatures:
    """Returns the features of the same images by several encoders, one after the other."""
    features = np.concatenate([examples.features for examples in each], 1)
    unlabelled = None
    if each[0].unlabelled is not None:
        unlabelled = np.concatenate([examples.unlabelled for examples in each], 1)
    widths = tuple(examples.features.shape[1] for examples in each)
    return each[0]._replace(features=features, unlabelled=unlabelled, widths=widths)


class Linear(NamedTuple):
    """Features [N, D] @ weights float32 [D, classes] + bias float32 [classes] = logits."""

    weights: np.ndarray
    bias: np.ndarray

    def logits(self, features: np.ndarray) -> np.ndarray:
        """Returns float32 [N, classes]."""
        return features @ self.weights + self.bias


class Validated(NamedTuple):
    """What cross-validation tells.

    Attributes:
      strength: inverse strength of the regularization: `USUAL`, or the one with the least
        cross-entropy of the calibrated logits if that is lower by more than a standard error.
      self_training: whether images without labels lower that cross-entropy.
      logits: out-of-fold, float32 [N, classes]: of each image the mean, over the repeats, of the
        logits by classifiers that were not trained on it.
      losses: float64 [N]: the cross-entropy of these, calibrated; its mean over multi-label
        classes.
      halved: the same by classifiers trained on half as many labels.
      temperature: what the logits are divided by before they become probabilities.
      folds, repeats: into how many parts the images were divided, and how often.
    """

    strength: float
    self_training: bool
    logits: np.ndarray
    losses: np.ndarray
    halved: np.ndarray
    temperature: float
    folds: int
    repeats: int


def fit(
    examples: LabelledFeatures, strength: float, balanced: bool = False, self_training: bool = False
) -> Linear:
    """Returns the logistic regression of all examples: softmax, or a sigmoid a class where labels
    are multi-label.

    Args:
      examples: to learn from, of two classes or more.
      strength: inverse strength of the regularization of the weights of standardized features.
      balanced: whether classes weigh the same, however many images they have.
      self_training: whether to learn from the unlabelled ones, too.
    """
    space = _Space(examples)
    learned = space.coordinates, examples.labels, examples.classes, strength, balanced
    # threads wait longer than they compute
    with threadpool_limits(1 if len(examples.features) <= FEW else None):
        return space.of_features(
            *(_self_trained(space.unlabelled, *learned) if self_training else _solve(*learned))
        )


def validate(
    examples: LabelledFeatures,
    kind: LabelKind,
    balanced: bool = False,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> Validated | None:
    """Chooses strength and self-training by repeated cross-validation; see `Validated`.

    All labels must be by people. An accepted guess carries the label of a held-out image back into
    the folds, since the classifier that made the guess had learned that image.

    Args:
      examples: to learn from and to hold out in turn; `groups` tells which belong together, see
        `folds.joined`.
      kind: single-label or multi-label.
      balanced: as in `fit`.
      seed: of the folds.
      progress: gets how much of how much is done.

    Returns:
      None if too few images are of classes with three groups, see `folds.can_divide`.
    """
    strata = draws.rarest(examples.labels) if examples.labels.ndim > 1 else examples.labels
    if not folds.can_divide(strata, examples.groups):
        return None
    repeats = REPEATS if len(strata) <= FEW else 1
    divisions = [
        folds.divide(strata, examples.groups, seed * REPEATS + repeat) for repeat in range(repeats)
    ]
    space = _Space(examples)

    def held_out(strength: float, self_training: bool, part: float = 1.0) -> np.ndarray:
        """Returns mean logits float32 [N, classes] by classifiers that learned from this part of
        the other folds.
        """
        logits = np.zeros([len(strata), examples.classes], np.float32)
        for learned, tested in itertools.chain(*divisions):
            some = learned[: max(1, round(part * len(learned)))]
            problem = (
                space.coordinates[some],
                examples.labels[some],
                examples.classes,
                strength,
                balanced,
            )
            weights, bias = (
                _self_trained(space.unlabelled, *problem) if self_training else _solve(*problem)
            )
            logits[tested] += space.coordinates[tested] @ weights + bias
        return logits / repeats

    def tried(strength: float, self_training: bool = False) -> Validated:
        """Returns the outcome, in which `halved` is not yet filled in."""
        logits = held_out(strength, self_training)
        choices, truth = kind.choices(logits, examples.labels)
        temperature = fitted_temperature(choices, truth)
        shares = probabilities(choices, temperature)[np.arange(len(truth)), truth]
        losses = -np.log(np.maximum(shares, 1e-12)).reshape(len(strata), -1).mean(1)
        return Validated(
            strength, self_training, logits, losses, logits, temperature, len(divisions[0]), repeats
        )

    with threadpool_limits(1 if len(strata) <= FEW else None):
        total = len(STRENGTHS) + 2
        usual = None
        best = None
        worse = 0
        for done, strength in enumerate(STRENGTHS):
            progress(done, total)
            trial = tried(strength)
            usual = trial if strength == USUAL else usual
            best, worse = (
                (trial, 0)
                if best is None or trial.losses.mean() < best.losses.mean()
                else (best, worse + 1)
            )
            if worse == _WORSE and usual:
                break
        progress(len(STRENGTHS), total)
        chosen = best if _clearly_less(best.losses, usual.losses) else usual
        if space.unlabelled is not None:
            trial = tried(chosen.strength, self_training=True)
            chosen = trial if _clearly_less(trial.losses, chosen.losses) else chosen
        progress(len(STRENGTHS) + 1, total)
        return chosen._replace(halved=held_out(chosen.strength, chosen.self_training, 0.5))


def _clearly_less(losses: np.ndarray, others: np.ndarray) -> bool:
    """Returns whether losses [N] are less than others of the same images by more than a standard
    error.
    """
    gains = others - losses
    return bool(gains.mean() > gains.std() / np.sqrt(len(gains)))


class Forecast(NamedTuple):
    """What twice as many labels may bring.

    Attributes:
      gain: expected rise of the accuracy, 0 to 1.
      rise: what the second half of the labels brought.
      error: its standard error.
    """

    gain: float
    rise: float
    error: float

    @property
    def tells(self) -> bool:
        """Whether the folds can tell: whether the rise is more than two standard errors."""
        return self.rise > 2 * self.error


def forecast(right: np.ndarray, halved: np.ndarray) -> Forecast:
    """Extends the learning curve from half of the labels to all of them by as much again, as a
    power law.

    The error then falls by the same factor with each doubling (Hestness et al. 2017).

    Args:
      right: whether each image was right, bool [N].
      halved: the same with classifiers that learned from half as many labels.
    """
    wrong = 1 - right.mean()
    before = 1 - halved.mean()
    gain = wrong * (1 - wrong / before) if before > wrong else 0.0
    return Forecast(
        float(gain),
        float(before - wrong),
        float(np.std(1.0 * right - halved) / np.sqrt(len(right))),
    )


class _Space:
    """Standardized features, divided by sqrt(D), in the coordinates in which the regression is
    solved.

    Those of several encoders are standardized for each, and all encoders have the same mean square:
    none counts more because its features are larger or more.

    With fewer examples than features they are projected onto the span of the examples. That changes
    nothing, since the weights of a regularized regression are a combination of the examples, and is
    quicker. With unlabelled examples they are projected onto the first principal components.

    Attributes:
      coordinates: of the labelled ones, [N, R], float32 if R = D, else float64.
      unlabelled: of the unlabelled ones, [M, R]; None without them.
    """

    def __init__(self, examples: LabelledFeatures):
        features = examples.features
        unlabelled = examples.unlabelled
        every = features if unlabelled is None else np.concatenate([features, unlabelled])
        widths = examples.widths or (features.shape[1],)
        means = []
        scales = []
        for block in np.split(every, np.cumsum(widths[:-1]), 1):
            mean, scale = folds.standardized(block)
            means.append(mean)
            scales.append(scale * np.sqrt(block.shape[1] * len(widths)))
        self._mean = np.concatenate(means)
        self._scale = np.concatenate(scales)
        self._axes = None
        self.unlabelled = None
        if unlabelled is None and len(features) >= features.shape[1]:
            self.coordinates = (features - self._mean.astype(np.float32)) / self._scale.astype(
                np.float32
            )
            return
        standard = (every - self._mean) / self._scale
        if unlabelled is None:
            _, singular, axes = np.linalg.svd(standard, full_matrices=False)
            self._axes = axes[: _rank(singular)].T  # [D, R]
        else:
            self._axes = _principal_axes(standard)
        coordinates = standard @ self._axes
        self.coordinates = coordinates[: len(features)]
        self.unlabelled = None if unlabelled is None else coordinates[len(features) :]

    def of_features(self, weights: np.ndarray, bias: np.ndarray) -> Linear:
        """Converts weights and bias for coordinates to those for raw features."""
        weights = (weights if self._axes is None else self._axes @ weights) / self._scale[:, None]
        return Linear(weights.astype(np.float32), (bias - self._mean @ weights).astype(np.float32))


def _principal_axes(standard: np.ndarray) -> np.ndarray:
    """Returns the first principal axes of standardized features [N, D], at most DIRECTIONS:
    [D, R].
    """
    is_wide = standard.shape[0] < standard.shape[1]
    gram = standard @ standard.T if is_wide else standard.T @ standard
    size = len(gram)
    values, vectors = eigh(gram, subset_by_index=[max(0, size - DIRECTIONS), size - 1])
    vectors = vectors[:, ::-1]
    if not is_wide:
        return vectors
    rank = _rank(values[::-1])
    return standard.T @ vectors[:, :rank] / np.sqrt(np.maximum(values[::-1][:rank], 1e-30))


def _rank(values: np.ndarray) -> int:
    """Returns how many of singular or eigenvalues, the largest first, are no rounding; at least
    one.
    """
    return max(1, int(np.sum(values > 1e-9 * values[0])))


def _self_trained(
    unlabelled: np.ndarray,
    coordinates: np.ndarray,
    labels: np.ndarray,
    classes: int,
    strength: float,
    balanced: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """Returns weights and bias as `_solve` does, after rounds of self-training on the unlabelled
    examples.
    """
    weights, bias = _solve(coordinates, labels, classes, strength, balanced)
    for _ in range(ROUNDS):
        shares = probabilities(unlabelled @ weights + bias)
        # Sharpened and balanced over the classes, else a class that is predicted often absorbs the
        # others (Xie et al. 2016).
        target = shares**2 / shares.sum(0)
        target /= target.sum(1, keepdims=True)
        surest = np.argsort(-target.max(1), kind="stable")[: round(SUREST * len(unlabelled))]
        importance = np.append(np.ones(len(labels)), np.full(len(surest), PSEUDO_WEIGHT))
        both = (
            np.concatenate([coordinates, unlabelled[surest]]),
            np.append(labels, target[surest].argmax(1)),
        )
        weights, bias = _solve(*both, classes, strength, balanced, importance)
    return weights, bias


def _solve(
    coordinates: np.ndarray,
    labels: np.ndarray,
    classes: int,
    strength: float,
    balanced: bool,
    importance: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Returns weights [R, classes] and bias [classes]. A class without examples gets a small, fixed
    logit.
    """
    options = {
        "C": strength,
        "max_iter": _ITERATIONS,
        "class_weight": "balanced" if balanced else None,
    }

    def regression(truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Weights [R, classes that occur] and bias."""
        model = LogisticRegression(**options).fit(coordinates, truth, importance)
        if len(model.classes_) == 2:  # one logit, of the second class
            return np.concatenate([0 * model.coef_, model.coef_]).T, np.append(0, model.intercept_)
        return model.coef_.T, model.intercept_

    weights = np.zeros([coordinates.shape[1], classes])
    bias = np.zeros(classes)
    if labels.ndim == 1:
        present = np.unique(labels)
        bias[:] = -_ABSENT
        bias[present] = 0
        if len(present) > 1:
            weights[:, present], bias[present] = regression(labels)
        return weights, bias
    for number in range(classes):
        column = labels[:, number] > 0.5
        if column.any() and not column.all():
            both, offsets = regression(column)
            weights[:, number], bias[number] = both[:, 1], offsets[1]
        else:
            bias[number] = _ABSENT if column.all() else -_ABSENT
    return weights, bias
