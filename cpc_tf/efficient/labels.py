"""Which labels a classifier may see, and what a run derives from their number and from its encoder.

The labels are a stratified, seeded, nested part of all, and some of them are held out.
"""

from __future__ import annotations

import json
import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from cpc_tf.data import draws
from cpc_tf.efficient.config import EfficientConfig, LabelsConfig
from cpc_tf.encoders.card import EncoderName, find_card
from cpc_tf.encoders.config import PIXELS
from cpc_tf.settings import ConfigError, derived
from cpc_tf.training.config import UsualTraining, refuse_large_batch

# As long as imagenette/efficient trains on 950 labels; with 80 labels nothing changed after 400 steps.
USUAL = UsualTraining(batch=64, epochs=100, least_steps=400)
# Head of as many labels at least -> blocks and width: the paper's, and that of imagenette/efficient.
HEADS = {10_000: (11, 4096), 0: (2, 512)}
MOST_VIEWS, ALL_VIEWS = 16, 8000  # of each image, and of all: a view on the feature map of 128 px takes 256 KB
PAPERS_SIZES = 256, 224


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

    A multi-label example counts for one of its classes, see `rarest`; a class with too few of its own gives
    all of them, and one with a single label holds out none.

    Args:
      labels: int64 [N], of all examples; or float32 [N, classes] of 0 and 1.
      class_names, config, seed: of the run.
      group_of: int64 [N], see `Source.groups`; None: each example is alone.

    Raises:
      ConfigError: a class would get no label, or has too few.
    """
    multi_label = labels.ndim == 2
    strata, titles = (draws.rarest(labels), (*class_names, "no class")) if multi_label else (labels, class_names)
    chosen = []
    for number, name in enumerate(titles):
        shuffled = np.random.default_rng([seed, number]).permutation(np.flatnonzero(strata == number))
        count = _part(len(shuffled), config) if multi_label else _count(name, len(shuffled), config)
        chosen.append(shuffled[:count])
    if multi_label:
        _refuse_unseen(labels, class_names, np.concatenate(chosen), config)
    fraction = sum(map(len, chosen)) / len(labels) if config.labels_per_class else config.label_fraction
    group_of = np.arange(len(labels)) if group_of is None else group_of
    held = np.array(
        sorted(draws.last_part(map(np.ndarray.tolist, chosen), group_of.tolist().__getitem__, config.held_out))
    )
    every = np.sort(np.concatenate(chosen))
    fit, held = every[~np.isin(every, held)], every[np.isin(every, held)]
    if not config.held_out or not (any if multi_label else all)(np.isin(indices, held).any() for indices in chosen):
        return Labels(every, None, None, fraction)
    return Labels(every, fit, held, fraction)


def _refuse_unseen(labels: np.ndarray, class_names: tuple[str, ...], seen: np.ndarray, config: LabelsConfig) -> None:
    """Raises ConfigError if a class has no example among those that are chosen."""
    for name, have, chosen in zip(class_names, labels.sum(0), labels[seen].sum(0)):
        if not have:
            raise ConfigError(f"--split: class {name} has no examples there, so it cannot be learned")
        if not chosen:
            flag = "labels_per_class" if config.labels_per_class else "label_fraction"
            value = getattr(config, flag)
            raise ConfigError(flag, value, f"leaves none of the {have:g} labels of class {name}; say more")


def _count(name: str, have: int, config: LabelsConfig) -> int:
    """How many labels a class gives that has so many."""
    fraction, per_class = config.label_fraction, config.labels_per_class
    if not have:
        raise ConfigError(f"--split: class {name} has no examples there, so it cannot be learned")
    count = per_class or _part(have, config)
    if not count:
        raise ConfigError(
            "label_fraction",
            fraction,
            f"leaves none of the {have} labels of class {name}; the least that gives "
            f"one is {math.ceil(5e5 / have) / 1e6:g}, or say --labels_per_class=1",
        )
    if count > have:
        raise ConfigError("labels_per_class", per_class, f"class {name} has only {have}")
    return count


def _part(have: int, config: LabelsConfig) -> int:
    """How many labels of so many are used: exact, so that 0.29 of 100 is 29; half a label more is one more."""
    part = int(Fraction(str(config.label_fraction)) * have + Fraction(1, 2))
    return min(config.labels_per_class, have) if config.labels_per_class else part


def from_encoder(config: EfficientConfig) -> tuple[EfficientConfig, str]:
    """Returns the settings with the sizes of images, and a line on those that were not given."""
    name, given = EncoderName.parse(config.classifier.encoder), config.images
    card = find_card(name.module) if name.module else None
    usual, side = (card.geometry.resize, card.geometry.image_size) if card else PAPERS_SIZES
    image_size = given.image_size or min(side, given.resize or side)
    resize = max(image_size, round(image_size * usual / side))
    source = "the encoder's card" if card else "the paper, since --encoder has no card"
    return derived(config, {"resize": resize, "image_size": image_size}, source)


def from_labels(config: EfficientConfig, labels: Labels, replicas: int) -> tuple[EfficientConfig, str]:
    """Returns the settings with batch, length and classifier, and a line on those that were not given.

    Raises ConfigError if a batch is larger than what it is drawn from.
    """
    count = len(labels.chosen if labels.fit is None else labels.fit)
    values = USUAL.settings(count, replicas, config.training.batch_size)
    if not config.classifier.head_width:
        blocks, values["head_width"] = next(head for least, head in HEADS.items() if count >= least)
        if config.classifier.encoder != PIXELS:
            values["head_blocks"] = blocks
    views = min(MOST_VIEWS, ALL_VIEWS // len(labels.chosen))
    values["cached_views"] = views if views > 1 and config.classifier.encoder != PIXELS else 0
    config, told = derived(config, values, f"{len(labels.chosen)} labels")
    views = 1 if config.classifier.encoder == PIXELS else max(1, config.sgd.cached_views)
    refuse_large_batch(config.training, count * views)
    return config, told
