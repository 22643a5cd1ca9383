"""How often a test had each class, how often it was predicted, and how often rightly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

SHOWN = 10  # classes on a line


class ClassCount(NamedTuple):
    """The pictures of a class in a test, those that were predicted to be of it, and those that were both."""

    name: str
    tested: int
    predicted: int
    right: int

    @property
    def recall(self) -> float | None:
        """Which part of the class was found; None if the test has no picture of it."""
        return self.right / self.tested if self.tested else None

    @property
    def precision(self) -> float | None:
        """Which part of the predictions of the class is right; None if there is none."""
        return self.right / self.predicted if self.predicted else None


def to_json(class_names: Sequence[str], truth: np.ndarray, guesses: np.ndarray) -> dict[str, dict[str, int]]:
    """Returns 'classes' of a result.json: {name: {'tested', 'predicted', 'right'}}.

    Args:
      class_names: [C].
      truth, guesses: whether a picture is of a class, and is predicted to be, bool [N, C].
    """
    counts = np.stack([truth.sum(0), guesses.sum(0), (truth & guesses).sum(0)], 1).tolist()
    return {name: dict(zip(ClassCount._fields[1:], count)) for name, count in zip(class_names, counts)}


def of_result(result: Mapping[str, Any]) -> list[ClassCount]:
    """Returns the counts of a result.json, the classes that were found least first; none of an earlier version."""
    counts = [ClassCount(name, **count) for name, count in result.get("classes", {}).items()]
    return sorted(counts, key=lambda count: (2.0 if count.recall is None else count.recall, -count.tested))


def lines(result: Mapping[str, Any]) -> list[str]:
    """Returns what the accuracy of all classes together does not tell, as lines of text; none if it is not known.

    That is which part of each class was found, of the worst ones first, and what the largest class alone would give, if
    there is one.
    """
    counts = [count for count in of_result(result) if count.tested]
    if not counts:
        return []
    each = ", ".join(f"{count.name} {count.right} of {count.tested}" for count in counts[:SHOWN])
    more = f" and {len(counts) - SHOWN} more" if len(counts) > SHOWN else ""
    mean = sum(count.recall for count in counts) / len(counts)
    if result.get("multi_label"):
        return [f"found at a probability of 0.5: {each}{more}"]
    said = [f"mean of the classes {100 * mean:.1f} %: {each}{more}"]
    largest = max(counts, key=lambda count: count.tested)
    if any(count.tested < largest.tested for count in counts):
        alone = largest.tested / sum(count.tested for count in counts)
        said.append(f"always {largest.name}, the largest class: {100 * alone:.1f} %")
    return said
