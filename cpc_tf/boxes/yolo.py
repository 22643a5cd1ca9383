"""`yolo:PATH`: images and YOLO's text files, a line `CLASS X Y WIDTH HEIGHT` for each box;
data.yaml beside them.
"""

from __future__ import annotations

import collections
import functools
import itertools
import math
import os
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import yaml
from absl import logging

from cpc_tf.boxes import geometry, layout
from cpc_tf.boxes.layout import NAN, UNKNOWN_SIZE, Annotated, Annotation, Format, warn
from cpc_tf.core.files import reason
from cpc_tf.core.settings import ConfigError
from cpc_tf.core.texts import shown
from cpc_tf.data import check, walk
from cpc_tf.data.config import DataConfig

FORMAT = Format(
    name="YOLO",
    known=(
        "known are images/*.jpg and labels/*.txt, with or without folders train, val and test in or"
        " around them; and images and text files side by side; data.yaml, classes.txt or obj.names"
        " has the names of the classes"
    ),
    annotated="has a text file of its name",
    incomplete="no class of the list or no four numbers from 0 to 1",
    mistaken=(
        "a line has the centre, width and height of a box as fractions of the image as shown,"
        " not two corners"
    ),
    in_pixels=False,
    negatives=True,
    place=lambda boxes, size: geometry.clipped((boxes * np.tile(size, 2)).astype(np.float32), size),
)
_LABEL = re.compile(r"[0-9]{1,9}(\.0*)?")
_LARGEST = 1 + geometry.OVERSHOOT  # parts of the image; larger numbers are pixels
# Text files beside images, as are lists of splits.
_NO_ANNOTATIONS = ("classes", "trainval", "readme", "notes")


class TextLines(NamedTuple):
    """The unchecked lines of a text file."""

    labels: list[int]
    # (ymin, xmin, ymax, xmax) in parts of the image; NaN where there are no sound numbers
    boxes: list[list[float]]
    polygons: int  # how many lines have a polygon in place of a box
    large: int  # how many have numbers above 1, so that they cannot be in parts


def read(data: DataConfig) -> Annotated:
    """Returns the images and annotations of --dataset=yolo:PATH.

    The splits are what data.yaml says of train, val and test (folders or lists); else lists
    train.txt and the like at the top; else folders; else there is only `train`, all images. The
    classes are those with boxes, sorted by name; without a list of names a class is called by its
    number. Images without a text file are negatives. Polygons become the boxes around them.

    Raises:
      ConfigError: no such folder, no images in it, boxes in pixels, no single list of names, or
        more than 1 % of the boxes have a class that it does not name.
    """
    root = walk.folder_at(data.ref.path, data.flag)
    images = layout.images(root)
    if not images:
        raise ConfigError(f"--dataset={data.dataset}: no images in it; {FORMAT.known}")
    described = read_names(root)
    parse_rows = functools.partial(parse, keypoints=described.keypoints)
    parsed = layout.parsed(root, _texts(root, images), parse_rows)
    rows = {key: each for key, each in parsed.items() if isinstance(each, TextLines)}
    total = sum(len(each.boxes) for each in rows.values())
    large = sum(each.large for each in rows.values())
    if 2 * large > total:
        problem = f"{large} of {total} boxes have numbers above 1"
        raise ConfigError(
            f"--dataset={data.dataset}: {problem}; YOLO's boxes are fractions of the width and"
            " height, not pixels"
        )
    polygons = [key for key, each in rows.items() if each.polygons]
    warn(
        root,
        "%d of %d text files have polygons, which become the boxes around them: %s",
        polygons,
        len(rows),
    )
    annotations = {**parsed, **_with_class_names(data, rows, described)}
    used = set().union(*(annotations[key].names for key in rows)) - {""}
    class_names = tuple(sorted(used, key=None if described.names else int))
    parts = _parts(root, images, described.splits)
    lists = {}
    if not parts:
        at_top = layout.lists_in(root).items()
        lists = {name: path for name, path in at_top if layout.is_split(name)}
    if not parts and not lists:
        parts = layout.folders(data, root, images)
    return Annotated(FORMAT, root, images, annotations, class_names, lists, parts)


def parse(text: bytes, keypoints: bool = False) -> TextLines:
    """Reads a text file. A line without four sound numbers has a box of NaN, and is no error.

    Args:
      text: the content; a line is `CLASS X Y WIDTH HEIGHT`, the box's centre and size, perhaps with
        a score behind, or `CLASS X Y X Y X Y ...`, the corners of a polygon, all in parts of the
        image.
      keypoints: whether numbers behind the first four are keypoints.

    Raises:
      ValueError: a line does not begin with the number of a class.
    """
    labels = []
    boxes = []
    polygons = 0
    large = 0
    for number, line in enumerate(text.decode("utf-8-sig", "replace").splitlines(), 1):
        if not line.strip():
            continue
        label, *rest = line.split()
        if not _LABEL.fullmatch(label):
            raise ValueError(f"line {number} is {shown(line)} instead of CLASS X Y WIDTH HEIGHT")
        numbers = [*map(_number, rest)]
        is_polygon = len(numbers) >= 6 and len(numbers) % 2 == 0 and not keypoints
        # keypoints, or a score
        numbers = numbers[:4] if keypoints or len(numbers) == 5 else numbers
        finite = all(map(math.isfinite, numbers))
        if not finite or not (is_polygon or len(numbers) == 4):
            edges = [NAN] * 4
        elif max(map(abs, numbers)) > _LARGEST:
            edges = [NAN] * 4
            large = large + 1
        elif is_polygon:
            x = numbers[::2]
            y = numbers[1::2]
            edges = [min(y), min(x), max(y), max(x)]
            polygons = polygons + 1
        else:
            x, y, width, height = numbers
            edges = [y - height / 2, x - width / 2, y + height / 2, x + width / 2]
        labels.append(int(float(label)))
        boxes.append(edges)
    return TextLines(labels, boxes, polygons, large)


def _number(text):
    try:
        return float(text)
    except ValueError:
        return NAN


def _texts(root: str, images: Mapping[str, str]) -> list[str]:
    """Returns the text files that are annotations: with the name of an image, or among such
    files.
    """
    texts = walk.files(root, (".txt",))
    beside = {os.path.dirname(image) for image in images.values()} - {""}

    def is_annotation(name):
        if layout.key(name) in images:
            return True
        folder, file = os.path.split(name)
        stem = os.path.splitext(file)[0].lower()
        if layout.is_split(stem) or stem in _NO_ANNOTATIONS or stem.startswith("readme."):
            return False
        return layout.kind(folder.split("/")) == layout.ANNOTATIONS or folder in beside

    return [name for name in texts if is_annotation(name)]


def _parts(
    root: str, images: Mapping[str, str], splits: Mapping[str, Sequence[str]]
) -> dict[str, list[str]]:
    """Returns {split: keys} of the folders and lists that data.yaml names; {} if none of them is
    there.
    """
    parts = {}
    for split, places in splits.items():
        keys: list[str] = []
        for place in places:
            if place.endswith(".txt") and tf.io.gfile.exists(f"{root}/{place}"):
                listed, remark = layout.read_list(f"{root}/{place}", images)
                keys += listed
                if remark:
                    logging.warning("%s", remark)
            else:
                keys += [key for key, image in images.items() if image.startswith(f"{place}/")]
        if keys:
            parts[split] = sorted(set(keys))
    used = collections.Counter(itertools.chain(*parts.values()))
    twice = [images[key] for key, count in used.items() if count > 1]
    warn(root, "%d of %d images are in several splits of data.yaml: %s", twice, len(images))
    rest = [image for key, image in images.items() if parts and key not in used]
    warn(
        root, "%d of %d images are in no split of data.yaml and are left out: %s", rest, len(images)
    )
    return parts


def _with_class_names(
    data: DataConfig, rows: Mapping[str, TextLines], described: Description
) -> dict[str, Annotation]:
    """Returns {key: annotation}, with the names of the classes."""
    annotations = {}
    unknown = []
    for key, each in rows.items():
        names = [
            described.names.get(label, "") if described.names else str(label)
            for label in each.labels
        ]
        unknown += [f"{key} (class {label})" for label, name in zip(each.labels, names) if not name]
        boxes = [edges if name else [NAN] * 4 for name, edges in zip(names, each.boxes)]
        annotations[key] = Annotation(names, boxes, [False] * len(boxes), UNKNOWN_SIZE)
    total = sum(len(each.labels) for each in rows.values())
    problem = f"have a class that {described.file} does not name"
    check.leave_out(data.flag, unknown, f"{total} boxes", problem, "add it there, or repair them")
    return annotations


class Description(NamedTuple):
    """What files such as data.yaml and classes.txt say of the annotations."""

    file: str = ""  # with the names of the classes
    names: Mapping[int, str] = MappingProxyType({})  # {number: name}; empty: no file has them
    # {split: folders or lists of images, relative to the root}
    splits: Mapping[str, list[str]] = MappingProxyType({})
    keypoints: bool = False  # whether the annotations have keypoints behind the boxes


def read_names(root: str) -> Description:
    """Finds the names of the classes: in data.yaml or the only other YAML file at the top, else in
    lists.

    Raises:
      ConfigError: a file cannot be read, or several may be meant.
    """
    files = []
    for name in walk.files(root, (".yaml", ".yml"), deep=False):
        try:
            content = parse_yaml(_text(f"{root}/{name}"))
        except ValueError as error:
            if name.startswith("data."):
                raise ConfigError(f"{root}/{name}: cannot be read as YAML: {error}") from error
            logging.warning(
                "%s/%s: is left out, since it cannot be read as YAML: %s", root, name, error
            )
            continue
        if "names" in content:
            files.append((name, content))
    files = [each for each in files if each[0].startswith("data.")] or files
    if len(files) > 1:
        several = " and ".join(name for name, _ in files[:2])
        raise ConfigError(
            f"{root}: {several} both have names of classes; keep one, or call it data.yaml"
        )
    for file, content in files:
        names = {
            int(n): unicodedata.normalize("NFC", name)
            for n, name in content["names"]
            if n.isdecimal()
        }
        splits = {
            split: [*_places(root, content[split])]
            for split in ("train", "val", "test")
            if split in content
        }
        return Description(file, names, splits, "kpt_shape" in content)
    lists = walk.files(root, (".names", ".txt"))
    lists = [
        name
        for name in lists
        if name.endswith(".names") or os.path.basename(name).lower() == "classes.txt"
    ]
    for file in sorted(lists, key=lambda name: (name.count("/"), name)):
        lines = map(str.strip, _text(f"{root}/{file}").splitlines())
        return Description(
            file, {n: unicodedata.normalize("NFC", name) for n, name in enumerate(lines) if name}
        )
    return Description()


def parse_yaml(text: str) -> dict[str, list[tuple[str, str]]]:
    """Reads a data.yaml, all values as texts.

    Returns:
      {key at the top: items}; an item is (key, value). Items of a list have their numbers as keys,
      and a value alone is the item '0'. What is neither is left out.

    Raises:
      ValueError: it is no YAML.
    """
    try:
        content = next(yaml.load_all(text, yaml.BaseLoader), None)
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(reason(error)) from error
    items_of = {}
    for key, value in content.items() if isinstance(content, dict) else ():
        items = {"0": value} if isinstance(value, str) and value else value or {}
        items = dict(zip(map(str, range(len(items))), items)) if isinstance(items, list) else items
        items_of[key] = [(number, text) for number, text in items.items() if isinstance(text, str)]
    return items_of


def _places(root: str, items: list[tuple[str, str]]) -> Iterator[str]:
    """Yields paths relative to the root, whatever folder they are written from."""
    for _, place in items:
        place = place.replace("\\", "/")
        place = place[len(root) :] if place.startswith(f"{root}/") else place
        parts = [part for part in place.split("/") if part not in ("", ".", "..")]
        # Some are written from folders above the root. `images` alone is no end of train/images: it
        # may hold all.
        for start in range(len(parts)):
            end = parts[start:]
            if start and all(layout.kind([part]) for part in end):
                continue
            if tf.io.gfile.exists(f"{root}/{'/'.join(end)}"):
                yield "/".join(end)
                break


def _text(path):
    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            return file.read().decode("utf-8-sig", "replace")
    except tf.errors.OpError as error:
        raise ConfigError(f"{path}: cannot be read: {reason(error)}") from error
