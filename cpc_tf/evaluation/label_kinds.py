"""What differs between single labels and multi-label: the loss, its metrics, scores and predictions."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from cpc_tf.evaluation import class_counts, counts, scores
from cpc_tf.evaluation.calibration import probabilities
from cpc_tf.settings import ConfigError


class LabelKind(abc.ABC):
    """How pictures are labelled. Logits are float32 [B, classes]; labels are those of `Source`."""

    metric_names: tuple[str, ...]  # of a training step
    score_names: Mapping[str, str]  # {name in result.json: as printed}; settings are selected by the first

    @abc.abstractmethod
    def metrics(self, logits: tf.Tensor, labels: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns the mean loss of a batch and the other `metric_names`, float32 scalars."""

    @abc.abstractmethod
    def score(self, logits: np.ndarray, labels: np.ndarray) -> dict[str, float]:
        """Returns the scores of a test."""

    @abc.abstractmethod
    def choices(self, logits: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns logits [M, K] and labels int64 [M] of choices among K, to calibrate: the softmax is a probability."""

    @abc.abstractmethod
    def rows(self, logits: np.ndarray, labels: np.ndarray, class_names: Sequence[str]) -> list[tuple[str, str, str]]:
        """Returns (class, prediction, probability) of each picture as predictions.csv has them."""

    @abc.abstractmethod
    def classes(self, logits: np.ndarray, labels: np.ndarray, class_names: Sequence[str]) -> dict[str, dict[str, int]]:
        """Returns 'classes' of a result.json, see `class_counts`."""

    @abc.abstractmethod
    def value(self, name: str, scores: Mapping[str, Any]) -> str:
        """Returns a score as text."""

    @property
    def main(self) -> str:
        """The score that settings are selected by."""
        return next(iter(self.score_names))

    def titled(self, result: Mapping[str, Any], phase: str = "") -> list[tuple[str, str]]:
        """Returns (title, value) of the scores of a result.json, or of one of its phases, as people read them."""
        scores = telling(result)
        scores = {"tested": tested(result), **(scores["phases"][phase] if phase else scores)}
        return [(title, self.value(name, scores)) for name, title in self.score_names.items() if name in scores]

    def described(self, result: Mapping[str, Any], phase: str = "") -> str:
        """Returns the same as one text."""
        return "  ".join(map(" ".join, self.titled(result, phase)))

    def caution(self, result: Mapping[str, Any]) -> list[str]:
        """Returns what a test of few pictures tells as a line of text; none of many."""
        return [f"note: {said}" for said in [counts.caution(tested(result), self.main == "top1")] if said]


class SingleLabel(LabelKind):
    """A picture has one class: labels are int64 [B]."""

    metric_names = ("loss", "accuracy")
    score_names: Mapping[str, str] = {"top1": "top-1", "top5": "top-5"}

    def metrics(self, logits: tf.Tensor, labels: tf.Tensor) -> dict[str, tf.Tensor]:
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
        correct = tf.equal(tf.argmax(logits, 1), labels)
        return {"loss": loss, "accuracy": tf.reduce_mean(tf.cast(correct, tf.float32))}

    def score(self, logits: np.ndarray, labels: np.ndarray) -> dict[str, float]:
        if bare := int((labels < 0).sum()):  # of records that are too many to look at their labels before
            raise ConfigError(
                f"{bare} of {len(labels)} images to be scored on have no label; another --test_split may have them"
            )
        return scores.score(logits, labels)

    def choices(self, logits: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return logits, labels

    def rows(self, logits: np.ndarray, labels: np.ndarray, class_names: Sequence[str]) -> list[tuple[str, str, str]]:
        shares = probabilities(logits).max(1)
        pictures = zip(labels, logits.argmax(1), shares)
        return [(class_names[label], class_names[guess], f"{share:.4f}") for label, guess, share in pictures]

    def classes(self, logits: np.ndarray, labels: np.ndarray, class_names: Sequence[str]) -> dict[str, dict[str, int]]:
        truth, guesses = (values[:, None] == np.arange(len(class_names)) for values in (labels, logits.argmax(1)))
        return class_counts.to_json(class_names, truth, guesses)

    def value(self, name: str, scores: Mapping[str, Any]) -> str:
        return counts.shown(scores[name], scores["tested"])


class MultiLabel(LabelKind):
    """A picture has any number of classes: labels are float32 [B, classes] of 0 and 1."""

    metric_names = ("loss",)
    score_names: Mapping[str, str] = {"map": "mAP", "micro_f1": "micro-F1"}

    def metrics(self, logits: tf.Tensor, labels: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"loss": tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels, logits))}

    def score(self, logits: np.ndarray, labels: np.ndarray) -> dict[str, float]:
        return scores.multi_label_score(logits, labels)

    def choices(self, logits: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        pairs = logits.reshape(-1, 1)  # of each pair of picture and class, whose choice is between no and yes
        return np.concatenate([np.zeros_like(pairs), pairs], 1), labels.reshape(-1).astype(np.int64)

    def rows(self, logits: np.ndarray, labels: np.ndarray, class_names: Sequence[str]) -> list[tuple[str, str, str]]:
        shares = probabilities(self.choices(logits, labels)[0])[:, 1].reshape(logits.shape)
        predicted = logits > 0  # a probability above 0.5

        def named(which: np.ndarray) -> str:
            return ";".join(class_names[number] for number in np.flatnonzero(which))

        return [
            (named(label), named(guess), ";".join(f"{p:.4f}" for p in share[guess]))
            for label, guess, share in zip(labels, predicted, shares)
        ]

    def classes(self, logits: np.ndarray, labels: np.ndarray, class_names: Sequence[str]) -> dict[str, dict[str, int]]:
        return class_counts.to_json(class_names, labels > 0.5, logits > 0)

    def value(self, name: str, scores: Mapping[str, Any]) -> str:
        few = 0 < scores["tested"] < counts.MANY and name == self.main
        return f"{100 * scores[name]:.1f} %" + few * f" ({scores['tested']} pictures)"


SINGLE_LABEL, MULTI_LABEL = SingleLabel(), MultiLabel()


def of(multi_label: bool) -> LabelKind:
    """Returns the kind of labels of a source, by its `multi_label`."""
    return MULTI_LABEL if multi_label else SINGLE_LABEL


def is_multi_label(record: Mapping[str, Any]) -> bool:
    """Returns whether a result.json or a classifier.json is multi-label; earlier versions wrote `several_labels`."""
    return record.get("multi_label", record.get("several_labels")) is True


def of_result(result: Mapping[str, Any]) -> LabelKind:
    """Returns the kind of labels of a result.json."""
    return of(is_multi_label(result))


def tested(result: Mapping[str, Any]) -> int:
    """Returns how many pictures a result.json was tested on; 0 if it does not say.

    Earlier versions counted them only where they measured the calibration, of one label a picture.
    """
    calibration = {} if is_multi_label(result) else result.get("calibration")
    count = result.get("tested") or (calibration.get("tested") if isinstance(calibration, dict) else 0)
    return count if isinstance(count, int) else 0


def few(result: Mapping[str, Any]) -> bool:
    """Returns whether a result.json is of so few pictures that its shares need their counts."""
    return 0 < tested(result) < counts.MANY


def telling(result: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a result.json without the top-5 of five classes or fewer, which earlier versions wrote: always 1."""
    classes = result.get("num_classes") or len(result.get("class_names") or ())
    if not 0 < classes < scores.LEAST_FOR_TOP5:
        return dict(result)
    phases = {name: _without_top5(phase) for name, phase in result.get("phases", {}).items()}
    return {**_without_top5(result), **({"phases": phases} if phases else {})}


def _without_top5(scores: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in scores.items() if name != "top5"}
