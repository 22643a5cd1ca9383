"""Opens datasets with boxes: `voc:PATH`, `coco:PATH`, `yolo:PATH`, `csv:PATH`, collages and
TensorFlow Datasets' VOC.

Of a folder: a table of its images, its splits, and sources of them.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds
from absl import logging

from cpc_tf.boxes import coco, collages, csv_tables, geometry, layout, voc, yolo
from cpc_tf.boxes.layout import NO_OBJECTS, Annotated, warn
from cpc_tf.boxes.source import DetectionSource, ObjectTable, Sizes, VocRecords
from cpc_tf.core.settings import ConfigError
from cpc_tf.data import check, datasets, draws, names, splits, walk
from cpc_tf.data import table as tables
from cpc_tf.data.config import DataConfig
from cpc_tf.data.decode import IntensityRange
from cpc_tf.data.folder import Files, FolderSource
from cpc_tf.data.source import SplitError, SplitInfo, named_by
from cpc_tf.data.splits import Split, with_test
from cpc_tf.data.table import Table

# Kind in --dataset=KIND:PATH -> how its annotations are read.
READERS: dict[str, Callable[[DataConfig], Annotated]] = {
    "voc": voc.read,
    "coco": coco.read,
    "yolo": yolo.read,
    "csv": csv_tables.read,
}
_NO_ANNOTATION = "no annotation"


def open_detection_sources(
    data: DataConfig, splits: Mapping[str, str], negatives_without_xml: bool = False
) -> list[DetectionSource]:
    """Opens splits of a dataset with boxes, which is prepared if needed.

    Args:
      data: its `dataset` is 'collages', 'collages/N' (N images in its split `train`), TFDS'
        'voc/2007' or 'voc/2012', 'voc:PATH', 'coco:PATH', 'yolo:PATH' or 'csv:PATH'.
      splits: {flag: split}; TFDS syntax such as 'train+validation', of folders also usual names of
        splits. If one of them is `test` and a folder has none, it is held out of the others.
      negatives_without_xml: whether images of 'voc:PATH' without an annotation are images without
        objects.

    Raises:
      ConfigError: naming --dataset or the split's flag, if they lead nowhere.
    """
    asked = [*splits.values()]
    sources = []
    if not data.ref.has_boxes:
        builder = _builder(data)
        for flag, split in splits.items():
            with named_by(flag):
                sources.append(VocRecords(builder, split, data.shuffle_window))
        return sources
    folder = read(data)
    table = table_of(data, folder, asked, negatives_without_xml)
    for flag, split in splits.items():
        with named_by(flag):
            sources.append(open_boxes(data, folder, table, split, asked))
    return sources


def _builder(data: DataConfig) -> tfds.core.DatasetBuilder:
    """Returns the builder of a dataset with boxes that is not a folder."""
    name = data.dataset.partition("/")[0]
    if name == "collages":
        return datasets.embedded(
            data, collages.Collages, collages.config, "images to train on", "collages/1000"
        )
    if name == "voc":
        return datasets.find(data.dataset, data.data_dir)
    raise ConfigError(
        f"--dataset={data.dataset}: is not a dataset with boxes; use collages, voc/2007,"
        " voc:PATH, coco:PATH, yolo:PATH or csv:PATH"
    )


class BoxesFolder(Files, DetectionSource):
    """Images of a folder and their objects, shuffled over the whole list. See `DetectionSource`."""

    marked = "boxes"

    def __init__(
        self,
        table: Table,
        rows: list[int],
        intensity_range: IntensityRange | None,
        objects: dict[str, tf.RaggedTensor],
        sizes: np.ndarray,
        class_names: tuple[str, ...],
    ):
        """Args: a table, the rows to use, how they are decoded; their objects and sizes as of
        `geometry.place`.
        """
        super().__init__(table, rows, intensity_range)
        self.class_names = class_names
        self._sizes = sizes
        self._objects = {"name": tf.constant(table.keys[rows]), **objects}
        # The names, also if a copy has others.
        self._labels = np.array(class_names)[objects["labels"].values.numpy()]

    def read(self, index: tf.Tensor) -> dict[str, tf.Tensor]:
        return {
            **super().read(index),
            **{name: of_all[index] for name, of_all in self._objects.items()},
        }

    def files(self) -> Iterator[tuple[str, int, str]]:
        sizes = self.table.stats[self.rows, 0].tolist()
        marks = (_digest(objects) for objects in self._objects_of_images())
        yield from zip(self.names(), sizes, marks)

    def labels(self) -> np.ndarray:
        """Returns a digest of the objects of each image, str [N]: the same for equal boxes and
        classes in any order.
        """
        return np.array([_digest(sorted(zip(*objects))) for objects in self._objects_of_images()])

    def _objects_of_images(self) -> Iterator[list[list]]:
        """Yields boxes, names of the classes, and whether they are difficult, of the objects of
        each image.
        """
        ends = self._objects["boxes"].row_splits.numpy().tolist()
        boxes, difficult = (self._objects[name].values.numpy() for name in ("boxes", "difficult"))
        for start, end in zip(ends, ends[1:]):
            # Labels are names here: a class more changes the numbers of others.
            yield [values[start:end].tolist() for values in (boxes, self._labels, difficult)]

    def groups(self) -> np.ndarray:
        """Returns for each image the index of the first that belongs with it, int64 [N]; its own if
        it is alone.
        """
        rows = self.rows.tolist()
        first_of = draws.groups_of(self.table, sorted(rows))
        place = {row: number for number, row in enumerate(rows)}
        return np.array([place[first_of.get(row, row)] for row in rows], np.int64)

    @functools.cached_property
    def objects(self) -> ObjectTable:
        labels, difficult = (self._objects[name] for name in ("labels", "difficult"))
        names = self.table.keys[self.rows].tolist()
        return ObjectTable(
            names, labels.value_rowids().numpy(), labels.values.numpy(), difficult.values.numpy()
        )

    def sizes(self) -> Sizes:
        boxes = self._objects["boxes"]
        corners = boxes.flat_values.numpy()
        return Sizes(self._sizes, corners[:, 2:] - corners[:, :2], boxes.value_rowids().numpy())


def _digest(objects: object) -> str:
    return hashlib.sha256(repr(objects).encode()).hexdigest()[:8]


def read(data: DataConfig) -> Annotated:
    """Returns a folder of images and their boxes.

    Raises:
      ConfigError: another layout, or parts that cannot be read.
    """
    folder = _once(READERS[data.ref.kind](data))
    annotations = folder.annotations
    total = len(folder.annotations)
    if not folder.images.keys() & annotations.keys():
        problem = f"none of its {len(folder.images)} images {folder.format.annotated}"
        raise ConfigError(
            f"{data.flag}: {problem};"
            f" {layout.other_format(data, folder.root) or folder.format.known}"
        )
    alone = [key for key in annotations if key not in folder.images]
    message = "%d of %d annotations match no image by name and are left out: %s"
    warn(folder.root, message, alone, total)
    other = []  # annotations that say that they belong to another image of the folder
    for key, annotation in annotations.items():
        if key in folder.images and not isinstance(annotation, str):
            named = "/".join([*key.split("/")[:-1], layout.key(annotation.filename)])
            other += [key] * (named != key and named in folder.images)
    message = (
        "%d of %d annotations name another image in <filename>; the name of the XML file"
        " itself is used: %s"
    )
    warn(folder.root, message, other, total)
    return folder


def _once(folder: Annotated) -> Annotated:
    """Returns a folder whose images have equal boxes of a class once, with a warning; the first
    counts.
    """
    annotations = {}
    again = []
    total = 0
    for key, annotation in folder.annotations.items():
        if isinstance(annotation, str):
            annotations[key] = annotation
            continue
        seen: set[tuple[str | float, ...]] = set()
        unique = []
        for place, (name, box) in enumerate(zip(annotation.names, annotation.boxes)):
            # Boxes without sound numbers are counted as broken later.
            if np.isfinite(box).all():
                if (name, *box) in seen:
                    again.append(key)
                    continue
                seen.add((name, *box))
            unique.append(place)
        annotations[key] = annotation._replace(
            names=[annotation.names[place] for place in unique],
            boxes=[annotation.boxes[place] for place in unique],
            difficult=[annotation.difficult[place] for place in unique],
        )
        total += len(annotation.names)
    warn(
        folder.root,
        "%d of %d boxes repeat another box of the same class and count once: %s",
        again,
        total,
    )
    return folder._replace(annotations=annotations)


def open_boxes(
    data: DataConfig, folder: Annotated, table: Table, split: str, asked: Collection[str]
) -> BoxesFolder:
    """Returns the images of a split and their objects.

    The reader of the format determines the splits and classes; see `table_of` and `select` for
    their names. An image without objects is a negative; a warning says how many there are.

    Boxes are places in the image as it is decoded, turned as EXIF says. If the size in the
    annotation fits only the image as it is stored, its boxes are turned with it. They are cut off
    at the border of the image itself, whatever size the annotation gives; those without area or
    numbers are left out with a warning. So are images without a file or a readable annotation, and
    broken or huge ones. More than 1 % of either is an error.

    Args:
      data: the settings of the dataset.
      folder: what `read` returned.
      table: its images, as `table_of` returned them.
      split: its split, or slices of splits.
      asked: the splits of the run.

    Raises:
      ConfigError: no such split, no boxes, too many unusable images or boxes.
    """
    (rows, intensity_range, sizes), about = _usable(data, folder, table, split, asked, boxes=True)
    annotations = table.annotations[rows].tolist()
    files = table.names[rows].tolist()
    objects, sizes = geometry.place(
        folder.format, data.flag, folder.root, files, annotations, folder.class_names, sizes
    )
    counts = objects["labels"].row_lengths().numpy()
    if not counts.any():
        raise SplitError(split, f"no boxes in it, in --dataset={data.dataset}")
    negatives = [file for file, count in zip(files, counts) if not count]
    absent = sum(annotation is NO_OBJECTS for annotation in annotations)
    message = f"%d of %d images have no objects, {absent} of them no annotation: %s"
    warn(folder.root, message, negatives, len(rows))
    source = BoxesFolder(table, rows, intensity_range, objects, sizes, folder.class_names)
    source.about = about
    source.category_ids = folder.category_ids
    return source


def open_images(data: DataConfig, split: str) -> FolderSource:
    """Returns the images of a split without labels, to pre-train on; annotations need not be there.
    See `open_boxes`.

    Where the folder has no test, the part of `train` that a detector is tested on is left out here,
    too. Lists of one class are left out if annotations name the classes; else they are splits as
    others.

    Raises:
      ConfigError: another layout, parts that cannot be read, no such split, too many unusable
        images.
    """
    folder = READERS[data.ref.kind](data)
    asked = [split, "test"]
    table = table_of(data, folder, asked)
    usable, about = _usable(data, folder, table, split, asked, boxes=False)
    source = FolderSource(table, usable.rows, usable.intensity_range)
    source.about = about
    return source


def _usable(
    data: DataConfig,
    folder: Annotated,
    table: Table,
    split: str,
    asked: Collection[str],
    boxes: bool,
) -> tuple[check.Usable, SplitInfo]:
    """Returns the usable images of a split, and information on the split for the user.

    `boxes` says whether only images with a readable annotation are usable.

    Raises:
      ConfigError: no such split, no image in it, too many unusable images.
    """
    pieces = select(table, split, asked, data.split_seed)
    for piece in pieces:
        if remark := table.remarks.get(piece.name):
            logging.warning("%s", remark)
    rows = np.concatenate([piece.rows for piece in pieces]).tolist()

    # Leave out what has no file or no readable annotation.
    sound = []
    bad = {}
    for row in rows:
        if not table.paths[row]:
            bad[row] = "no such image"
        elif boxes and isinstance(table.annotations[row], str):
            bad[row] = table.annotations[row]
        else:
            sound.append(row)
    described = [f"{table.keys[row]} ({why})" for row, why in bad.items()]
    remedy = "remove them from the list or repair them"
    if _NO_ANNOTATION in bad.values():
        remedy += (
            ", or take those with no annotation for images without objects by"
            " --negatives_without_xml"
        )
    check.leave_out(data.flag, described, f"{len(rows)} images", "cannot be used", remedy)

    # The summary does not tell of other lists, which may share its images.
    counts = {}
    if not folder.lists:
        counts = {name: len(of_split) for name, of_split in table.splits.items()}
    about = SplitInfo("+".join(piece.text for piece in pieces), counts, table.notes)
    return check.usable(table, sound, data.sixteen_bit), about


def table_of(
    data: DataConfig,
    folder: Annotated,
    asked: Collection[str],
    negatives_without_xml: bool = False,
) -> Table:
    """Returns the images of a folder with their annotations; each counts for the rarest class of
    its objects.

    If one of the splits that are asked for is `val` or `test`, and the folder has neither, a fifth
    of each class is held out as `test`. The draw depends on `data.split_seed` and the keys, so it
    is the same in all tasks.

    Args:
      data: the settings of the dataset.
      folder: its images and annotations.
      asked: the values of --split and --test_split. Lists with other names than these and usual
        ones are not read.
      negatives_without_xml: whether images without an annotation are images without objects, as
        they always are in COCO's and YOLO's formats.
    """
    # The splits, by the keys of their images.
    keys_of = dict(folder.parts)
    remarks = {}
    asked_names = {*asked, *_names(asked)}
    for split in asked:
        asked_names.update(split.split("+"))
    for split, path in folder.lists.items():
        keys_of[split], remarks[split] = [], ""
        if split in asked_names or layout.is_split(split):
            keys_of[split], remarks[split] = layout.read_list(path, folder.images)
    keys = sorted({*folder.images}.union(*keys_of.values()))
    row_of = {key: row for row, key in enumerate(keys)}
    splits = {}
    for split, of_split in keys_of.items():
        splits[split] = np.array([row_of[key] for key in of_split], np.int64)

    # The rows.
    root = walk.absolute(folder.root)
    has_negatives = folder.format.negatives
    absent = NO_OBJECTS if has_negatives or negatives_without_xml else _NO_ANNOTATION
    annotations = np.empty(len(keys), object)
    for row, key in enumerate(keys):
        annotations[row] = folder.annotations.get(key, absent)
    table = Table(
        folder.root,
        np.array([folder.images.get(key, key) for key in keys], object),
        splits,
        {},
        data.flag,
        paths=np.array([_path(root, folder.images.get(key)) for key in keys], object),
        keys=np.array(keys, object),
        labels=_labels(folder, keys),
        annotations=annotations,
        remarks=remarks,
        one_test=True,
        cache_dir=data.data_dir,
        max_megapixels=data.max_megapixels,
    )

    # The test.
    train = table.find("train") or _trainval(splits)
    wanted = any(map(tables.is_test, _names(asked)))
    if not wanted or train is None or any(map(tables.is_test, splits)):
        return table
    note = f"no split val or test: a fifth of each class of {train} is the split test"
    return with_test(table, train, data.split_seed, note)


def _path(root: str, file: str | None) -> str:
    return f"{root}/{file}" if file else ""


def _labels(folder: Annotated, keys: Sequence[str]) -> np.ndarray:
    """Returns the class that each image counts for in a draw, in a tuple; None if it is not known
    what is on it.
    """
    labels = np.full(len(keys), None, object)
    row_of = {key: row for row, key in enumerate(keys)}
    classes = {}
    for key in folder.images:
        if not folder.format.negatives and key not in folder.annotations:
            continue
        annotation = folder.annotations.get(key, NO_OBJECTS)
        if not isinstance(annotation, str):
            classes[key] = sorted({*annotation.names} - {""})
    if any(classes.values()):
        for key, name in zip(classes, draws.rarest_names([*classes.values()])):
            labels[row_of[key]] = (name,)
    return labels


def select(table: Table, split: str, asked: Collection[str], seed: int) -> list[Split]:
    """Returns what a split consists of; `trainval` and `train` stand for each other where one of
    them is absent.

    `trainval` is `train` and `val`, but `train` alone if `val` is what the run is tested on.

    Args:
      table: as `table_of` returns it.
      split: e.g. 'trainval', 'train[:80%]'.
      asked: the values of --split and --test_split.
      seed: of the order that slices are cut from.

    Raises:
      SplitError: as `splits.select`.
    """
    tests = {table.find(name) for name in _names(asked)} | {table.find("test")}
    whole = table.find(split) and not _is_trainval(split)  # a name may have a plus
    parts = [split] if whole else [_present(part, table, tests) for part in split.split("+")]
    try:
        return splits.select(table, "+".join(parts), seed)
    except SplitError as error:
        raise SplitError(split, error.reason) from error


def _names(asked: Collection[str]) -> list[str]:
    """Returns the names of splits in values such as train[:80%]+val."""
    split_names = []
    for split in asked:
        split_names += [part.partition("[")[0].strip() for part in split.split("+")]
    return split_names


def _trainval(splits: Collection[str]) -> str | None:
    return next(filter(_is_trainval, splits), None)


def _is_trainval(name: str) -> bool:
    return name.strip().lower() == layout.TRAINVAL


def _present(part: str, table: Table, tests: Collection[str | None]) -> str:
    """Returns a part of a split with the names that the folder has, if it has them."""
    name, bracket, cut = part.partition("[")
    trainval = _trainval(table.splits)
    train = tables.find("train", table.splits)
    val = tables.find("val", table.splits)
    meaning = names.meaning(name)
    present: list[str | None] = []
    if _is_trainval(name):
        if train and val and val in tests:
            present = [train]
        elif trainval:
            present = [trainval]
        else:
            present = [train, val]
    elif not table.find(name) and meaning and meaning.kind == "train" and not val:
        present = [trainval]
    return "+".join(f"{name}{bracket}{cut}" for name in present if name) or part
