"""`coco:PATH`: images and COCO's JSON files, each of which is a split."""

from __future__ import annotations

import json
import os
import posixpath
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from cpc_tf.data import boxes as box
from cpc_tf.data.config import DataConfig
from cpc_tf.data.sources import boxes_layout, check, names, tree, walk
from cpc_tf.data.sources.annotation import NAN, Annotated, Annotation, Format
from cpc_tf.data.sources.boxes_layout import warn
from cpc_tf.files import reason
from cpc_tf.settings import ConfigError

FORMAT = Format(
    name="COCO",
    known="known are annotations/instances_NAME.json beside folders of images; Roboflow's _annotations.coco.json "
    "beside the images in train, valid and test; and coco:FILE.json",
    annotated="is in a JSON file",
    incomplete="no known category_id or no bbox of four numbers",
    in_pixels=True,
    negatives=True,
    place=lambda boxes, size: box.clipped(boxes.astype(np.float32), size),
)
_INSTANCES, _ROBOFLOW = "instances_", "_annotations.coco"
_PARTS = ("images", "annotations", "categories")  # of a file


def read(data: DataConfig) -> Annotated:
    """Returns the images and annotations of --dataset=coco:PATH, a folder or a JSON file.

    Each JSON file is a split. Its name is that of the file without `instances_`; of Roboflow's `_annotations.coco.json`
    it is the folder's; a single file without a usual name of a split is `train`. If there are files
    `instances_*.json`, others (captions, keypoints) are not read. The classes are the names of all categories with
    boxes, sorted. Groups (`iscrowd`) are difficult objects. Images without boxes are negatives.

    Raises:
      ConfigError: no such folder or file, no images in it, JSON that cannot be read, two files of the same split, or
        more than 1 % of the boxes of a file have an unknown category.
    """
    root, files = _files(data)
    images = tree.images(root)
    if not images or not files:
        raise ConfigError(f"--dataset={data.dataset}: no {'JSON files' if images else 'images'} in it; {FORMAT.known}")
    read_files = {file: content for file in files if (content := _load(root, file))}
    splits = _splits(data, [*read_files])
    find = _Finder(images)
    annotations: dict[str, Annotation | str] = {}
    parts = {}
    for split, file in splits.items():
        parts[split] = _add(data, root, file, split, read_files[file], find, annotations)
    class_names = sorted({name for a in annotations.values() for name in a.names if name})
    beside = [name for name in images if name not in find.keys]
    warn(root, "%d of %d images are in no JSON file and are left out: %s", beside, len(images))
    found = {key: file for file, key in find.keys.items()}
    return Annotated(FORMAT, root, found, annotations, tuple(class_names), {}, parts)


def _files(data: DataConfig) -> tuple[str, list[str]]:
    """Returns the folder and its JSON files of annotations, relative to it."""
    path = os.path.expanduser(data.dataset.partition(":")[2])
    if walk.extension(path) == ".json":
        if not tf.io.gfile.exists(path) or tf.io.gfile.isdir(path):
            raise ConfigError(f"--dataset={data.dataset}: no such file")
        folder, name = os.path.split(path)
        above, own = os.path.split(folder)
        beside = own.lower() in boxes_layout.ANNOTATIONS and above
        return (above, [f"{own}/{name}"]) if beside else (folder or ".", [name])
    root = walk.folder_of(data.dataset)
    found = walk.files(root, (".json",))
    instances = [name for name in found if os.path.basename(name).startswith(_INSTANCES)]
    return root, instances or [name for name in found if _stem(name) == _ROBOFLOW] or found


def _load(root: str, file: str) -> dict[str, Any] | None:
    """Returns the content of a file; None, with a warning, if it is JSON of another kind."""
    try:
        with tf.io.gfile.GFile(f"{root}/{file}", "rb") as opened:
            content = json.loads(opened.read().decode("utf-8-sig"))
    except (ValueError, RecursionError, tf.errors.OpError) as error:
        raise ConfigError(f"{root}/{file}: cannot be read as JSON: {reason(error)}") from error
    lists = isinstance(content, dict) and all(isinstance(content.get(part), list) for part in _PARTS)
    if lists and all(isinstance(each, dict) for part in _PARTS for each in content[part]):
        return content
    warn(root, f"%d of %d JSON files lack COCO's lists {', '.join(_PARTS)} and are left out: %s", [file], 1)
    return None


def _splits(data: DataConfig, files: Sequence[str]) -> dict[str, str]:
    """Returns {split: its file}."""
    found: dict[str, str] = {}
    for file in files:
        stem = _stem(file)
        name = os.path.basename(os.path.dirname(file)) if stem == _ROBOFLOW else stem[len(_prefix(stem)) :]
        if len(files) == 1 and not (name and names.meaning(name)):
            name = "train"
        if name in found:
            raise ConfigError(f"--dataset={data.dataset}: {found[name]} and {file} are both the split {name}")
        found[name] = file
    if not found:
        raise ConfigError(f"--dataset={data.dataset}: none of its JSON files is COCO's; {FORMAT.known}")
    return found


def _stem(file):
    return os.path.splitext(os.path.basename(file))[0]


def _prefix(stem):
    return _INSTANCES if stem.startswith(_INSTANCES) else ""


class _Finder:
    """Finds the images that JSON files name. `keys` are those found so far, {file: key}."""

    def __init__(self, images: Sequence[str]):
        self.keys: dict[str, str] = {}
        self._taken: set[str] = set()
        self._images = {unicodedata.normalize("NFC", name): name for name in images}
        self._by_name: dict[str, list[str]] = {}
        for name in self._images:
            self._by_name.setdefault(name.rsplit("/", 1)[-1], []).append(name)

    def key(self, name: str, folder: str, split: str) -> str | None:
        """Returns the key of the image `name` of a split whose JSON lies in `folder`; None if there is no such file."""
        name = unicodedata.normalize("NFC", name).replace("\\", "/")
        places = (folder, "", "images", split, f"images/{split}", f"{split}/images")
        paths = [posixpath.normpath(posixpath.join(place, name)) for place in places]
        same = self._by_name.get(name.rsplit("/", 1)[-1], [])
        same = [path for path in same if not _is_of_another_split(path, split)]
        found = next((path for path in paths if path in self._images), same[0] if len(same) == 1 else None)
        if found is None:
            return None
        file = self._images[found]
        if file not in self.keys:
            key = boxes_layout.key(file)
            self.keys[file] = file if key in self._taken else key  # a.jpg beside a.png
            self._taken.add(self.keys[file])
        return self.keys[file]


def _is_of_another_split(path, split):
    """Returns whether a file is in a folder of another split by name, whose images may have the same names."""
    own = names.meaning(split)
    kinds = {found.kind for part in path.split("/")[:-1] if (found := names.meaning(part))}
    return bool(own and kinds) and own.kind not in kinds


def _add(
    data: DataConfig,
    root: str,
    file: str,
    split: str,
    content: Mapping[str, list[dict[str, Any]]],
    find: _Finder,
    annotations: dict[str, Annotation | str],
) -> list[str]:
    """Adds the annotations of a file; returns the keys of its images, file names of those that are not there."""
    classes = {_text(each.get("id")): _text(each.get("name", each.get("id"))) for each in content["categories"]}
    key_of: dict[str, str] = {}
    own: dict[str, Annotation] = {}
    for image in content["images"]:
        name = _text(image.get("file_name", ""))
        key = find.key(name, os.path.dirname(file), split)
        key_of[_text(image.get("id"))] = key or name
        if key:
            size = _number(image.get("height")), _number(image.get("width"))
            own.setdefault(key, Annotation([], [], [], size))
    strange, unknown = [], []
    for thing in content["annotations"]:
        image_id, category_id = _text(thing.get("image_id")), _text(thing.get("category_id"))
        key, name = key_of.get(image_id), classes.get(category_id, "")
        if key is None:
            strange.append(image_id)
            continue
        if not name:
            unknown.append(f"{key} (category_id {category_id})")
        if key in own:
            own[key].names.append(name)
            own[key].boxes.append(_box(thing.get("bbox")) if name else [NAN] * 4)
            own[key].difficult.append(thing.get("iscrowd") in (1, True))
    differ = [key for key in own if annotations.setdefault(key, own[key]) != own[key]]
    warn(root, f"{file}: %d of %d images have other boxes in a JSON file before it, which count: %s", differ, len(own))
    total = len(content["annotations"])
    warn(root, f"{file}: %d of %d boxes have an image_id of none of its images and are left out: %s", strange, total)
    problem, remedy = f"have a category_id that {file} does not name", "add it to its categories"
    check.leave_out(data.flag, unknown, f"{total} boxes", problem, remedy)
    return list(dict.fromkeys(key_of.values()))


def _text(value):
    return unicodedata.normalize("NFC", str(value)).encode("utf-8", "replace").decode().strip()


def _number(value):
    try:
        return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else NAN
    except OverflowError:  # an integer of hundreds of digits
        return NAN


def _box(bbox):
    """Returns (ymin, xmin, ymax, xmax) of COCO's [x, y, width, height], which count from 0."""
    if not isinstance(bbox, list) or len(bbox) != 4:
        return [NAN] * 4
    x, y, width, height = map(_number, bbox)
    return [y, x, y + height, x + width]
