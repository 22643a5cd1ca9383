"""`folder:PATH`: the user's own images, flat or in a folder per class, with or without train and val folders."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import tensorflow as tf

from cpc_tf.data.config import DataConfig
from cpc_tf.data.sources import check, check_cache, names, tree
from cpc_tf.data.sources.source import NO_LABEL, About, IndexedSource, SplitError
from cpc_tf.texts import listed


class FolderSource(IndexedSource):
    """Image files on a disk or in a bucket, shuffled over the whole list. See `Source`."""

    def __init__(self, files: check.Checked, labels: Sequence[int] = (), class_names: tuple[str, ...] = ()):
        """Args: the files; a label for each, none: -1; the names of the labels."""
        self.levels, self.class_names, self.num_examples = files.levels, class_names, len(files.names)
        self._files, self._names = files, tf.constant(files.names)
        self._labels = tf.constant(labels or [NO_LABEL] * self.num_examples, tf.int64)

    def read(self, index: tf.Tensor) -> dict[str, tf.Tensor]:
        path = tf.strings.join([self._files.root, self._names[index]], "/")
        return {"encoded": tf.io.read_file(path), "label": self._labels[index]}

    def labels(self) -> np.ndarray:
        return self._labels.numpy()  # known without reading a file

    def names(self) -> list[str]:
        return self._files.names

    def changed(self) -> list[str]:
        root, names, stats, _ = self._files
        differ = (check_cache.stats(root, names) != stats).any(1)
        return [f"{root}/{names[index]}" for index in np.flatnonzero(differ)]


def open_folder(
    data: DataConfig, split: str, found: tree.Tree, labelled: bool = False, together: Collection[str] = ()
) -> FolderSource:
    """Returns the images of a split of a folder.

    The folders at the top of a split are its classes, and what lies deeper belongs to them; no folders, no labels. Each
    file is decoded once; broken and huge ones are left out, see `check.usable`.

    Args:
      data: the settings of the dataset.
      split: its split; another usual name of the same split is found, too.
      found: its folder, as `tree.read` returns it.
      labelled: whether images in no class folder are left out, if most are in one.
      together: splits whose classes are numbered together; none: all with usual names.

    Raises:
      ConfigError: no such split, too many broken or huge files.
    """
    name = tree.find(split, found.splits)
    if name is None:
        raise SplitError(split, f"{data.dataset} has {listed(sorted(found.splits))}")
    others = [each for other in together if (each := tree.find(other, found.splits))]
    chosen = others or [*filter(names.meaning, found.splits), name]
    labels = tree.labels(found, list(dict.fromkeys(chosen)))
    images, class_names, why_not, notes = _labelled(found, name, labels, labelled)
    files = check.usable(data, found.root, images, found.names)
    if len(files.names) < len(images):
        notes.append(f"left out of {name}: {len(images) - len(files.names)} files that are broken or huge")
    source = FolderSource(files, [labels.of[file] for file in files.names] if class_names else (), class_names)
    source.about = About(name, {split: len(own) for split, own in found.splits.items()}, tuple(notes), why_not)
    return source


def _labelled(found, split, labels, labelled):
    """Returns the images of a split to use, their classes, why there are none, and notes for the user."""
    images, notes = found.splits[split], []
    if found.base:
        notes.append(f"{found.base} holds everything: its folders are taken as those at the top")
    used = {name for own in found.splits.values() for name in own}
    if beside := [name for name in found.names if name not in used]:
        notes.append(f"left out: {len(beside)} images beside the folders of splits, e.g. {beside[0]}")
    if names.is_unlabelled(split):
        return images, (), f"{split} is a usual name for images without labels", notes
    if not labels.classes.class_names:
        return images, (), labels.classes.trouble, notes
    stray = [file for file in images if labels.of[file] == NO_LABEL]
    # Images in a folder named `unlabelled` are meant to have no labels, however many they are.
    meant = [file for file in stray if names.is_unlabelled(file[len(found.bases[split]) :].split("/")[0])]
    if stray:
        where = f"{len(stray)} of {len(images)} images of {split} are in no class folder, e.g. {stray[0]}"
        if not labelled or len(stray) - len(meant) >= len(images) - len(stray):
            return images, (), where, notes
        notes.append(f"left out: {where}")
    if labelled:
        notes += [*labels.classes.lines, *([f"folders without an image: {listed(labels.empty)}"] * bool(labels.empty))]
    return [file for file in images if labels.of[file] != NO_LABEL], labels.classes.class_names, "", notes
