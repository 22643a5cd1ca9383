"""Folders of images as sources: a split to learn from, with its labels."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Sequence

import numpy as np
import tensorflow as tf

from cpc_tf.core.settings import ConfigError
from cpc_tf.core.texts import listed
from cpc_tf.data import check, classes, draws, names, walk
from cpc_tf.data.config import ASK, DataConfig
from cpc_tf.data.decode import IntensityRange
from cpc_tf.data.source import NO_LABEL, Indexed, IndexedSource, SplitError, SplitInfo
from cpc_tf.data.splits import Split, select
from cpc_tf.data.table import Table


class Files(Indexed):
    """Rows of a table, on a disk or in a bucket, shuffled over the whole list. See `Examples`."""

    def __init__(self, table: Table, rows: Sequence[int], intensity_range: IntensityRange | None):
        self.table, self.rows = table, np.array(rows, np.int64)
        self.num_examples = len(rows)
        self.intensity_range = intensity_range
        self._paths = tf.constant(table.paths[rows])

    def read(self, index: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"encoded": tf.io.read_file(self._paths[index])}

    def changed(self) -> list[str]:
        paths = self.table.paths[self.rows]
        differ = (walk.stats("", paths) != self.table.stats[self.rows]).any(1)
        return paths[differ].tolist()

    def names(self) -> list[str]:
        return self.table.names[self.rows].tolist()


class FolderSource(Files, IndexedSource):
    """Images of a folder, with or without labels. See `Source`."""

    def __init__(
        self,
        table: Table,
        rows: Sequence[int],
        intensity_range: IntensityRange | None,
        labels: np.ndarray | None = None,
        class_names: tuple[str, ...] = (),
    ):
        """The images of a split.

        Args:
          table: the folder.
          rows: the images.
          intensity_range: as in `decode.decode`.
          labels: of all rows of the table, as `classes.Classes` has them; None: there are none.
          class_names: the names of the labels.
        """
        super().__init__(table, rows, intensity_range)
        self.class_names = class_names
        self._labels = tf.constant(
            np.full(len(rows), NO_LABEL, np.int64) if labels is None else labels[rows]
        )
        self.multi_label = self._labels.shape.rank == 2

    def read(self, index: tf.Tensor) -> dict[str, tf.Tensor]:
        return {**super().read(index), "label": self._labels[index]}

    def labels(self) -> np.ndarray:
        return self._labels.numpy()  # known without reading a file

    def identities(self) -> Iterator[str]:
        yield from self.table.paths[self.rows].tolist()

    def files(self) -> Iterator[tuple[str, int, str]]:
        labels = self.labels()
        class_names = np.array([*self.class_names, ""], object)  # the last one is of NO_LABEL
        if self.multi_label:
            marks = (";".join(class_names[:-1][row > 0]) for row in labels)
        else:
            marks = class_names[labels] if self.class_names else [""] * self.num_examples
        sizes = self.table.stats[self.rows, 0].tolist()
        groups = self.table.groups[self.rows]
        for name, size, mark, group in zip(self.names(), sizes, marks, groups):
            # Whole groups are drawn, so another group is another draw.
            yield name, size, f"{mark}, group {group}" if group else mark

    def accepted(self) -> np.ndarray:
        """Returns whether the label of each image is a guess that a person accepted, bool [N]."""
        return self.table.accepted[self.rows]

    def groups(self) -> np.ndarray:
        rows = self.rows.tolist()
        first_of = draws.groups_of(self.table, rows)
        place = {row: number for number, row in enumerate(rows)}
        return np.array([place[first_of.get(row, row)] for row in rows], np.int64)


def open_folder(
    data: DataConfig,
    split: str,
    table: Table,
    labelled: bool = False,
    together: Collection[str] = (),
) -> FolderSource:
    """Returns the images of a split of a folder.

    The folders at the top of a split are its classes, and what lies deeper belongs to them; no
    folders, no labels. Each file is decoded once; broken and huge ones are left out, see
    `check.usable`.

    Args:
      data: the settings of the dataset.
      split: its split, or parts of splits as `splits.select` takes them; other usual names of a
        split are found, too.
      table: its folder, as `splits.read` returns it.
      labelled: whether images without a label are left out, if they are the minority or meant to
        have none.
      together: splits whose classes are numbered together; none: all with usual names.

    Raises:
      ConfigError: no such split, too many broken or huge files, or, if `labelled`, folders that may
        be no classes.
    """
    pieces = select(table, split, data.split_seed)
    others = []
    for other in together:
        # An error is raised when that one is opened, with the flag that names it.
        with contextlib.suppress(SplitError):
            others += [piece.name for piece in select(table, other, data.split_seed)]
    chosen = others or [*filter(names.meaning, table.splits), *(piece.name for piece in pieces)]
    known_classes = classes.find_classes(table, list(dict.fromkeys(chosen)), data.ambiguous_folders)
    usable = _with_labels(table, pieces, known_classes, labelled, data.ambiguous_folders)
    wanted, unlabelled, notes, bare = usable
    rows, intensity_range, _ = check.usable(table, wanted, data.sixteen_bit)
    text = "+".join(piece.text for piece in pieces)
    if len(rows) < len(wanted):
        notes.append(f"left out of {text}: {len(wanted) - len(rows)} files that are broken or huge")
    numbered = (None, ()) if unlabelled else (known_classes.labels, known_classes.names)
    source = FolderSource(table, rows, intensity_range, *numbered)
    counts = {name: len(rows_of_split) for name, rows_of_split in table.splits.items()}
    source.about = SplitInfo(text, counts, tuple(notes), bare, unlabelled)
    return source


def _with_labels(
    table: Table, pieces: Sequence[Split], known: classes.Classes, labelled: bool, doubtful: str
) -> tuple[list[int], str, list[str], str]:
    """Returns the rows of a split to use, why they have no labels ('' if they have), notes, and
    `SplitInfo.bare`.
    """
    rows = np.sort(np.concatenate([piece.rows for piece in pieces]))
    split = "+".join(piece.text for piece in pieces)
    notes = [*table.notes]
    bare = ""
    if table.base:
        notes.append(
            f"{table.base} contains all images: its folders are read as if they were at the top"
        )
    beside = np.setdiff1d(np.arange(len(table.names)), np.concatenate([*table.splits.values()]))
    if len(beside):
        notes.append(
            f"left out: {len(beside)} images beside the folders of splits, e.g."
            f" {table.names[beside[0]]}"
        )

    # A split or classes whose names say that they are none.
    if all(names.is_unlabelled(piece.name) for piece in pieces):
        return rows.tolist(), f"{split} is a usual name for images without labels", notes, bare
    if known.doubtful and doubtful == ASK:
        in_table = table.labels is not None
        if in_table:
            strange = (
                f"classes in --labels that are possibly not classes: {listed(known.doubtful)}:"
            )
            either = ""
        else:
            strange = (
                f"folders that are possibly not classes: {listed(known.doubtful)}: without images,"
                " or"
            )
            either = "; folders without images are left out either way"
        strange += " with a name that suggests images without a class yet"
        if labelled:
            raise ConfigError(
                f"{table.flag}: {strange}; --ambiguous_folders=classes reads such names as"
                f" classes, --ambiguous_folders=left_out does not{either}"
            )
        if in_table or any(names.is_doubtful(name.rpartition("/")[2]) for name in known.doubtful):
            return rows.tolist(), f"{strange} (see --ambiguous_folders)", notes, bare
    if not known.names:
        return rows.tolist(), known.trouble, notes, bare

    # Images without a label in a split that has some.
    stray = rows[~known.labelled[rows]]
    if len(stray):
        problem = "are in no class folder"
        if table.labels is not None:
            problem = "have no label in --labels"
        example = table.names[stray[0]]
        problem = f"{len(stray)} of {len(rows)} images of {split} {problem}, e.g. {example}"
        # Images in a folder named `unlabelled` are meant to have no labels, however many they are.
        if not labelled or (~known.meant[stray]).sum() >= len(rows) - len(stray):
            return rows.tolist(), problem, notes, bare
        bare = problem
    if labelled:
        notes += known.lines
        if known.empty:
            notes.append(f"folders without an image: {listed(known.empty)}")
    rows = rows[known.labelled[rows]]
    if table.multi_label:
        counts = known.labels[rows].sum(1).astype(int)
        none = (counts == 0).sum()
        notes.append(
            f"multi-label images in {split}: {counts.sum()} labels of {len(counts)} images;"
            f" {none} images have no class"
        )
    return rows.tolist(), "", notes, bare


def in_both(source: FolderSource, test_source: FolderSource) -> list[str]:
    """Returns lines on images of a table that are learned and tested, too, as the same files, as
    copies or as groups.

    Also on copies with different labels.

    Raises:
      ConfigError: a file cannot be read.
    """
    table = source.table
    learned = source.rows.tolist()
    tested = test_source.rows.tolist()
    first_of = draws.same_images(table, sorted({*learned, *tested}))
    lines = []
    biased = "the accuracy on them is too high"
    if both := {*learned} & {*tested}:
        lines.append(f"{len(both)} test images are also in the training split: {biased}")
    name = table.names
    of = {first_of[row]: row for row in learned if row in first_of}
    pairs = [
        f"{name[row]} ({name[of[first_of[row]]]})"
        for row in tested
        if row not in both and first_of.get(row) in of
    ]
    if pairs:
        lines.append(
            f"{len(pairs)} test images are copies of training images: {biased}: {listed(pairs)}"
        )
    groups = {*table.group_of(learned).values()} & {*table.group_of(tested).values()}
    if shared := [name[row] for row in tested if table.groups[row] in groups]:
        lines.append(
            f"{len(shared)} test images share a group with training images: {biased}:"
            f" {listed(shared)}"
        )
    labels = [*source.labels().tolist(), *test_source.labels().tolist()]
    return [*lines, *draws.other_labels(table, dict(zip([*learned, *tested], labels)))]
