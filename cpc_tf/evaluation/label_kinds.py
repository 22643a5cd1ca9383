"""What differs between single-label and multi-label images: loss, metrics and scores of a
classifier.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from cpc_tf.core.settings import ConfigError
from cpc_tf.evaluation import counts, scores
from cpc_tf.evaluation.scores import probabilities

_CLASSES_ON_A_LINE = 10


class LabelKind(abc.ABC):
    """How images are labelled. Logits are float32 [B, classes]; labels are those of `Source`."""

    metric_names: tuple[str, ...]  # of a training step
    # {name in result.json: as printed}; settings are selected by the first
    score_names: Mapping[str, str]

    @abc.abstractmethod
    def metrics(self, logits: tf.Tensor, labels: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns the mean loss of a batch and the other `metric_names`, float32 scalars."""

    @abc.abstractmethod
    def score(
        self,
        logits: np.ndarray,
        labels: np.ndarray,
        groups: np.ndarray | None = None,
        inflation: float = 1.0,
    ) -> dict[str, float]:
        """Returns the scores of a test; `groups` and `inflation` widen an interval, see
        `scores.score`.
        """

    @abc.abstractmethod
    def choices(self, logits: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns logits [M, K] and labels int64 [M] of choices among K, to calibrate: the softmax
        is a probability.
        """

    @abc.abstractmethod
    def rows(
        self, logits: np.ndarray, labels: np.ndarray, class_names: Sequence[str]
    ) -> list[tuple[str, str, str]]:
        """Returns (class, prediction, probability) of each image as predictions.csv has them."""

    @abc.abstractmethod
    def classes(
        self, logits: np.ndarray, labels: np.ndarray, class_names: Sequence[str]
    ) -> dict[str, dict[str, int]]:
        """Returns 'classes' of a result.json, see `counts.count_classes`."""

    @abc.abstractmethod
    def value(self, name: str, scores: Mapping[str, Any]) -> str:
        """Returns a score as text."""

    @abc.abstractmethod
    def of_classes(self, counted: Sequence[counts.ClassCount]) -> list[str]:
        """Returns what the scores of all classes together do not tell, as lines of text.

        Args:
          counted: classes with test images, at least one, the worst recall first.
        """

    @property
    def main(self) -> str:
        """The score that settings are selected by."""
        return next(iter(self.score_names))

    def titled(self, result: Mapping[str, Any], phase: str = "") -> list[tuple[str, str]]:
        """Returns (title, value) of the scores of a result.json, or of one of its phases, as people
        read them.
        """
        of_all = {"tested": tested(result), "effective": result.get("effective", 0.0)}
        scores = {**of_all, **(result["phases"][phase] if phase else result)}
        return [
            (title, self.value(name, scores))
            for name, title in self.score_names.items()
            if name in scores
        ]

    def described(self, result: Mapping[str, Any], phase: str = "") -> str:
        """Returns the same as one text."""
        return "  ".join(map(" ".join, self.titled(result, phase)))

    def caution(self, result: Mapping[str, Any]) -> list[str]:
        """Returns a line of text on a test of few images; none of many."""
        caution = counts.caution(tested(result), accuracy=self.main == "top1")
        return [f"note: {caution}"] if caution else []

    def remarks(self, result: Mapping[str, Any]) -> list[str]:
        """Returns lines of text on the classes of a result.json, if it has them, and the
        `caution`.
        """
        counted = [count for count in counts.class_counts(result) if count.tested]
        of_classes = self.of_classes(counted) if counted else []
        return [*of_classes, *self.of_frequencies(result, counted), *self.caution(result)]

    def of_frequencies(
        self, result: Mapping[str, Any], counted: Sequence[counts.ClassCount]
    ) -> list[str]:
        """Returns what the frequencies of the classes alone would give, as lines of text."""
        del result, counted
        return []


def _recalls(counted: Sequence[counts.ClassCount]) -> str:
    text = ", ".join(
        f"{count.name} {count.right} of {count.tested}" for count in counted[:_CLASSES_ON_A_LINE]
    )
    return text + (
        f" and {len(counted) - _CLASSES_ON_A_LINE} more"
        if len(counted) > _CLASSES_ON_A_LINE
        else ""
    )


class SingleLabel(LabelKind):
    """An image has one class: labels are int64 [B]."""

    metric_names = ("loss", "accuracy")
    score_names: Mapping[str, str] = {"top1": "top-1", "top5": "top-5"}

    def metrics(self, logits: tf.Tensor, labels: tf.Tensor) -> dict[str, tf.Tensor]:
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
        correct = tf.equal(tf.argmax(logits, 1), labels)
        return {"loss": loss, "accuracy": tf.reduce_mean(tf.cast(correct, tf.float32))}

    def score(
        self,
        logits: np.ndarray,
        labels: np.ndarray,
        groups: np.ndarray | None = None,
        inflation: float = 1.0,
    ) -> dict[str, float]:
        # of records that are too many to look at their labels before
        if bare := int((labels < 0).sum()):
            raise ConfigError(
                f"{bare} of {len(labels)} images to be scored on have no label; another"
                " --test_split may have them"
            )
        return scores.score(logits, labels, groups, inflation)

    def choices(self, logits: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return logits, labels

    def rows(
        self, logits: np.ndarray, labels: np.ndarray, class_names: Sequence[str]
    ) -> list[tuple[str, str, str]]:
        confidence = probabilities(logits).max(1)
        pictures = zip(labels, logits.argmax(1), confidence)
        return [
            (class_names[label], class_names[guess], f"{p:.4f}") for label, guess, p in pictures
        ]

    def classes(
        self, logits: np.ndarray, labels: np.ndarray, class_names: Sequence[str]
    ) -> dict[str, dict[str, int]]:
        numbers = np.arange(len(class_names))
        truth = labels[:, None] == numbers
        guesses = scores.guesses(logits)[:, None] == numbers
        return counts.count_classes(class_names, truth, guesses)

    def value(self, name: str, scores: Mapping[str, Any]) -> str:
        return counts.share_text(scores[name], scores["tested"], scores.get("effective", 0.0))

    def of_classes(self, counted: Sequence[counts.ClassCount]) -> list[str]:
        mean = sum(count.recall for count in counted) / len(counted)
        lines = [f"mean of the classes {100 * mean:.1f} %: {_recalls(counted)}"]
        largest = max(counted, key=lambda count: count.tested)
        if any(count.tested < largest.tested for count in counted):
            share = largest.tested / sum(count.tested for count in counted)
            lines.append(f"always {largest.name}, the largest class: {100 * share:.1f} %")
        return lines


class MultiLabel(LabelKind):
    """An image has any number of classes: labels are float32 [B, classes] of 0 and 1."""

    metric_names = ("loss",)
    score_names: Mapping[str, str] = {"map": "mAP", "micro_f1": "micro-F1"}

    def metrics(self, logits: tf.Tensor, labels: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"loss": tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels, logits))}

    def score(
        self,
        logits: np.ndarray,
        labels: np.ndarray,
        groups: np.ndarray | None = None,
        inflation: float = 1.0,
    ) -> dict[str, float]:
        del groups, inflation  # a mean average precision has no interval
        return scores.multi_label_score(logits, labels)

    def choices(self, logits: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        # of each pair of image and class, whose choice is between no and yes
        pairs = logits.reshape(-1, 1)
        return np.concatenate([np.zeros_like(pairs), pairs], 1), labels.reshape(-1).astype(np.int64)

    def rows(
        self, logits: np.ndarray, labels: np.ndarray, class_names: Sequence[str]
    ) -> list[tuple[str, str, str]]:
        confidences = probabilities(self.choices(logits, labels)[0])[:, 1].reshape(logits.shape)

        def names(mask: np.ndarray) -> str:
            return ";".join(class_names[number] for number in np.flatnonzero(mask))

        rows = []
        for label, guess, confidence in zip(labels, logits > 0, confidences):
            sure = [f"{each:.4f}" for each in confidence[guess]]  # above 0.5
            rows.append((names(label), names(guess), ";".join(sure)))
        return rows

    def classes(
        self, logits: np.ndarray, labels: np.ndarray, class_names: Sequence[str]
    ) -> dict[str, dict[str, int]]:
        return counts.count_classes(class_names, labels > 0.5, logits > 0)

    def value(self, name: str, scores: Mapping[str, Any]) -> str:
        few = 0 < scores["tested"] < counts.MANY and name == self.main
        return f"{100 * scores[name]:.1f} %" + few * f" ({scores['tested']} images)"

    def of_classes(self, counted: Sequence[counts.ClassCount]) -> list[str]:
        return [f"found at a probability of 0.5: {_recalls(counted)}"]

    def of_frequencies(
        self, result: Mapping[str, Any], counted: Sequence[counts.ClassCount]
    ) -> list[str]:
        lines = []
        if "map_chance" in result:
            lines.append(f"a random order of the images: mAP {100 * result['map_chance']:.1f} %")
        always = [count.name for count in counted if count.tested == tested(result)]
        if always:
            lines.append(f"left out of the mAP, since every image has it: {', '.join(always)}")
        return lines


SINGLE_LABEL = SingleLabel()
MULTI_LABEL = MultiLabel()


def of(multi_label: bool) -> LabelKind:
    """Returns the kind of labels of a source, by its `multi_label`."""
    return MULTI_LABEL if multi_label else SINGLE_LABEL


def is_multi_label(record: Mapping[str, Any]) -> bool:
    """Returns whether a result.json or a classifier.json is multi-label."""
    return record.get("multi_label") is True


def of_result(result: Mapping[str, Any]) -> LabelKind:
    """Returns the kind of labels of a result.json."""
    return of(is_multi_label(result))


def tested(result: Mapping[str, Any]) -> int:
    """Returns how many images a result.json was tested on; 0 if it does not say."""
    count = result.get("tested")
    return count if isinstance(count, int) else 0


def independent(result: Mapping[str, Any]) -> float:
    """Returns how many independent images a result.json was tested on, see
    `counts.effective_count`; 0: unknown.
    """
    effective = result.get("effective")
    return effective if isinstance(effective, (int, float)) and effective > 0 else tested(result)


def is_small_test(result: Mapping[str, Any]) -> bool:
    """Returns whether a result.json is of so few images that its shares need their counts."""
    return 0 < tested(result) < counts.MANY


_MEANINGS = {
    "top5": "top-5: the right class is among the five likeliest",
    "map": (
        "mAP: whether the images of a class come first in the order of its probability, mean of the"
        " classes"
    ),
    "micro_f1": (
        "micro-F1: 100 % if no class is missed and none is named wrongly, at a probability of 0.5"
    ),
}


def meanings(result: Mapping[str, Any]) -> list[str]:
    """Returns lines of text on what the scores of a result.json are that not everybody knows."""
    return [text for name, text in _MEANINGS.items() if name in result]
