"""What differs between pictures with one label and with several: the loss, its metrics, scores and predictions."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from cpc_tf.evaluation import scores, several_labels


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
    def predictions(self, logits: np.ndarray) -> np.ndarray:
        """Returns the predicted labels, in the form of labels."""

    @abc.abstractmethod
    def texts(self, labels: np.ndarray) -> list[str]:
        """Returns labels as predictions.csv has them, by the numbers of the classes."""

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

    def predictions(self, logits: np.ndarray) -> np.ndarray:
        return logits.argmax(1)

    def texts(self, labels: np.ndarray) -> list[str]:
        return [str(label) for label in labels]


class SeveralLabels(LabelKind):
    """A picture has any number of classes: labels are float32 [B, classes] of 0 and 1."""

    metric_names = ("loss",)
    score_names: Mapping[str, str] = {"map": "mAP", "micro_f1": "micro-F1"}

    def metrics(self, logits: tf.Tensor, labels: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"loss": tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels, logits))}

    def score(self, logits: np.ndarray, labels: np.ndarray) -> dict[str, float]:
        return several_labels.score(logits, labels)

    def predictions(self, logits: np.ndarray) -> np.ndarray:
        return (logits > 0).astype(np.float32)  # a probability above 0.5

    def texts(self, labels: np.ndarray) -> list[str]:
        return [";".join(map(str, np.flatnonzero(row))) for row in labels]


ONE, SEVERAL = OneLabel(), SeveralLabels()


def of(several: bool) -> LabelKind:
    """Returns the kind of labels of a source, by its `several_labels`."""
    return SEVERAL if several else ONE


def of_result(result: Mapping[str, Any]) -> LabelKind:
    """Returns the kind of labels of a result.json."""
    return of(bool(result.get("several_labels")))
