"""Folders of pictures as sources: a split to learn from, with labels, or a pool to pre-train on."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Collection, Iterator, Sequence

import numpy as np
import tensorflow as tf

from cpc_tf.core.settings import ConfigError
from cpc_tf.core.texts import listed
from cpc_tf.data import check, classes, draws, names, walk
from cpc_tf.data.config import ASK, DataConfig, PicturesConfig
from cpc_tf.data.decode import IntensityRange
from cpc_tf.data.source import NO_LABEL, About, Indexed, IndexedSource, SplitError
from cpc_tf.data.splits import Piece, read, select
from cpc_tf.data.table import Table, is_test

_UNLABELLED = "unlabelled"


class Files(Indexed):
    """Rows of a table, on a disk or in a bucket, shuffled over the whole list. See `Examples`."""

    def __init__(self, table: Table, rows: Sequence[int], intensity_range: IntensityRange | None):
        self.table, self.rows = table, np.array(rows, np.int64)
        self.num_examples, self.intensity_range = len(rows), intensity_range
        self._paths = tf.constant(table.files[rows])

    def read(self, index: tf.Tensor) -> dict[str, tf.Tensor]:
        return {
            "encoded": tf.io.read_file(tf.strings.join([self.table.root, self._paths[index]], "/"))
        }

    def changed(self) -> list[str]:
        files = self.table.files[self.rows]
        differ = (walk.stats(self.table.root, files) != self.table.stats[self.rows]).any(1)
        return [f"{self.table.root}/{name}" for name in files[differ]]


class FolderSource(Files, IndexedSource):
    """Pictures of a folder, with or without labels. See `Source`."""

    def __init__(
        self,
        table: Table,
        rows: Sequence[int],
        intensity_range: IntensityRange | None,
        labels: np.ndarray | None = None,
        class_names: tuple[str, ...] = (),
    ):
        """The pictures of a split.

        Args:
          table: the folder.
          rows: the pictures.
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

    def names(self) -> list[str]:
        return self.table.files[self.rows].tolist()

    def identities(self) -> Iterator[str]:
        root = self.table.root if "://" in self.table.root else os.path.abspath(self.table.root)
        yield from (f"{root}/{name}" for name in self.names())

    def files(self) -> Iterator[tuple[str, int, str]]:
        labels, class_names = (
            self.labels(),
            np.array([*self.class_names, ""], object),
        )  # the last one is of NO_LABEL
        if self.multi_label:
            marks = (";".join(class_names[:-1][row > 0]) for row in labels)
        else:
            marks = class_names[labels] if self.class_names else [""] * self.num_examples
        sizes = self.table.stats[self.rows, 0].tolist()
        for name, size, mark, group in zip(
            self.names(), sizes, marks, self.table.groups[self.rows]
        ):
            # Whole groups are drawn, so another group is another draw.
            yield name, size, f"{mark}, group {group}" if group else mark

    def accepted(self) -> np.ndarray:
        """Returns whether the label of each picture is a guess that a person accepted, bool [N]."""
        return self.table.accepted[self.rows]

    def groups(self) -> np.ndarray:
        rows = self.rows.tolist()
        first_of = draws.together(self.table, rows)
        place = {row: number for number, row in enumerate(rows)}
        return np.array([place[first_of.get(row, row)] for row in rows], np.int64)


def open_folder(
    data: DataConfig,
    split: str,
    table: Table,
    labelled: bool = False,
    together: Collection[str] = (),
) -> FolderSource:
    """Returns the pictures of a split of a folder.

    The folders at the top of a split are its classes, and what lies deeper belongs to them; no folders, no labels. Each
    file is decoded once; broken and huge ones are left out, see `check.usable`.

    Args:
      data: the settings of the dataset.
      split: its split, or parts of splits as `splits.select` takes them; other usual names of a split are found, too.
      table: its folder, as `splits.read` returns it.
      labelled: whether pictures without a label are left out, if they are the minority or meant to have none.
      together: splits whose classes are numbered together; none: all with usual names.

    Raises:
      ConfigError: no such split, too many broken or huge files, or, if `labelled`, folders that may be no classes.
    """
    pieces = select(table, split, data.split_seed)
    others = []
    for other in together:
        with contextlib.suppress(
            SplitError
        ):  # raised when that one is opened, with the flag that names it
            others += [piece.split for piece in select(table, other, data.split_seed)]
    chosen = others or [*filter(names.meaning, table.splits), *(piece.split for piece in pieces)]
    known_classes = classes.named(table, list(dict.fromkeys(chosen)), data.ambiguous_folders)
    wanted, why_not, notes = _with_labels(
        table, pieces, known_classes, labelled, data.ambiguous_folders
    )
    rows, intensity_range, _ = check.usable(data, table, wanted)
    text = "+".join(piece.text for piece in pieces)
    if len(rows) < len(wanted):
        notes.append(f"left out of {text}: {len(wanted) - len(rows)} files that are broken or huge")
    numbered = (None, ()) if why_not else (known_classes.labels, known_classes.names)
    source = FolderSource(table, rows, intensity_range, *numbered)
    counts = {name: len(rows_of_split) for name, rows_of_split in table.splits.items()}
    source.about = About(text, counts, tuple(notes), why_not)
    return source


def _with_labels(
    table: Table, pieces: Sequence[Piece], known: classes.Classes, labelled: bool, doubtful: str
) -> tuple[list[int], str, list[str]]:
    """Returns the rows of a split to use, why they have no labels, '' if they have, and notes for the user."""
    rows = np.sort(np.concatenate([piece.rows for piece in pieces]))
    split, notes = "+".join(piece.text for piece in pieces), [*table.notes]
    if table.base:
        notes.append(
            f"{table.base} contains all pictures: its folders are read as if they were at the top"
        )
    beside = np.setdiff1d(np.arange(len(table.names)), np.concatenate([*table.splits.values()]))
    if len(beside):
        notes.append(
            f"left out: {len(beside)} images beside the folders of splits, e.g. {table.names[beside[0]]}"
        )
    if all(names.is_unlabelled(piece.split) for piece in pieces):
        return rows.tolist(), f"{split} is a usual name for images without labels", notes
    if known.doubtful and doubtful == ASK:
        strange = f"class folders that may be none: {listed(known.doubtful)}: without pictures, or"
        either, in_table = (
            "; folders without pictures are left out either way",
            table.labels is not None,
        )
        if in_table:
            strange, either = f"classes of --labels that may be none: {listed(known.doubtful)}:", ""
        strange += " with a name as for pictures that have no class yet"
        if labelled:
            raise ConfigError(
                f"{table.flag}: {strange}; --ambiguous_folders=classes takes such names for classes, "
                f"--ambiguous_folders=left_out does not{either}"
            )
        if in_table or any(names.is_doubtful(name.rpartition("/")[2]) for name in known.doubtful):
            return rows.tolist(), f"{strange} (see --ambiguous_folders)", notes
    if not known.names:
        return rows.tolist(), known.trouble, notes
    stray = rows[~known.labelled[rows]]
    if len(stray):
        where = (
            "have no label in --labels" if table.labels is not None else "are in no class folder"
        )
        where = (
            f"{len(stray)} of {len(rows)} images of {split} {where}, e.g. {table.names[stray[0]]}"
        )
        # Pictures in a folder named `unlabelled` are meant to have no labels, however many they are.
        if not labelled or (~known.meant[stray]).sum() >= len(rows) - len(stray):
            return rows.tolist(), where, notes
        notes.append(f"left out: {where}")
    if labelled:
        notes += [
            *known.lines,
            *([f"folders without an image: {listed(known.empty)}"] * bool(known.empty)),
        ]
    rows = rows[known.labelled[rows]]
    if table.multi_label:
        counts = known.labels[rows].sum(1).astype(int)
        none = (counts == 0).sum()
        notes.append(
            f"several labels an image in {split}: {counts.sum()} of {len(counts)}; {none} are of no class"
        )
    return rows.tolist(), "", notes


def open_rest(
    data: PicturesConfig, split: str, source: FolderSource, most: int
) -> FolderSource | None:
    """Returns the unlabelled pictures of a split; None if there are none.

    Args:
      data: the settings of the dataset.
      split: as it was given to `open_folder`.
      source: the labelled pictures of the split, as `open_folder` returned them.
      most: the maximum number; a larger set is sampled, with `data.split_seed`.
    """
    table = source.table
    rows = np.sort(np.concatenate([piece.rows for piece in select(table, split, data.split_seed)]))
    labelled = classes.named(table, [*table.splits], data.ambiguous_folders).labelled
    rest = rows[~labelled[rows]]
    if len(rest) > most:
        rest = np.sort(np.random.default_rng(data.split_seed).choice(rest, most, replace=False))
    usable, *_ = check.usable(data, table, rest.tolist()) if len(rest) else ([],)
    return FolderSource(table, usable, source.intensity_range) if len(usable) else None


def in_both(source: FolderSource, test_source: FolderSource) -> list[str]:
    """Returns lines on images of a table that are learned and tested, too, as the same files, as copies or as groups.

    Also on copies with different labels.

    Raises:
      ConfigError: a file cannot be read.
    """
    table, learned, tested = source.table, source.rows.tolist(), test_source.rows.tolist()
    first_of = draws.same_pictures(table, sorted({*learned, *tested}))
    lines, little = [], "the accuracy on them says little"
    if both := {*learned} & {*tested}:
        lines.append(f"{len(both)} test images are learned, too: {little}")
    name, of = table.names, {first_of[row]: row for row in learned if row in first_of}
    pairs = [
        f"{name[row]} ({name[of[first_of[row]]]})"
        for row in tested
        if row not in both and first_of.get(row) in of
    ]
    if pairs:
        lines.append(
            f"{len(pairs)} test images are copies of files that are learned: {little}: {listed(pairs)}"
        )
    groups = {*table.group_of(learned).values()} & {*table.group_of(tested).values()}
    if shared := [name[row] for row in tested if table.groups[row] in groups]:
        lines.append(
            f"{len(shared)} test images are of groups that are learned, too: {little}: {listed(shared)}"
        )
    labels = [*source.labels().tolist(), *test_source.labels().tolist()]
    return [*lines, *draws.other_labels(table, dict(zip([*learned, *tested], labels)))]


def open_pool(data: PicturesConfig, split: str) -> FolderSource:
    """Returns the pictures of --unlabelled, and of --labelled those of a split, without labels.

    Pictures of --labelled that have a label or belong to a test, but not to the split, are left out of --unlabelled,
    and so are copies of them.

    Args:
      data: the settings; `unlabelled` names folders.
      split: of --labelled; 'unlabelled' means the pictures of --unlabelled, which are added if it does not name them.

    Raises:
      ConfigError: no such folder or split, no images in a folder, too many broken or huge files.
    """
    table, added = _pool(data, split)
    source = open_folder(
        data, split if names_unlabelled(split) or not added else f"{split}+{added}", table
    )
    source.class_names = ()  # the labels are for slices alone
    source.about = source.about._replace(unlabelled="labels are not used")
    if not data.labelled:
        source.about = source.about._replace(splits={})
    return source


def table_of(data: PicturesConfig) -> Table:
    """Returns the pictures of --labelled, --dataset=folder:PATH and --unlabelled. Raises ConfigError as these do."""
    return _pool(data, data.split)[0] if data.folders else read(data)


def _pool(data, split):
    """Returns the pictures of --unlabelled, and of --labelled; and the split of the former, '' if it is not added."""
    pictures: dict[str, str] = {}  # {real path: path} of --unlabelled
    for folder in data.folders:
        flag = f"--unlabelled={folder}"
        try:
            root = walk.folder_of(f"folder:{folder}", flag)
        except ConfigError as error:
            hint = "; commas separate folders, and a name with a comma stands in quotation marks"
            raise ConfigError(f"{error}{hint if len(data.folders) > 1 else ''}") from error
        paths = walk.images(root)
        if not paths:
            raise ConfigError(
                f"{flag}: no images in it or in its folders; extensions that are read: {' '.join(walk.EXTENSIONS)}"
            )
        for path in paths:
            pictures.setdefault(_real(f"{root}/{path}"), f"{root}/{path}")
    if data.labelled:
        return _joined(data, read(data), pictures)
    root, (paths,) = _relative([[*pictures.values()]])
    name, paths = (
        _UNLABELLED if names_unlabelled(split) else "train",
        np.array(sorted(paths), object),
    )
    nothing, rows = np.full(len(paths), None, object), {name: np.arange(len(paths))}
    about = {"labels": nothing, "cache_dir": data.data_dir, "max_megapixels": data.max_megapixels}
    return Table(root, paths, rows, {name: ""}, data.flag, **about), ""


def _joined(data, labelled, pictures):
    """Returns a table of --labelled and --unlabelled, and the split of the latter, '' if all are in --labelled.

    `labelled` is the table of the former, `pictures` is {real path: path} of the latter.
    """
    texts = np.full(len(labelled.names), "", object)
    for split, rows in labelled.splits.items():
        texts[rows] = classes.strata(labelled, [split])[rows]
    row_of = {_real(f"{labelled.root}/{name}"): row for row, name in enumerate(labelled.names)}
    bound = {
        row for split in filter(is_test, labelled.splits) for row in labelled.splits[split].tolist()
    }
    bound |= {*np.flatnonzero(texts != "").tolist()}
    # Pictures without a label in --labelled are cut and counted as those of --unlabelled.
    free = [path for real, path in pictures.items() if row_of.get(real) not in bound]
    moved = {row_of[real] for real in pictures if real in row_of} - bound
    root, (paths, old_paths) = _relative(
        [free, [f"{labelled.root}/{name}" for name in labelled.names]]
    )
    paths = _without_copies(data, root, paths, [old_paths[row] for row in bound])
    deeper = len(labelled.names[0]) - len(
        old_paths[0]
    )  # characters; below 0: --labelled lies in the folder of both
    prefix = old_paths[0][: max(0, -deeper)]
    every = sorted({*paths, *old_paths})
    place_of = {path: place for place, path in enumerate(every)}
    places = np.array([place_of[path] for path in old_paths])  # of the rows of --labelled
    splits = {
        name: places[[row for row in rows.tolist() if row not in moved]]
        for name, rows in labelled.splits.items()
    }
    mine = next(filter(names.is_unlabelled, splits), _UNLABELLED)
    free = np.array([place_of[path] for path in paths], np.int64)
    splits[mine] = np.union1d(splits.get(mine, free), free)
    labels, groups = np.full(len(every), None, object), np.full(len(every), "", object)
    accepted = np.zeros(len(every), bool)
    groups[places], accepted[places] = labelled.groups, labelled.accepted
    for row in np.flatnonzero(texts != ""):
        labels[places[row]] = (texts[row],)
    notes = [f"--unlabelled={data.unlabelled}: {len(paths)} images"]
    if twice := len(pictures) - len(paths):
        notes.append(
            f"of --unlabelled {twice} images have a label or are a test in --labelled: those of --split are used"
        )
    table = dataclasses.replace(
        labelled,
        root=root,
        names=np.array(every, object),
        files=None,
        stats=None,
        looked=None,
        splits={name: rows for name, rows in splits.items() if len(rows)},
        bases={
            **{name: prefix + base[max(0, deeper) :] for name, base in labelled.bases.items()},
            mine: "",
        },
        labels=labels,
        groups=groups,
        accepted=accepted,
        flag=f"{labelled.flag} --unlabelled={data.unlabelled}",
        notes=(*labelled.notes, *notes),
    )
    return table, mine if paths else ""


def _without_copies(data, root, paths, bound):
    """Returns the pictures of --unlabelled of which no bound one has the same content."""
    every = sorted([*paths, *bound])
    first_of = draws.copies(
        Table(root, np.array(every, object), {}, {}, cache_dir=data.data_dir), range(len(every))
    )
    row_of = {path: row for row, path in enumerate(every)}
    taken = {first_of.get(row_of[path], -1) for path in bound}
    return [path for path in paths if first_of.get(row_of[path]) not in taken]


def _real(path):
    return path if "://" in path else os.path.realpath(path)


def _relative(groups):
    """Returns a folder that holds all files, and the names of each group of files relative to it."""
    groups = [
        [path if "://" in path else os.path.abspath(path) for path in paths] for paths in groups
    ]
    begins = {
        path.partition("://")[0] if "://" in path else "" for paths in groups for path in paths
    }
    if len(begins) > 1:
        raise ConfigError(
            "--unlabelled: folders on this machine and in buckets cannot be joined; copy them to one place"
        )
    folders = [f"{os.path.dirname(path)}/" for paths in groups for path in paths]
    prefix = os.path.commonprefix(folders)
    prefix = prefix[: prefix.rindex("/") + 1]
    return prefix[:-1], [sorted(path[len(prefix) :] for path in paths) for paths in groups]


def names_unlabelled(split: str) -> bool:
    """Returns whether any part of a split is of --unlabelled."""
    return any(map(is_unlabelled, split.split("+")))


def is_unlabelled(part: str) -> bool:
    """Returns whether a part of --split, such as unlabelled[:50%], is of --unlabelled."""
    return names.is_unlabelled(part.partition("[")[0])
