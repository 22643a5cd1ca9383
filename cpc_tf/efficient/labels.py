"""Which labels a classifier may see: a stratified, seeded, nested part, and which of those are held out."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from cpc_tf.efficient.config import LabelsConfig
from cpc_tf.settings import ConfigError


class Labels(NamedTuple):
    """The labels of a run, as ascending indices into a split in the order of its files."""

    chosen: np.ndarray  # those that may be seen, int64 [n]
    # These in two parts, to select settings on; None if nothing can be held out.
    fit: np.ndarray | None
    held_out: np.ndarray | None
    fraction: float  # which part of all labels the chosen are

    def to_json(self) -> str:
        """The content of labels.json."""
        held_out = [] if self.held_out is None else self.held_out.tolist()
        return json.dumps({"chosen": self.chosen.tolist(), "held_out": held_out}) + "\n"


def choose_labels(labels: np.ndarray, class_names: tuple[str, ...], config: LabelsConfig, seed: int) -> Labels:
    """The labels that a run may see.

    Stratified: each class gives the same part of its examples, rounded, and holds out the same part of these, at least
    one. Nested: a smaller part lies inside a larger one of the same seed. Nothing is held out if a class has only one.

    Args:
      labels: int64 [N], of all examples.

    Raises:
      ConfigError: a class would get no label, or has too few.
    """
    chosen, fit, held_out = [], [], []
    for number, name in enumerate(class_names):
        shuffled = np.random.default_rng([seed, number]).permutation(np.flatnonzero(labels == number))
        own = shuffled[: _count(name, len(shuffled), config)]
        kept = len(own) - max(1, round(config.held_out * len(own)))
        chosen.append(own)
        fit.append(own[:kept])
        held_out.append(own[kept:])
    fraction = sum(map(len, chosen)) / len(labels) if config.labels_per_class else config.label_fraction
    if not config.held_out or min(map(len, chosen)) < 2:
        return Labels(_sorted(chosen), None, None, fraction)
    return Labels(_sorted(chosen), _sorted(fit), _sorted(held_out), fraction)


def _count(name: str, have: int, config: LabelsConfig) -> int:
    """How many labels a class gives that has so many."""
    fraction, per_class = config.label_fraction, config.labels_per_class
    if not have:
        raise ConfigError(f"--split: class {name} has no examples there, so it cannot be learned")
    # Exact, so that 0.29 of 100 is 29; half a label more is one more.
    count = per_class or int(Fraction(str(fraction)) * have + Fraction(1, 2))
    if not count:
        raise ConfigError(
            f"--label_fraction={fraction}: leaves none of the {have} labels of class {name}; the least that gives "
            f"one is {math.ceil(5e5 / have) / 1e6:g}, or say --labels_per_class=1"
        )
    if count > have:
        raise ConfigError(f"--labels_per_class={per_class}: class {name} has only {have}")
    return count


def _sorted(of_classes: list[np.ndarray]) -> np.ndarray:
    return np.sort(np.concatenate(of_classes))
