"""Which labels a classifier may see: a stratified, seeded, nested part, and which of those are held out."""

from __future__ import annotations

import fractions
import json
import math
from typing import NamedTuple

import numpy as np

from cpc_tf.efficient.config import LabelsConfig
from cpc_tf.settings import ConfigError


class Labels(NamedTuple):
    """The labels of a run, as ascending indices into a split in the order of its files.

    Attributes:
      chosen: those that may be seen, int64 [n].
      fit, held_out: these in two parts, to select settings on; None if nothing can be held out.
      fraction: which part of all labels the chosen are.
    """

    chosen: np.ndarray
    fit: np.ndarray | None
    held_out: np.ndarray | None
    fraction: float

    def to_json(self) -> str:
        """The content of labels.json."""
        held_out = [] if self.held_out is None else self.held_out.tolist()
        return json.dumps({"chosen": self.chosen.tolist(), "held_out": held_out}) + "\n"


def choose_labels(labels: np.ndarray, class_names: tuple[str, ...], config: LabelsConfig, seed: int) -> Labels:
    """The labels that a run may see.

    Args:
      labels: int64 [N], of all examples.
      class_names: of the labels.
      config: how many, and how many of them are held out.
      seed: of the choice.

    Raises:
      ConfigError: a class would get no label, or has too few.
    """
    chosen = choose(labels, class_names, config.label_fraction, config.labels_per_class, seed)
    fit, held_out = hold_out(labels, chosen, config.held_out, seed) or (None, None)
    return Labels(
        chosen, fit, held_out, len(chosen) / len(labels) if config.labels_per_class else config.label_fraction
    )


def choose(
    labels: np.ndarray, class_names: tuple[str, ...], fraction: float, per_class: int = 0, seed: int = 0
) -> np.ndarray:
    """The indices of the labels that a classifier may see.

    Stratified: each class gives the same part of its examples, rounded. Nested: a smaller part lies inside a larger
    one of the same seed.

    Args:
      labels: int64 [N].
      class_names: of the labels.
      fraction: in (0, 1], of each class.
      per_class: if not 0, so many of each class instead.
      seed: of the choice.

    Returns:
      int64 [n], ascending.

    Raises:
      ConfigError: a class would get no label, or has fewer than `per_class`.
    """
    chosen = []
    for number, name in enumerate(class_names):
        indices = _shuffled(labels, number, seed)
        have = len(indices)
        # Exact, so that 0.29 of 100 is 29; half a label more is one more.
        count = per_class or int(fractions.Fraction(str(fraction)) * have + fractions.Fraction(1, 2))
        if not have:
            raise ConfigError(f"--split: class {name} has no examples there, so it cannot be learned")
        if not count:
            raise ConfigError(
                f"--label_fraction={fraction}: leaves none of the {have} labels of class {name}; the least that gives "
                f"one is {math.ceil(5e5 / have) / 1e6:g}, or say --labels_per_class=1"
            )
        if count > have:
            raise ConfigError(f"--labels_per_class={per_class}: class {name} has only {have}")
        chosen.append(indices[:count])
    return np.sort(np.concatenate(chosen))


def hold_out(
    labels: np.ndarray, chosen: np.ndarray, part: float, seed: int = 0
) -> tuple[np.ndarray, np.ndarray] | None:
    """Splits chosen labels into those to fit and those held out to select settings on, class by class.

    Args:
      labels: int64 [N], of all examples.
      chosen: indices, int64 [n].
      part: in [0, 1), held out of each class; at least one of it.

    Returns:
      (indices to fit, indices held out), ascending; None if nothing is to be held out or a class has only one label.
    """
    fit, held_out = [], []
    for number in np.unique(labels[chosen]):
        indices = _shuffled(labels, number, seed)
        indices = indices[np.isin(indices, chosen)]
        if not part or len(indices) < 2:
            return None
        count = max(1, round(part * len(indices)))
        fit.append(indices[:-count])
        held_out.append(indices[-count:])
    return np.sort(np.concatenate(fit)), np.sort(np.concatenate(held_out))


def _shuffled(labels: np.ndarray, number: int, seed: int) -> np.ndarray:
    """All indices of a class in the order in which they are given out."""
    return np.random.default_rng([seed, int(number)]).permutation(np.flatnonzero(labels == number))
