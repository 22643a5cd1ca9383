"""`voc:PATH`, `coco:PATH` and `yolo:PATH`: a folder of images with boxes."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Collection, Iterator
from typing import Optional

import numpy as np
import tensorflow as tf

from cpc_tf.data.config import DataConfig
from cpc_tf.data.sources import boxes_layout, boxes_splits, check, coco_json, objects, voc_layout, yolo_text
from cpc_tf.data.sources.annotation import NO_OBJECTS, Annotated
from cpc_tf.data.sources.boxes_layout import warn
from cpc_tf.data.sources.folder import FolderSource
from cpc_tf.data.sources.source import About, DetectionSource, Objects, Select, Sizes, SplitError
from cpc_tf.settings import ConfigError

# Kind in --dataset=KIND:PATH -> how its annotations are read.
READERS: dict[str, Callable[[DataConfig], Annotated]] = {
    "voc": voc_layout.read,
    "coco": coco_json.read,
    "yolo": yolo_text.read,
}
_NO_ANNOTATION = "no annotation"
# Of a key: why its image cannot be used, None if it can.
Trouble = Callable[[str], Optional[str]]


class BoxesFolder(DetectionSource):
    """Images of a folder and their objects, shuffled over the whole list. See `DetectionSource`."""

    marked = "boxes"

    def __init__(
        self,
        files: check.Checked,
        names: list[str],
        objects: dict[str, tf.RaggedTensor],
        sizes: np.ndarray,
        class_names: tuple[str, ...],
    ):
        """Args: the files, their names in VOC's result files, objects and sizes of `objects.place`, the classes."""
        self.num_examples, self.class_names, self.levels = len(names), class_names, files.levels
        # The label of a file is its index, by which its objects are found.
        self._files = FolderSource(files, range(len(names)))
        self._sizes = sizes
        self._objects = {"name": tf.constant(names), **objects}
        self._labels = np.array(class_names)[objects["labels"].values.numpy()]  # the names, also if a copy has others

    def stream(self, seed: int, start: int = 0, select: Select = None) -> tf.data.Dataset:
        return self._with_objects(self._files.stream(seed, start, select))

    def ordered(self) -> tf.data.Dataset:
        return self._with_objects(self._files.ordered())

    def files(self) -> Iterator[tuple[str, int, str]]:
        ends = self._objects["boxes"].row_splits.numpy().tolist()
        boxes, difficult = (self._objects[name].values.numpy() for name in ("boxes", "difficult"))
        for (name, size, _), start, end in zip(self._files.files(), ends, ends[1:]):
            # Labels are names here: a class more changes the numbers of others.
            own = [values[start:end].tolist() for values in (boxes, self._labels, difficult)]
            yield name, size, hashlib.sha256(repr(own).encode()).hexdigest()[:8]

    @functools.cached_property
    def objects(self) -> Objects:
        labels, difficult = (self._objects[name] for name in ("labels", "difficult"))
        names = [name.decode() for name in self._objects["name"].numpy()]
        return Objects(names, labels.value_rowids().numpy(), labels.values.numpy(), difficult.values.numpy())

    def changed(self) -> list[str]:
        return self._files.changed()

    def sizes(self) -> Sizes:
        boxes = self._objects["boxes"]
        corners = boxes.flat_values.numpy()
        return Sizes(self._sizes, corners[:, 2:] - corners[:, :2], boxes.value_rowids().numpy())

    def _with_objects(self, examples):
        def add(example):
            index = example.pop("label")
            return {**example, **{name: of_all[index] for name, of_all in self._objects.items()}}

        return examples.map(add, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)


def read(data: DataConfig) -> Annotated:
    """Returns a folder of images and their boxes.

    Raises:
      ConfigError: another layout, or parts that cannot be read.
    """
    folder = _read(data)
    annotations, total = folder.annotations, len(folder.annotations)
    if not folder.images.keys() & annotations.keys():
        problem = f"none of its {len(folder.images)} images {folder.format.annotated}"
        raise ConfigError(
            f"{data.flag}: {problem}; {boxes_layout.other_format(data, folder.root) or folder.format.known}"
        )
    alone = [key for key in annotations if key not in folder.images]
    message = "%d of %d annotations have the name of no image and are left out: %s"
    warn(folder.root, message, alone, total)
    other = [key for key in annotations if _is_of_another(folder, key)]
    message = "%d of %d annotations have the <filename> of another image; their own names count: %s"
    warn(folder.root, message, other, total)
    return folder


def open_boxes(
    data: DataConfig, folder: Annotated, split: str, asked: Collection[str], negatives_without_xml: bool = False
) -> BoxesFolder:
    """Returns the images of a split and their objects.

    What the splits and classes are, the reader of the format says; see `boxes_splits` for their names. An image without
    objects is a negative; a warning says how many there are.

    Boxes are places in the image as it is decoded, turned as EXIF says. If the size in the annotation fits only the
    image as it is stored, its boxes are turned with it. They are cut off at the border of the image itself, whatever
    size the annotation gives; those without area or numbers are left out with a warning. So are images without a file
    or a readable annotation, and broken or huge ones. More than 1 % of either is an error.

    Args:
      data: the settings of the dataset.
      folder: what `read` found.
      split: its split, or slices of splits.
      asked: the splits of the run, see `boxes_splits.read`.
      negatives_without_xml: whether images without an annotation are images without objects, as they always are in
        COCO's and YOLO's formats.

    Raises:
      ConfigError: no such split, no boxes, too many unusable images or boxes.
    """
    annotations = folder.annotations
    if negatives_without_xml or folder.format.negatives:
        annotations = {**dict.fromkeys(folder.images, NO_OBJECTS), **annotations}

    def trouble(key):
        found = annotations.get(key, _NO_ANNOTATION)
        return found if isinstance(found, str) else None

    seen: dict[str, np.ndarray] = {}
    files, keys, about = _usable(data, folder, split, asked, trouble, seen)
    own = [annotations[key] for key in keys]
    found, sizes = objects.place(folder.format, data.flag, folder.root, files.names, own, folder.class_names, seen)
    counts = found["labels"].row_lengths().numpy()
    if not counts.any():
        raise SplitError(split, f"no boxes in it, in --dataset={data.dataset}")
    negatives = [file for file, count in zip(files.names, counts) if not count]
    absent = sum(annotations[key] is NO_OBJECTS for key in keys)
    message = f"%d of %d images have no objects, {absent} of them no annotation: %s"
    warn(folder.root, message, negatives, len(keys))
    source = BoxesFolder(files, keys, found, sizes, folder.class_names)
    source.about, source.category_ids = about, folder.category_ids
    return source


def open_images(data: DataConfig, split: str) -> FolderSource:
    """Returns the images of a split without labels, to pre-train on; annotations need not be there. See `open_boxes`.

    What a detector is tested on where the folder has no split for it is no part of `train` here either. Lists of one
    class are left out where annotations say the names of the classes; without, they are splits as others.

    Raises:
      ConfigError: another layout, parts that cannot be read, no such split, too many unusable images.
    """
    folder = _read(data)
    files, _, about = _usable(data, folder, split, [split, "test"], lambda key: None)
    source = FolderSource(files)
    source.about = about
    return source


def _read(data: DataConfig) -> Annotated:
    return READERS[data.dataset.partition(":")[0]](data)


def _is_of_another(folder: Annotated, key: str) -> bool:
    """Returns whether the annotation of an image says that it belongs to another image of the folder."""
    annotation = folder.annotations[key]
    if key not in folder.images or isinstance(annotation, str):
        return False
    told = "/".join([*key.split("/")[:-1], boxes_layout.key(annotation.filename)])
    return told != key and told in folder.images


def _usable(
    data: DataConfig,
    folder: Annotated,
    split: str,
    asked: Collection[str],
    trouble: Trouble,
    sizes: dict[str, np.ndarray] | None = None,
) -> tuple[check.Checked, list[str], About]:
    """Returns the files of a split's images without trouble, their keys, and what to tell the user about the split.

    `sizes`: see `check.usable`.

    Raises:
      ConfigError: no such split, no image in it, too many unusable images.
    """
    found = boxes_splits.read(data, folder, asked)
    pieces = boxes_splits.pieces(split, found, asked, data.split_seed)
    keys = [key for piece in pieces for key in piece.files]
    troubles = {key: "no such image" if key not in folder.images else trouble(key) for key in keys}
    bad = [f"{key} ({why})" for key, why in troubles.items() if why]
    remedy = "remove them from the list or repair them"
    if _NO_ANNOTATION in troubles.values():
        remedy += ", or take those with no annotation for images without objects by --negatives_without_xml"
    check.leave_out(data.flag, bad, f"{len(keys)} images", "cannot be used", remedy)
    key_of = {folder.images[key]: key for key in keys if not troubles[key]}
    files = check.usable(data, folder.root, list(key_of), sorted(folder.images.values()), data.flag, sizes)
    # Nothing is said of other lists, which may share its images.
    counts = {} if folder.lists else {name: len(own) for name, own in found.splits.items()}
    about = About("+".join(piece.text for piece in pieces), counts, found.notes)
    return files, [key_of[file] for file in files.names], about
