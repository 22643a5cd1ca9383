"""Images to learn from without labels: those of --unlabelled, and those without a label in
--labelled.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

import numpy as np

from cpc_tf.core.settings import ConfigError
from cpc_tf.data import check, classes, draws, names, walk
from cpc_tf.data.config import PicturesConfig
from cpc_tf.data.folder import FolderSource, open_folder
from cpc_tf.data.splits import read, select
from cpc_tf.data.table import Table, is_test

_UNLABELLED = "unlabelled"


def open_pool(data: PicturesConfig, split: str) -> FolderSource:
    """Returns the images of --unlabelled, and of --labelled those of a split, without labels.

    Images of --labelled that have a label or belong to a test, but not to the split, are left out
    of --unlabelled, and so are copies of them.

    Args:
      data: the settings; `unlabelled` names folders.
      split: of --labelled; 'unlabelled' means the images of --unlabelled, which are added if it
        does not name them.

    Raises:
      ConfigError: no such folder or split, no images in a folder, too many broken or huge files.
    """
    table, added = _pool(data, split)
    if added and not names_unlabelled(split):
        split = f"{split}+{added}"
    source = open_folder(data, split, table)
    source.class_names = ()  # the labels are for slices alone
    source.about = source.about._replace(unlabelled="labels are not used")
    if not data.labelled:
        source.about = source.about._replace(splits={})
    return source


def open_rest(
    data: PicturesConfig, split: str, source: FolderSource, most: int
) -> FolderSource | None:
    """Returns the unlabelled images of a split; None if there are none.

    Args:
      data: the settings of the dataset.
      split: as it was given to `open_folder`.
      source: the labelled images of the split, as `open_folder` returned them.
      most: the maximum number; a larger set is sampled, with `data.split_seed`.
    """
    table = source.table
    rows = np.sort(np.concatenate([piece.rows for piece in select(table, split, data.split_seed)]))
    labelled = classes.find_classes(table, [*table.splits], data.ambiguous_folders).labelled
    rest = rows[~labelled[rows]]
    if len(rest) > most:
        rest = np.sort(np.random.default_rng(data.split_seed).choice(rest, most, replace=False))
    usable, *_ = check.usable(table, rest.tolist(), data.sixteen_bit) if len(rest) else ([],)
    return FolderSource(table, usable, source.intensity_range) if len(usable) else None


def table_of(data: PicturesConfig) -> Table:
    """Returns the images of --labelled, --dataset=folder:PATH and --unlabelled. Raises ConfigError
    as these do.
    """
    return _pool(data, data.split)[0] if data.folders else read(data)


def names_unlabelled(split: str) -> bool:
    """Returns whether any part of a split is of --unlabelled."""
    return any(map(is_unlabelled, split.split("+")))


def is_unlabelled(part: str) -> bool:
    """Returns whether a part of --split, such as unlabelled[:50%], is of --unlabelled."""
    return names.is_unlabelled(part.partition("[")[0])


def _pool(data: PicturesConfig, split: str) -> tuple[Table, str]:
    """Returns the images of --unlabelled, and of --labelled; and the split of the former, '' if it
    is not added.
    """
    unlabelled = _unlabelled(data.folders)
    if data.labelled:
        return _joined(data, read(data), unlabelled)
    paths = np.array(sorted(unlabelled.values()), object)
    root = _common_folder(paths)
    name = _UNLABELLED if names_unlabelled(split) else "train"
    table = Table(
        root,
        _below(root, paths),
        {name: np.arange(len(paths))},
        {name: ""},
        data.flag,
        paths=paths,
        labels=np.full(len(paths), None, object),
        cache_dir=data.data_dir,
        max_megapixels=data.max_megapixels,
    )
    return table, ""


def _unlabelled(folders: Sequence[str]) -> dict[str, str]:
    """Returns {real path: absolute path} of the images in the folders of --unlabelled."""
    paths: dict[str, str] = {}
    for folder in folders:
        flag = f"--unlabelled={folder}"
        try:
            root = walk.folder_at(folder, flag)
        except ConfigError as error:
            hint = (
                "; commas separate folders, and a name that contains a comma must be in"
                " quotation marks"
            )
            raise ConfigError(f"{error}{hint if len(folders) > 1 else ''}") from error
        images = walk.images(root)
        if not images:
            extensions = " ".join(walk.EXTENSIONS)
            raise ConfigError(
                f"{flag}: no images in it or in its folders; extensions that are read: {extensions}"
            )
        for name in images:
            path = walk.absolute(f"{root}/{name}")
            paths.setdefault(_real(path), path)
    return paths


def _joined(data: PicturesConfig, labelled: Table, unlabelled: dict[str, str]) -> tuple[Table, str]:
    """Returns a table of --labelled and --unlabelled, and the split of the latter, '' if all are in
    --labelled.

    `labelled` is the table of the former, `unlabelled` is {real path: path} of the latter.
    """
    # Images of --labelled with a label or in a test are bound to their split. Others are cut and
    # counted as those of --unlabelled, if that names them.
    class_of = np.full(len(labelled.names), "", object)
    for split, rows in labelled.splits.items():
        class_of[rows] = classes.strata(labelled, [split])[rows]
    bound = {*np.flatnonzero(class_of != "").tolist()}
    for split in filter(is_test, labelled.splits):
        bound.update(labelled.splits[split].tolist())
    row_of = {_real(path): row for row, path in enumerate(labelled.paths)}
    moved = {row_of[real] for real in unlabelled if real in row_of} - bound
    free = [path for real, path in unlabelled.items() if row_of.get(real) not in bound]
    root = _common_folder([*free, *labelled.paths])
    free = _without_copies(root, free, labelled.paths[sorted(bound)].tolist(), data.data_dir)

    # The rows of both.
    paths = np.array(sorted({*free, *labelled.paths}), object)
    row_in_both = {path: row for row, path in enumerate(paths)}
    places = np.array([row_in_both[path] for path in labelled.paths])  # of the rows of --labelled
    labels = np.full(len(paths), None, object)
    groups = np.full(len(paths), "", object)
    accepted = np.zeros(len(paths), bool)
    groups[places], accepted[places] = labelled.groups, labelled.accepted
    for row in np.flatnonzero(class_of != ""):
        labels[places[row]] = (class_of[row],)

    # Their splits.
    splits = {}
    for name, rows in labelled.splits.items():
        splits[name] = places[[row for row in rows.tolist() if row not in moved]]
    added = next(filter(names.is_unlabelled, splits), _UNLABELLED)
    rows_of_free = np.array([row_in_both[path] for path in free], np.int64)
    splits[added] = np.union1d(splits.get(added, rows_of_free), rows_of_free)

    # Images of --labelled are drawn as they are without --unlabelled.
    image_names = _below(root, paths)
    keys = image_names.copy()
    keys[places] = labelled.keys
    keys[splits[added]] = image_names[splits[added]]

    notes = [f"--unlabelled={data.unlabelled}: {len(free)} images"]
    if twice := len(unlabelled) - len(free):
        notes.append(
            f"{twice} images of --unlabelled are also in --labelled, with a label or in the"
            " test: only those in --split are used"
        )
    table = Table(
        root,
        image_names,
        {name: rows for name, rows in splits.items() if len(rows)},
        {},
        f"{labelled.flag} --unlabelled={data.unlabelled}",
        base=labelled.base,
        paths=paths,
        keys=keys,
        labels=labels,
        groups=groups,
        accepted=accepted,
        by_page=labelled.by_page,
        one_test=labelled.one_test,
        notes=(*labelled.notes, *notes),
        cache_dir=data.data_dir,
        max_megapixels=data.max_megapixels,
    )
    return table, added if free else ""


def _without_copies(
    root: str, paths: Sequence[str], bound: Sequence[str], cache_dir: str
) -> list[str]:
    """Returns the images of --unlabelled of which no bound one has the same content; all are below
    the root.
    """
    every = np.array(sorted([*paths, *bound]), object)
    table = Table(root, _below(root, every), {}, {}, paths=every, cache_dir=cache_dir)
    first_of = draws.copies(table, range(len(every)))
    row_of = {path: row for row, path in enumerate(every)}
    taken = {first_of.get(row_of[path], -1) for path in bound}
    return [path for path in paths if first_of.get(row_of[path]) not in taken]


def _real(path: str) -> str:
    return path if "://" in path else os.path.realpath(path)


def _common_folder(paths: Iterable[str]) -> str:
    """Returns the innermost folder that holds all files, given by absolute paths.

    Raises:
      ConfigError: some are on this machine and others in a bucket.
    """
    folders = {os.path.dirname(path) for path in paths}
    schemes = {folder.partition("://")[0] if "://" in folder else "" for folder in folders}
    if len(schemes) > 1:
        raise ConfigError(
            "--unlabelled: folders on this machine and in buckets cannot be joined; copy them to"
            " one place"
        )
    prefix = os.path.commonprefix([f"{folder}/" for folder in folders])
    return prefix[: prefix.rindex("/")]


def _below(root: str, paths: Sequence[str]) -> np.ndarray:
    """Returns the names of files relative to a folder, given by absolute paths."""
    return np.array([path[len(root) + 1 :] for path in paths], object)
