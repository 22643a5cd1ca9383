"""`yolo:PATH`: images and YOLO's text files, a line `CLASS X Y WIDTH HEIGHT` for each box."""

from __future__ import annotations

import collections
import functools
import math
import os
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from cpc_tf.data import boxes as box
from cpc_tf.data.config import DataConfig
from cpc_tf.data.sources import boxes_layout, check, names, walk, yolo_names
from cpc_tf.data.sources.annotation import NAN, UNKNOWN_SIZE, Annotated, Annotation, Format
from cpc_tf.data.sources.boxes_layout import warn
from cpc_tf.settings import ConfigError
from cpc_tf.texts import shown

FORMAT = Format(
    name="YOLO",
    known="known are images/*.jpg and labels/*.txt, with or without folders train, val and test in or around them; "
    "and images and text files side by side; data.yaml, classes.txt or obj.names has the names of the classes",
    annotated="has a text file of its name",
    incomplete="no class of the list or no four numbers from 0 to 1",
    mistaken="a line has the centre, width and height of a box in parts of the picture as shown, not two corners",
    in_pixels=False,
    negatives=True,
    place=lambda boxes, size: box.clipped((boxes * np.tile(size, 2)).astype(np.float32), size),
)
_LABEL = re.compile(r"[0-9]{1,9}(\.0*)?")
_LARGEST = 1.01  # part of the image; rounding may exceed 1 a little
_NO_ANNOTATIONS = ("classes", "trainval", "readme", "notes")  # text files beside images, as are lists of splits


class Rows(NamedTuple):
    """The unchecked lines of a text file."""

    labels: list[int]
    boxes: list[list[float]]  # (ymin, xmin, ymax, xmax) in parts of the image; NaN where there are no sound numbers
    polygons: int  # how many lines have a polygon in place of a box
    large: int  # how many have numbers above 1, so that they cannot be in parts


def read(data: DataConfig) -> Annotated:
    """Returns the images and annotations of --dataset=yolo:PATH.

    The splits are what data.yaml says of train, val and test (folders or lists); else lists train.txt and the like at
    the top; else folders; else there is only `train`, all images. The classes are those with boxes, sorted by name;
    without a list of names a class is called by its number. Images without a text file are negatives. Polygons become
    the boxes around them.

    Raises:
      ConfigError: no such folder, no images in it, boxes in pixels, no single list of names, or more than 1 % of the
        boxes have a class that it does not name.
    """
    root = walk.folder_of(data.dataset)
    images = boxes_layout.images(root)
    if not images:
        raise ConfigError(f"--dataset={data.dataset}: no images in it; {FORMAT.known}")
    told = yolo_names.read(root)
    parse_rows = functools.partial(parse, keypoints=told.keypoints)
    found = boxes_layout.parsed(root, _texts(root, images), parse_rows)
    rows = {key: each for key, each in found.items() if isinstance(each, Rows)}
    total, large = sum(len(each.boxes) for each in rows.values()), sum(each.large for each in rows.values())
    if 2 * large > total:
        problem = f"{large} of {total} boxes have numbers above 1"
        raise ConfigError(f"--dataset={data.dataset}: {problem}; YOLO's boxes are in parts of the image, not in pixels")
    polygons = [key for key, each in rows.items() if each.polygons]
    warn(root, "%d of %d text files have polygons, which become the boxes around them: %s", polygons, len(rows))
    annotations = {**found, **_named(data, rows, told)}
    used = {name for key in rows for name in annotations[key].names if name}
    class_names = tuple(sorted(used, key=None if told.names else int))
    parts = _told_parts(root, images, told.splits)
    lists = {} if parts else {n: path for n, path in boxes_layout.lists_in(root).items() if _is_split(n)}
    if not parts and not lists:
        parts = boxes_layout.folders(data, root, images)
    return Annotated(FORMAT, root, images, annotations, class_names, lists, parts)


def parse(text: bytes, keypoints: bool = False) -> Rows:
    """Reads a text file. A line without four sound numbers has a box of NaN, and is no error.

    Args:
      text: the content; a line is `CLASS X Y WIDTH HEIGHT`, the box's centre and size, or `CLASS X Y X Y X Y ...`, the
        corners of a polygon, all in parts of the image.
      keypoints: whether numbers behind the first four are keypoints.

    Raises:
      ValueError: a line does not begin with the number of a class.
    """
    labels, boxes, polygons, large = [], [], 0, 0
    for number, line in enumerate(text.decode("utf-8-sig", "replace").splitlines(), 1):
        if not line.strip():
            continue
        label, *rest = line.split()
        if not _LABEL.fullmatch(label):
            raise ValueError(f"line {number} is {shown(line)} in place of CLASS X Y WIDTH HEIGHT")
        numbers = [*map(_number, rest)]
        is_polygon = len(numbers) >= 6 and len(numbers) % 2 == 0 and not keypoints
        numbers = numbers[:4] if keypoints else numbers
        finite = all(map(math.isfinite, numbers))
        if not finite or not (is_polygon or len(numbers) == 4):
            edges = [NAN] * 4
        elif max(map(abs, numbers)) > _LARGEST:
            edges, large = [NAN] * 4, large + 1
        elif is_polygon:
            x, y = numbers[::2], numbers[1::2]
            edges, polygons = [min(y), min(x), max(y), max(x)], polygons + 1
        else:
            x, y, width, height = numbers
            edges = [y - height / 2, x - width / 2, y + height / 2, x + width / 2]
        labels.append(int(float(label)))
        boxes.append(edges)
    return Rows(labels, boxes, polygons, large)


def _number(text):
    try:
        return float(text)
    except ValueError:
        return NAN


def _texts(root: str, images: Mapping[str, str]) -> list[str]:
    """Returns the text files that are annotations: with the name of an image, or among such files."""
    found = walk.files(root, (".txt",))
    beside = {os.path.dirname(image) for image in images.values()} - {""}

    def is_annotation(name):
        if boxes_layout.key(name) in images:
            return True
        folder, file = os.path.split(name)
        stem = os.path.splitext(file)[0].lower()
        if _is_split(stem) or stem in _NO_ANNOTATIONS or stem.startswith("readme."):
            return False
        return boxes_layout.kind(folder.split("/")) == boxes_layout.ANNOTATIONS or folder in beside

    return [name for name in found if is_annotation(name)]


def _is_split(name):
    return name.lower() == "trainval" or names.meaning(name) is not None


def _told_parts(root: str, images: Mapping[str, str], splits: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Returns {split: keys} of the folders and lists that data.yaml names; {} if none of them is there."""
    parts = {}
    for split, places in splits.items():
        found: list[str] = []
        for place in places:
            if place.endswith(".txt") and tf.io.gfile.exists(f"{root}/{place}"):
                found += boxes_layout.read_list(f"{root}/{place}", images)
            else:
                found += [key for key, image in images.items() if image.startswith(f"{place}/")]
        if found:
            parts[split] = sorted(set(found))
    used = collections.Counter(key for keys in parts.values() for key in keys)
    twice = [images[key] for key, count in used.items() if count > 1]
    warn(root, "%d of %d images are in several splits of data.yaml: %s", twice, len(images))
    rest = [image for key, image in images.items() if parts and key not in used]
    warn(root, "%d of %d images are in no split of data.yaml and are left out: %s", rest, len(images))
    return parts


def _named(data: DataConfig, rows: Mapping[str, Rows], told: yolo_names.Told) -> dict[str, Annotation]:
    """Returns {key: annotation}, with the names of the classes."""
    found, unknown = {}, []
    for key, each in rows.items():
        names_of = [told.names.get(label, "") if told.names else str(label) for label in each.labels]
        unknown += [f"{key} (class {label})" for label, name in zip(each.labels, names_of) if not name]
        boxes = [edges if name else [NAN] * 4 for name, edges in zip(names_of, each.boxes)]
        found[key] = Annotation(names_of, boxes, [False] * len(boxes), UNKNOWN_SIZE)
    total = sum(len(each.labels) for each in rows.values())
    problem, remedy = f"have a class that {told.file} does not name", "add it there, or repair them"
    check.leave_out(data.flag, unknown, f"{total} boxes", problem, remedy)
    return found
