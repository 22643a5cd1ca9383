"""`folder:PATH`: the user's own pictures, flat or a folder per class, with or without train and val folders."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import tensorflow as tf

from cpc_tf.data.config import DataConfig
from cpc_tf.data.decoding.decode import Levels
from cpc_tf.data.sources import folder_check, folder_names, folder_tree, levels
from cpc_tf.data.sources.source import NO_LABEL, About, IndexedSource, SplitError
from cpc_tf.texts import listed


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
    *,
    top_folders: str = DataConfig.top_folders,
) -> FolderSource:
    """The pictures of a split of a folder, with labels if all of them are in folders of classes.

    The splits are the folders at the top if these are named as splits usually are (`folder_tree.splits`); else there is
    only `train`, everything. Within a split, the folders at its top are the classes; no folders, no labels. Whatever
    lies deeper belongs to them. Links are followed to files, and to folders that are not read anyway. Each file is
    decoded once: broken and huge ones are left out with a warning, more than 1 % of them is an error; the outcome is
    remembered.

    Args:
      path: the folder, local or e.g. gs://.
      split: its part; another usual name of the same split is found, too.
      cache_dir: where the outcome of the check is kept; empty: `cache.folder()`.
      max_megapixels: of an image; others are left out before they fill the memory.
      sixteen_bit: how pictures of more than 8 bits are decoded, see `levels`.
      top_folders: what the folders at the top are, see `folder_tree.read`.

    Raises:
      ConfigError: no such folder, no images in it, no such split, too many broken or huge files.
    """
    return open_split(folder_tree.read(path, top_folders), split, cache_dir, max_megapixels, sixteen_bit)


def open_split(
    tree: folder_tree.Tree,
    split: str,
    cache_dir: str = "",
    max_megapixels: float = DataConfig.max_megapixels,
    sixteen_bit: str = DataConfig.sixteen_bit,
    *,
    labelled: bool = False,
    together: Collection[str] = (),
) -> FolderSource:
    """The pictures of a split of a folder that was read.

    Args:
      tree: the folder.
      split, cache_dir, max_megapixels, sixteen_bit: as of `open_folder`.
      labelled: whether pictures in no folder of a class are left out, if most are in one.
      together: splits whose classes are numbered together, names as of `split`; none: all with usual names.

    Raises:
      ConfigError: no such split, too many broken or huge files.
    """
    name = folder_tree.find(split, tree.splits)
    if name is None:
        raise SplitError(split, f"{tree.dataset} has {listed(sorted(tree.splits))}")
    others = [found for other in together if (found := folder_tree.find(other, tree.splits))]
    chosen = others or [*filter(folder_names.meaning, tree.splits), name]
    labels = folder_tree.labels(tree, list(dict.fromkeys(chosen)))
    names, class_names, trouble, notes = _pictures(tree, name, labels, labelled)
    files = folder_check.sound(tree.root, names, cache_dir, tree.dataset, max_megapixels)
    if len(files.names) < len(names):
        notes.append(f"left out of {name}: {len(names) - len(files.names)} files that are broken or huge")
    found = levels.of_folder(sixteen_bit, tree.dataset, tree.root, tree.names, files, cache_dir, max_megapixels)
    numbers = [labels.of[file] if class_names else NO_LABEL for file in files.names]
    source = FolderSource(tree.root, files, numbers, class_names, found)
    source.about = About(name, {split: len(own) for split, own in tree.splits.items()}, tuple(notes), trouble)
    return source


def _pictures(
    tree: folder_tree.Tree, split: str, labels: folder_tree.Labels, labelled: bool
) -> tuple[list[str], tuple[str, ...], str, list[str]]:
    """The files of a split to use, their classes, why there are none, and notes for the user. See `open_split`."""
    names, found, notes = tree.splits[split], labels.classes, []
    if tree.base:
        notes.append(f"{tree.base} holds everything: its folders are taken as those at the top")
    if tree.beside:
        notes.append(f"left out: {len(tree.beside)} pictures beside the folders of splits, e.g. {tree.beside[0]}")
    if folder_names.is_unlabelled(split):
        return names, (), f"{split} is named as pictures without labels are", notes
    if not found.class_names:
        return names, (), found.trouble, notes
    stray = [file for file in names if labels.of[file] == NO_LABEL]
    # Those in a folder that is named so are meant to have no labels, however many they are.
    meant = [file for file in stray if folder_names.is_unlabelled(file[len(tree.bases[split]) :].split("/")[0])]
    if stray:
        where = f"{len(stray)} of {len(names)} pictures of {split} are in no folder of a class, e.g. {stray[0]}"
        if not labelled or len(stray) - len(meant) >= len(names) - len(stray):
            return names, (), where, notes
        notes.append(f"left out: {where}")
    if labelled:
        notes += [*found.lines, *([f"folders without a picture: {listed(labels.empty)}"] if labels.empty else [])]
    return [file for file in names if labels.of[file] != NO_LABEL], found.class_names, "", notes
