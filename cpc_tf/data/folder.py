"""`folder:PATH`: the user's own pictures, flat or a folder per class, with or without train and val folders."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from absl import logging

from cpc_tf.data import folder_check, folder_tree, levels, walk
from cpc_tf.data.config import DataConfig
from cpc_tf.data.decode import Levels
from cpc_tf.data.source import NO_LABEL, IndexedSource, SplitError
from cpc_tf.settings import ConfigError
from cpc_tf.texts import escaped, listed


class FolderSource(IndexedSource):
    """Image files on a disk or in a bucket, shuffled over the whole list. See `Source`."""

    def __init__(
        self,
        root: str,
        files: folder_check.Checked,
        labels: list[int],
        class_names: tuple[str, ...],
        levels: Levels | None = None,
    ):
        """Args: the folder, its files with names relative to it, a label for each (-1: none), names of the labels."""
        self.levels = levels
        self.num_examples = len(files.names)
        self.class_names = class_names
        self._root, self._files = root, files
        self._names = tf.constant(files.names)
        self._labels = tf.constant(labels, tf.int64)

    def read(self, index: tf.Tensor) -> dict[str, tf.Tensor]:
        path = tf.strings.join([self._root, self._names[index]], "/")
        return {"encoded": tf.io.read_file(path), "label": self._labels[index]}

    def labels(self) -> np.ndarray:
        return self._labels.numpy()  # known without reading a file

    def changed(self) -> list[str]:
        names, stats, _ = self._files
        differ = (folder_check.stats(self._root, names) != stats).any(1)
        return [f"{self._root}/{names[index]}" for index in np.flatnonzero(differ)]


def open_folder(
    path: str,
    split: str,
    cache_dir: str = "",
    max_megapixels: float = DataConfig.max_megapixels,
    sixteen_bit: str = DataConfig.sixteen_bit,
) -> FolderSource:
    """The pictures of a split of a folder.

    The splits are the folders at the top if these are named train, val, validation or test; else there is only
    `train`, everything. Within a split, the folders at its top are the classes; no folders, no labels. Whatever lies
    deeper belongs to them. Links are followed to files, and to folders that are not read anyway. Each file is decoded
    once: broken and huge ones are left out with a warning, more than 1 % of them is an error; the outcome is
    remembered.

    Args:
      path: the folder, local or e.g. gs://.
      split: its part.
      cache_dir: where the outcome of the check is kept; empty: `cache.folder()`.
      max_megapixels: of an image; others are left out before they fill the memory.
      sixteen_bit: how pictures of more than 8 bits are decoded, see `levels`.

    Raises:
      ConfigError: no such folder, no images in it, no such split, too many broken or huge files.
    """
    dataset = f"folder:{path}"
    root = walk.folder_of(dataset)
    names = folder_tree.images(root)
    splits = folder_tree.splits(names)
    if not splits:
        kinds = " ".join(folder_tree.EXTENSIONS)
        raise ConfigError(f"--dataset={dataset}: no images in it or in its folders; what is read is {kinds}")
    name = folder_tree.find(split, splits)
    if name is None:
        raise SplitError(split, f"{dataset} has {listed(sorted(splits))}")
    class_names, label_of = folder_tree.labels(splits)
    files = folder_check.sound(root, splits[name], cache_dir, dataset, max_megapixels)
    found = levels.of_folder(sixteen_bit, dataset, root, names, files, cache_dir, max_megapixels)
    labels = [label_of[file] for file in files.names]
    if NO_LABEL in labels:
        stray = [file for file, label in zip(files.names, labels) if label == NO_LABEL]
        if len(stray) < len(labels):
            logging.warning(
                "%s: no labels, since some images are in no class folder: %d, %s", path, len(stray), escaped(stray[0])
            )
        labels, class_names = [NO_LABEL] * len(labels), ()
    return FolderSource(root, files, labels, class_names, found)
