"""The images of a run with few labels: to learn from, to select settings on, to test on, and those
without labels.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cpc_tf.core.settings import ConfigError, replace
from cpc_tf.data import catalog
from cpc_tf.data.source import Relabelled, Source, restricted
from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.efficient.inputs import Labels, choose_labels
from cpc_tf.efficient.propagation_config import NONE


class FewLabelData(NamedTuple):
    """What a run learns from and is tested on."""

    source: Source
    test_source: Source
    unlabelled: Source | None  # for label propagation
    validation: Source | None  # of --validation_split
    summary: str  # lines for the user

    @property
    def splits(self) -> dict[str, Source | None]:
        splits = {
            "split": self.source,
            "test_split": self.test_source,
            "unlabelled": self.unlabelled,
        }
        if self.validation:
            splits["validation_split"] = self.validation
        return splits

    @property
    def pool(self) -> Source | None:
        """The images that are learned from without their labels, none of --validation_split; None:
        there are none.
        """
        if not self.unlabelled:
            return None
        return restricted(self.unlabelled, _learnable(self.unlabelled, self.validation))


def open_data(config: EfficientConfig) -> FewLabelData:
    """Opens the splits of a run. Raises ConfigError if one leads nowhere or does not fit the
    settings.
    """
    labels = config.labels
    method = config.propagation.propagation
    pair = catalog.open_pair(
        replace(config.data, unlabelled=""), labels.test_split, labels.validation_split
    )
    source, test_source, summary, validation = pair
    if method == NONE:
        return FewLabelData(source, test_source, None, validation, summary)
    if source.multi_label:
        raise ConfigError(
            "propagation", method, "needs images with one label each; these have several"
        )
    unlabelled = catalog.open_unlabelled(config.data, source)
    line = f"--propagation={method}: {unlabelled.num_examples} images, whose labels are not used"
    return FewLabelData(source, test_source, unlabelled, validation, f"{summary}\n{line}")


def choose(config: EfficientConfig, data: FewLabelData) -> tuple[Labels, str]:
    """Returns the labels that a run may see, see `choose_labels`, and a line on --validation_split;
    '' without one.

    With that split its labels are held out in place of a part of these, and no image of it is
    chosen.

    Raises:
      ConfigError: a class has too few labels, or that split has all images, or some of the test.
    """
    source = data.source
    validation = data.validation
    split = config.labels.validation_split
    rows = _learnable(source, validation)
    if not len(rows):
        raise ConfigError(
            "validation_split",
            split,
            f"contains all images of --split={config.data.split}, so that none are"
            " left to train on",
        )
    if len(_learnable(data.test_source, validation)) < data.test_source.num_examples:
        raise ConfigError(
            "validation_split", split, f"contains images of --test_split={config.labels.test_split}"
        )
    which = replace(config.labels, held_out=0.0) if validation else config.labels
    labels = choose_labels(
        source.labels()[rows],
        source.class_names,
        which,
        config.training.seed,
        source.groups()[rows],
    )
    labels = labels.in_split(rows)
    if not validation:
        return labels, ""
    return (
        labels._replace(fit=labels.chosen),
        (
            f"--validation_split={split}: {validation.num_examples} labels beside the"
            f" {len(labels.chosen)} that are learned select settings and lengths; nothing is"
            " trained on these images"
        ),
    )


def _learnable(source: Source, validation: Source | None) -> np.ndarray:
    """Returns the indices of the examples that are none of --validation_split, int64 [n]."""
    if not validation:
        return np.arange(source.num_examples)
    taken = {*validation.identities()}
    return np.array(
        [index for index, key in enumerate(source.identities()) if key not in taken], np.int64
    )


def relabelled(
    source: Source, labels: Labels, pool: Source, predicted: np.ndarray
) -> tuple[Source, Labels]:
    """Returns what the second classifier of self-training learns: all images, as predicted but for
    chosen labels.

    Args:
      source, labels: the labels that the run may see.
      pool: all images, of `source` and maybe others.
      predicted: their classes, int64 [N].
    """
    keys = [*source.identities()]
    true_labels = source.labels()
    label_of = {keys[index]: true_labels[index] for index in labels.chosen}
    held_out = set()
    if labels.held_out is not None:
        held_out = {keys[index] for index in labels.held_out}
    learned = [label_of.get(key, label) for key, label in zip(pool.identities(), predicted)]
    is_held_out = np.array([key in held_out for key in pool.identities()])
    every = np.arange(pool.num_examples)
    fit = None
    tested = None
    if labels.fit is not None:
        fit = every[~is_held_out]
        tested = every[is_held_out] if held_out else None
    relabelled = Relabelled(pool, np.array(learned), source.class_names)
    return relabelled, Labels(every, fit, tested, labels.fraction)
