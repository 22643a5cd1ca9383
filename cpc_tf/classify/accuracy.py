"""What a classifier of some labels is worth: the one place where `cpc-tf classify` and the label
page learn it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from cpc_tf.classify import folds, logistic, random_sample
from cpc_tf.classify.logistic import LabelledFeatures, Validated
from cpc_tf.data import draws
from cpc_tf.evaluation.label_kinds import LabelKind


class Accuracy(NamedTuple):
    """What cross-validation says.

    Attributes:
      validated: of all examples.
      near: int64 [N]: which are nearly the same by their features, see `folds.nearly_the_same`.
      groups: int64 [N]: which belong together, by their files, their table or their features.
      tested: bool [N]: which examples the figures are about.
      at_random: whether these are the random sample of the label page.
    """

    validated: Validated
    near: np.ndarray
    groups: np.ndarray
    tested: np.ndarray
    at_random: bool

    def score(self, kind: LabelKind, labels: np.ndarray) -> dict[str, Any]:
        """Returns the scores of the tested examples, with an interval in which a group counts
        once.
        """
        tested = self.tested
        return kind.score(
            self.validated.logits[tested], labels[tested], self.groups[tested], logistic.INFLATION
        )

    def conflicts(self, labels: np.ndarray) -> list[tuple[int, int]]:
        """Returns the examples whose labels differ from those of a nearly equal one before them,
        and that one.
        """
        pairs = []
        _, first, number = np.unique(self.near, return_index=True, return_inverse=True)
        for index, earlier in enumerate(first[number].tolist()):
            if np.any(labels[index] != labels[earlier]):
                pairs.append((index, earlier))
        return pairs


def nearly_the_same(each: Sequence[LabelledFeatures]) -> np.ndarray:
    """Returns which examples are nearly the same by the features of any encoder, int [N]; see
    `folds`.
    """
    labels = each[0].labels
    strata = draws.rarest(labels) if labels.ndim > 1 else labels
    near = np.arange(len(labels))
    for examples in each:
        near = folds.joined(near, folds.nearly_the_same(examples.features, strata))
    return near


def judge(
    examples: LabelledFeatures,
    kind: LabelKind,
    drawn: np.ndarray | None = None,
    balanced: bool = False,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda done, of: None,
    near: np.ndarray | None = None,
) -> Accuracy | None:
    """Cross-validates a classifier, with what belongs together on one side.

    Args:
      examples: labelled by people; accepted guesses are none.
      kind: single-label or multi-label.
      drawn: bool [N]: which are of the random sample of the label page. From `random_sample.LEAST`
        of them on the figures are about these; else about all examples.
      balanced, seed, progress: as in `logistic.validate`.
      near: int [N]: which examples are nearly the same; None: those whose features say so.

    Returns:
      None if the labels are too few, see `folds.can_divide`.
    """
    if near is None:
        near = nearly_the_same([examples])
    groups = folds.joined(examples.groups, near)
    validated = logistic.validate(examples._replace(groups=groups), kind, balanced, seed, progress)
    if validated is None:
        return None
    at_random = drawn is not None and int(drawn.sum()) >= random_sample.LEAST
    tested = drawn if at_random else np.ones(len(groups), bool)
    return Accuracy(validated, near, groups, tested, at_random)
