"""What differs between pictures with one label and with several: the loss, its metrics, scores and predictions."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from cpc_tf.evaluation import scores, several_labels
from cpc_tf.evaluation.calibration import probabilities


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
    def rows(self, logits: np.ndarray, labels: np.ndarray, names: Sequence[str]) -> list[tuple[str, str, str]]:
        """Returns (class, prediction, probability) of each picture as predictions.csv has them."""

    @property
    def main(self) -> str:
        """The score that settings are selected by."""
        return next(iter(self.score_names))

    def described(self, found: Mapping[str, Any]) -> str:
        """Returns the scores as text, in percent."""
        return "  ".join(f"{title} {100 * found[name]:.1f} %" for name, title in self.score_names.items())


class OneLabel(LabelKind):
    """A picture has one class: labels are int64 [B]."""

    metric_names = ("loss", "accuracy")
    score_names: Mapping[str, str] = {"top1": "top-1", "top5": "top-5"}

    def metrics(self, logits: tf.Tensor, labels: tf.Tensor) -> dict[str, tf.Tensor]:
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
        correct = tf.equal(tf.argmax(logits, 1), labels)
        return {"loss": loss, "accuracy": tf.reduce_mean(tf.cast(correct, tf.float32))}

    def score(self, logits: np.ndarray, labels: np.ndarray) -> dict[str, float]:
        return scores.score(logits, labels)

    def choices(self, logits: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return logits, labels

    def rows(self, logits: np.ndarray, labels: np.ndarray, names: Sequence[str]) -> list[tuple[str, str, str]]:
        shares = probabilities(logits).max(1)
        return [(names[of[0]], names[of[1]], f"{of[2]:.4f}") for of in zip(labels, logits.argmax(1), shares)]


class SeveralLabels(LabelKind):
    """A picture has any number of classes: labels are float32 [B, classes] of 0 and 1."""

    metric_names = ("loss",)
    score_names: Mapping[str, str] = {"map": "mAP", "micro_f1": "micro-F1"}

    def metrics(self, logits: tf.Tensor, labels: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"loss": tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels, logits))}

    def score(self, logits: np.ndarray, labels: np.ndarray) -> dict[str, float]:
        return several_labels.score(logits, labels)

    def choices(self, logits: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        own = logits.reshape(-1, 1)  # of each pair of picture and class, whose choice is between no and yes
        return np.concatenate([np.zeros_like(own), own], 1), labels.reshape(-1).astype(np.int64)

    def rows(self, logits: np.ndarray, labels: np.ndarray, names: Sequence[str]) -> list[tuple[str, str, str]]:
        def joined(chosen: np.ndarray) -> str:
            return ";".join(names[i] for i in np.flatnonzero(chosen))

        shares = probabilities(self.choices(logits, labels)[0])[:, 1].reshape(logits.shape)
        found = logits > 0  # a probability above 0.5
        return [
            (joined(own), joined(guess), ";".join(f"{p:.4f}" for p in share[guess]))
            for own, guess, share in zip(labels, found, shares)
        ]


ONE, SEVERAL = OneLabel(), SeveralLabels()


def of(several: bool) -> LabelKind:
    """Returns the kind of labels of a source, by its `several_labels`."""
    return SEVERAL if several else ONE


def of_result(result: Mapping[str, Any]) -> LabelKind:
    """Returns the kind of labels of a result.json."""
    return of(bool(result.get("several_labels")))
