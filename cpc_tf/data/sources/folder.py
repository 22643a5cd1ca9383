"""`folder:PATH`: the user's own images, flat or in a folder per class, with or without train and val folders."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf

from cpc_tf.data.config import ASK, DataConfig
from cpc_tf.data.sources import check, check_cache, folder_classes, groups, names, several_labels, slices, tree
from cpc_tf.data.sources.source import NO_LABEL, About, IndexedSource, SplitError
from cpc_tf.settings import ConfigError
from cpc_tf.texts import listed


class FolderSource(IndexedSource):
    """Image files on a disk or in a bucket, shuffled over the whole list. See `Source`."""

    def __init__(
        self,
        files: check.Checked,
        labels: Sequence[int] | Sequence[tuple[int, ...]] = (),
        class_names: tuple[str, ...] = (),
        together: Mapping[str, str] = types.MappingProxyType({}),
        cache_dir: str = "",
    ):
        """The images of a split.

        Args:
          files: the files.
          labels: a label for each, none: -1, or several in a tuple.
          class_names: the names of the labels.
          together: {file: a text that is the same for those of a group}; the others are alone.
          cache_dir: as `check_cache.remembered`.
        """
        self._together, self._cache_dir = together, cache_dir
        self.levels, self.class_names, self.num_examples = files.levels, class_names, len(files.names)
        self._files, self._names = files, tf.constant(files.names)
        self.several_labels = bool(labels) and isinstance(labels[0], tuple)
        if self.several_labels:
            labels = several_labels.matrix(labels, len(class_names))  # [N, classes]
        else:
            labels = np.array(labels or [NO_LABEL] * self.num_examples, np.int64)
        self._labels = tf.constant(labels)

    def read(self, index: tf.Tensor) -> dict[str, tf.Tensor]:
        path = tf.strings.join([self._files.root, self._names[index]], "/")
        return {"encoded": tf.io.read_file(path), "label": self._labels[index]}

    def labels(self) -> np.ndarray:
        return self._labels.numpy()  # known without reading a file

    def names(self) -> list[str]:
        return list(self._files.names)

    def files(self) -> Iterator[tuple[str, int, str]]:
        labels, names = self.labels(), np.array([*self.class_names, ""], object)  # the last one is that of NO_LABEL
        if self.several_labels:
            marks = (";".join(names[:-1][row > 0]) for row in labels)
        else:
            marks = names[labels] if self.class_names else [""] * self.num_examples
        for name, size, mark in zip(self._files.names, self._files.stats[:, 0].tolist(), marks):
            # Whole groups are drawn, so another group is another draw.
            yield name, size, f"{mark}, group {self._together[name]}" if name in self._together else mark

    def groups(self) -> np.ndarray:
        found = groups.joined(copies(self), self._together)
        place = {name: number for number, name in enumerate(self._files.names)}
        return np.array([place[found.get(name, name)] for name in self._files.names], np.int64)

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
      split: its split, or parts of splits as `slices.pieces` takes them; other usual names of a split are found, too.
      found: its folder, as `tree.read` or `labelled.read` returns it.
      labelled: whether images without a label are left out, if they are the minority or meant to have none.
      together: splits whose classes are numbered together; none: all with usual names.

    Raises:
      ConfigError: no such split, too many broken or huge files, or, if `labelled`, folders that may be no classes.
    """
    pieces = slices.pieces(split, found, data.split_seed)
    own = [piece.split for piece in pieces]
    others = []
    for other in together:
        with contextlib.suppress(SplitError):  # raised when that one is opened, with the flag that names it
            others += [piece.split for piece in slices.pieces(other, found, data.split_seed)]
    chosen = others or [*filter(names.meaning, found.splits), *own]
    labels = folder_classes.labels(found, list(dict.fromkeys(chosen)), data.doubtful_folders)
    images, class_names, why_not, notes = _labelled(found, pieces, labels, labelled, data.doubtful_folders)
    files = check.usable(data, found.root, images, found.names, found.flag)
    name = "+".join(piece.text for piece in pieces)
    if len(files.names) < len(images):
        notes.append(f"left out of {name}: {len(images) - len(files.names)} files that are broken or huge")
    own_labels = [labels.of[file] for file in files.names] if class_names else ()
    together = {file: found.groups[file] for file in files.names if file in found.groups}
    source = FolderSource(files, own_labels, class_names, together, data.data_dir)
    source.about = About(name, {split: len(own) for split, own in found.splits.items()}, tuple(notes), why_not)
    return source


def copies(*sources: FolderSource) -> dict[str, str]:
    """Returns {file: the first with the same content} of files that are in splits of a folder several times.

    Raises:
      ConfigError: a file cannot be read.
    """
    found = {name: own for source in sources for name, own in zip(source._files.names, source._files.stats)}
    names, root = sorted(found), sources[0]._files.root
    stats = np.reshape([found[name] for name in names], [-1, 2])
    return groups.copies(sources[0]._cache_dir, root, names, stats)


def in_both(source: FolderSource, test_source: FolderSource) -> list[str]:
    """Returns lines on images that are learned as well as tested: the same files, copies, images of one group.

    Raises:
      ConfigError: a file cannot be read.
    """
    first_of, learned, tested = copies(source, test_source), source.names(), test_source.names()
    lines, little = [], "the accuracy on them says little"
    if both := {*learned} & {*tested}:
        lines.append(f"{len(both)} test images are learned, too: {little}")
    of = {first_of[name]: name for name in learned if name in first_of}
    if pairs := [f"{name} ({of[first_of[name]]})" for name in tested if name not in both and first_of.get(name) in of]:
        lines.append(f"{len(pairs)} test images are copies of files that are learned: {little}: {listed(pairs)}")
    groups_of_both = {*source._together.values()} & {*test_source._together.values()}
    if shared := [name for name in tested if test_source._together.get(name) in groups_of_both]:
        lines.append(f"{len(shared)} test images are of groups that are learned, too: {little}: {listed(shared)}")
    label_of = {name: label for own in (source, test_source) for name, label in zip(own.names(), own.labels().tolist())}
    apart = [f"{name} ({first})" for name, first in first_of.items() if label_of[name] != label_of[first]]
    if apart:
        lines.append(f"{len(apart)} images have other labels than a copy of them: {listed(apart)}")
    return lines


def _labelled(found, pieces, labels, labelled, doubtful):
    """Returns the images of a split to use, their classes, why there are none, and notes for the user."""
    images, notes = sorted(file for piece in pieces for file in piece.files), [*found.notes]
    split = "+".join(piece.text for piece in pieces)
    if found.base:
        notes.append(f"{found.base} holds everything: its folders are taken as those at the top")
    used = {name for own in found.splits.values() for name in own}
    if beside := [name for name in found.names if name not in used]:
        notes.append(f"left out: {len(beside)} images beside the folders of splits, e.g. {beside[0]}")
    if all(names.is_unlabelled(piece.split) for piece in pieces):
        return images, (), f"{split} is a usual name for images without labels", notes
    if labels.doubtful and doubtful == ASK:
        strange = f"class folders that may be none: {listed(labels.doubtful)}: without pictures, or"
        either, in_table = "; folders without pictures are left out either way", found.table is not None
        if in_table:
            strange, either = f"classes of --labels that may be none: {listed(labels.doubtful)}:", ""
        strange += " with a name as for pictures that have no class yet"
        if labelled:
            raise ConfigError(
                f"{found.flag}: {strange}; --doubtful_folders=classes takes such names for classes, "
                f"--doubtful_folders=left_out does not{either}"
            )
        if in_table or any(names.is_doubtful(name.rpartition("/")[2]) for name in labels.doubtful):
            return images, (), f"{strange} (see --doubtful_folders)", notes
    if not labels.classes.class_names:
        return images, (), labels.classes.trouble, notes
    stray = [file for file in images if labels.of.get(file, NO_LABEL) == NO_LABEL]
    # Images in a folder named `unlabelled` are meant to have no labels, however many they are.
    meant = [file for file in stray if file in labels.meant]
    if stray:
        where = "have no label in --labels" if found.table is not None else "are in no class folder"
        where = f"{len(stray)} of {len(images)} images of {split} {where}, e.g. {stray[0]}"
        if not labelled or len(stray) - len(meant) >= len(images) - len(stray):
            return images, (), where, notes
        notes.append(f"left out: {where}")
    if labelled:
        notes += [*labels.classes.lines, *([f"folders without an image: {listed(labels.empty)}"] * bool(labels.empty))]
    if found.several_labels:
        counts = [len(labels.of[file]) for file in images if file in labels.of]
        notes.append(
            f"several labels an image in {split}: {sum(counts)} of {len(counts)}; {counts.count(0)} are of no class"
        )
    labelled_images = [file for file in images if labels.of.get(file, NO_LABEL) != NO_LABEL]
    return labelled_images, labels.classes.class_names, "", notes
