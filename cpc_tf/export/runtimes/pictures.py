"""The pictures on which a converted module is compared with the one it was made of."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from cpc_tf.data import catalog, photos
from cpc_tf.data.config import DataConfig
from cpc_tf.data.source import Source, SplitError
from cpc_tf.export.runtimes.subject import Subject
from cpc_tf.settings import ConfigError

REPRESENTATIVE, LABELLED = 100, 1000  # pictures at most


def photographs(subject: Subject) -> np.ndarray:
    """Parts of the 19 embedded photographs, prepared for the module: uint8 [19, S, S, 3]."""
    regions = [tf.constant(np.asarray(region)) for region in photos.regions("test")]
    return np.stack([subject.prepare(region).numpy() for region in regions])


def representative(subject: Subject, folder: str) -> np.ndarray:
    """Up to 100 pictures from all parts of a folder: uint8 [N, S, S, 3]. Raises ConfigError if it has none."""
    with _naming("representative"):
        source = catalog.open_source(DataConfig(dataset=f"folder:{folder}"), "train", "representative")
    return _spread(subject, source, REPRESENTATIVE)[0]


def labelled(subject: Subject, folder: str) -> tuple[np.ndarray, np.ndarray]:
    """Up to 1,000 pictures from all parts of a folder with class folders, of its split `val` if it has one.

    Returns:
      uint8 [N, S, S, 3], and labels int64 [N]: of a classifier's classes, if the module is one.

    Raises:
      ConfigError: it has no class folders, or one that the classifier does not know, or that has several labels a
        picture.
    """
    if subject.card.get("several_labels"):
        raise ConfigError(f"--labelled={folder}: {subject.name} gives several labels a picture, class folders one")
    data = DataConfig(dataset=f"folder:{folder}")
    with _naming("labelled"):
        try:
            source = catalog.open_labelled(data, "val", "labelled")
        except SplitError:
            source = catalog.open_labelled(data, "train", "labelled")
    images, labels = _spread(subject, source, LABELLED)
    if not subject.class_names:
        return images, labels
    unknown = [name for name in source.class_names if name not in subject.class_names]
    if unknown:
        raise ConfigError(
            f"--labelled={folder}: has a folder {unknown[0]}, which is no class of {subject.name}; its classes are "
            f"{', '.join(subject.class_names)}"
        )
    return images, np.array([subject.class_names.index(name) for name in source.class_names])[labels]


@contextlib.contextmanager
def _naming(flag: str) -> Iterator[None]:
    """Re-raises a ConfigError about a dataset with the flag that the folder came from."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(str(error).replace("--dataset=folder:", f"--{flag}=")) from error


def _spread(subject: Subject, source: Source, most: int) -> tuple[np.ndarray, np.ndarray]:
    every = -(-source.num_examples // most)
    images, labels = [], []
    for example in source.ordered().shard(every, 0):
        images.append(subject.prepare(source.decode(example["encoded"])).numpy())
        labels.append(int(example["label"]))
    return np.stack(images), np.array(labels)
