"""Which labels a classifier may see: a stratified, seeded, nested part, and which of those are held out."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from cpc_tf.data import draws
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


def choose_labels(
    labels: np.ndarray,
    class_names: tuple[str, ...],
    config: LabelsConfig,
    seed: int,
    group_of: np.ndarray | None = None,
) -> Labels:
    """The labels that a run may see.

    Stratified: each class gives the same part of its examples, rounded, and holds out the same part of these, at least
    one. Nested: a smaller part lies inside a larger one of the same seed. Nothing is held out if a class has only one.
    The examples of a group are held out together.

    With several labels an example counts for one of its classes, see `rarest`; a class with too few of its own gives
    all of them, and one with a single label holds out none.

    Args:
      labels: int64 [N], of all examples; or float32 [N, classes] of 0 and 1.
      class_names, config, seed: of the run.
      group_of: int64 [N], see `Source.groups`; None: each example is alone.

    Raises:
      ConfigError: a class would get no label, or has too few.
    """
    several = labels.ndim == 2
    strata, titles = (draws.rarest(labels), (*class_names, "no class")) if several else (labels, class_names)
    chosen = []
    for number, name in enumerate(titles):
        shuffled = np.random.default_rng([seed, number]).permutation(np.flatnonzero(strata == number))
        count = _part(len(shuffled), config) if several else _count(name, len(shuffled), config)
        chosen.append(shuffled[:count])
    if several:
        _refuse_unseen(labels, class_names, np.concatenate(chosen), config)
    fraction = sum(map(len, chosen)) / len(labels) if config.labels_per_class else config.label_fraction
    group_of = np.arange(len(labels)) if group_of is None else group_of
    held = np.array(
        sorted(draws.last_part(map(np.ndarray.tolist, chosen), group_of.tolist().__getitem__, config.held_out))
    )
    every = _sorted(chosen)
    fit, held = every[~np.isin(every, held)], every[np.isin(every, held)]
    if not config.held_out or not (any if several else all)(np.isin(own, held).any() for own in chosen):
        return Labels(every, None, None, fraction)
    return Labels(every, fit, held, fraction)


def _refuse_unseen(labels: np.ndarray, class_names: tuple[str, ...], seen: np.ndarray, config: LabelsConfig) -> None:
    """Raises ConfigError if a class has no example among those that are chosen."""
    for name, have, found in zip(class_names, labels.sum(0), labels[seen].sum(0)):
        if not have:
            raise ConfigError(f"--split: class {name} has no examples there, so it cannot be learned")
        if not found:
            flag = "labels_per_class" if config.labels_per_class else "label_fraction"
            value = getattr(config, flag)
            raise ConfigError(f"--{flag}={value}: leaves none of the {have:g} labels of class {name}; say more")


def _count(name: str, have: int, config: LabelsConfig) -> int:
    """How many labels a class gives that has so many."""
    fraction, per_class = config.label_fraction, config.labels_per_class
    if not have:
        raise ConfigError(f"--split: class {name} has no examples there, so it cannot be learned")
    count = per_class or _part(have, config)
    if not count:
        raise ConfigError(
            f"--label_fraction={fraction}: leaves none of the {have} labels of class {name}; the least that gives "
            f"one is {math.ceil(5e5 / have) / 1e6:g}, or say --labels_per_class=1"
        )
    if count > have:
        raise ConfigError(f"--labels_per_class={per_class}: class {name} has only {have}")
    return count


def _part(have: int, config: LabelsConfig) -> int:
    """How many labels of so many are used: exact, so that 0.29 of 100 is 29; half a label more is one more."""
    part = int(Fraction(str(config.label_fraction)) * have + Fraction(1, 2))
    return min(config.labels_per_class, have) if config.labels_per_class else part


def _sorted(of_classes: list[np.ndarray]) -> np.ndarray:
    return np.sort(np.concatenate(of_classes))
