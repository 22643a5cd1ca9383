"""The two splits of a detection run, opened, counted, and with the same classes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from cpc_tf.data import catalog
from cpc_tf.data.sources import classes, summary
from cpc_tf.data.sources.source import DetectionSource, Select
from cpc_tf.detect import scoring
from cpc_tf.detect.config import DetectConfig
from cpc_tf.settings import ConfigError


class Pair(NamedTuple):
    """What a detector learns from and is tested on, how many objects these have, and lines for the user about both."""

    source: DetectionSource
    test_source: DetectionSource
    objects: int  # without difficult ones
    test_objects: int
    summary: str


def open_pair(config: DetectConfig) -> Pair:
    """Opens --split and --test_split.

    Raises:
      ConfigError: a split leads nowhere or has no objects, or the test has a class that cannot be learned.
    """
    flags = {"split": config.data.split, "test_split": config.scoring.test_split}
    opened = [_with_objects(config, split, flag) for flag, split in flags.items()]
    sources, counts, lines = _alike(config, opened, list(flags.values()))
    class_names = sources[0].class_names
    (easy, difficult), (test_easy, _) = counts
    # Difficult objects are learned from, and need not be found.
    shown = [dict(zip(class_names, found.tolist())) for found in (easy + difficult, test_easy)]
    lines += classes.compare(*shown, *flags.values(), "objects")
    used = [
        summary.Used(flag, split, source.about, source.num_examples, own, "objects")
        for (flag, split), source, own in zip(flags.items(), sources, shown)
    ]
    told = summary.summary(config.data.dataset, used, lines)
    return Pair(*sources, int(easy.sum()), int(test_easy.sum()), told)


def _with_objects(config: DetectConfig, split: str, flag: str) -> tuple[DetectionSource, np.ndarray]:
    """A split, and how many objects of each class it has: as of `scoring.objects_of_classes`."""
    data = config.data
    source = catalog.open_detection_source(
        data.dataset,
        data.data_dir,
        split,
        data.shuffle_window,
        split_flag=flag,
        max_megapixels=data.max_megapixels,
        sixteen_bit=data.sixteen_bit,
        top_folders=data.top_folders,
        negatives_without_xml=config.negatives_without_xml,
    )
    objects = scoring.objects_of_classes(source)
    if not objects[0].sum():
        raise ConfigError(f"--{flag}={split}: no object there in --dataset={data.dataset} but difficult ones")
    return source, objects


def _alike(config, opened, splits):
    """Sources and counts in which a class that two splits spell differently is one, and lines about that."""
    sources, counts = [source for source, _ in opened], [found for _, found in opened]
    names = sources[0].class_names
    present = [[name for name, some in zip(names, found.sum(0)) if some] for found in counts]
    matched = classes.match(dict(zip(splits, present)) if splits[0] != splits[1] else {splits[0]: present[0]})
    if matched.trouble:
        raise ConfigError(f"--dataset={config.data.dataset}: {matched.trouble}")
    if not matched.lines:
        return sources, counts, []
    absent = [name for name in names if name not in matched.number_of]
    new = (*matched.class_names, *absent)
    table = np.array([new.index(name) if name in absent else matched.number_of[name] for name in names])
    merged = np.arange(len(new)) == table[:, None]  # [old, new]
    return [Renamed(source, table, new) for source in sources], [found @ merged for found in counts], [*matched.lines]


class Renamed(DetectionSource):
    """A source whose classes are numbered and named anew.

    Args:
      source: the source.
      table: of each of its classes the new number, int64 [classes].
      class_names: by the new numbers.
    """

    def __init__(self, source: DetectionSource, table: np.ndarray, class_names: tuple[str, ...]):
        self.num_examples, self.class_names = source.num_examples, class_names
        self.about, self.levels = source.about, source.levels
        self.changed, self.damaged = source.changed, source.damaged
        self._source, self._table = source, tf.constant(table, tf.int64)

    def stream(self, seed: int, start: int = 0, select: Select = None) -> tf.data.Dataset:
        return self._source.stream(seed, start, select).map(self._renamed)

    def ordered(self) -> tf.data.Dataset:
        return self._source.ordered().map(self._renamed)

    def _renamed(self, example):
        return {**example, "labels": tf.gather(self._table, example["labels"])}
