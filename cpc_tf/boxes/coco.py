"""`coco:PATH`: images and COCO's JSON files, each of which is a split."""

from __future__ import annotations

import collections
import itertools
import json
import os
import posixpath
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from cpc_tf.boxes import geometry, layout
from cpc_tf.boxes.layout import NAN, Annotated, Annotation, Format, warn
from cpc_tf.core.files import reason
from cpc_tf.core.settings import ConfigError
from cpc_tf.core.texts import shown
from cpc_tf.data import check, names, walk
from cpc_tf.data.config import DataConfig

FORMAT = Format(
    name="COCO",
    known=(
        "known are annotations/instances_NAME.json beside folders of images; a JSON file beside the"
        " images in each of train, valid and test; and coco:FILE.json"
    ),
    annotated="is in a JSON file",
    incomplete="no known category_id, or neither a bbox of four numbers nor a polygon",
    mistaken="bbox is x, y, width and height in pixels, not two corners",
    in_pixels=True,
    negatives=True,
    place=lambda boxes, size: geometry.clipped(boxes.astype(np.float32), size),
)
_INSTANCES = "instances_"
_LABELS = "_labels"
_ROBOFLOW = "_annotations.coco"
_ROBOFLOWS = (_ROBOFLOW, "_annotations")  # of its JSON files and its tables
_PARTS = ("images", "annotations", "categories")  # of a file


def read(data: DataConfig) -> Annotated:
    """Returns the images and annotations of --dataset=coco:PATH, a folder or a JSON file.

    Each JSON file is a split, see `_splits`. If there are files `instances_*.json`, others
    (captions, keypoints) are not read. The classes are the names of all categories with boxes,
    sorted. Groups (`iscrowd`) are difficult objects. Images without boxes are negatives. Polygons
    without a bbox become the boxes around them.

    Raises:
      ConfigError: no such folder or file, no images in it, JSON that cannot be read, two files of
        the same split, a name or an id that means two images, or more than 1 % of the boxes of a
        file have an unknown category.
    """
    root, files = files_of(data, ".json")
    instances = [name for name in files if os.path.basename(name).startswith(_INSTANCES)]
    files = instances or [name for name in files if _stem(name) == _ROBOFLOW] or files
    contents = {file: _load(root, file) for file in files}
    read_files = {file: content for file, content in contents.items() if _is_coco(content)}
    others = [file for file in files if file not in read_files]
    if others and not read_files:
        what = (
            "are labelme's, one for each image, which are not read; convert them, e.g. with"
            " labelme2coco"
        )
        what = (
            what if all(map(_is_labelme, contents.values())) else f"are not COCO's; {FORMAT.known}"
        )
        raise ConfigError(f"--dataset={data.dataset}: its {len(files)} JSON files {what}")
    warn(
        root,
        f"%d of %d JSON files lack COCO's lists {', '.join(_PARTS)} and are left out: %s",
        others,
        len(files),
    )
    annotated = assembled(data, FORMAT, root, read_files, "JSON files")
    return annotated._replace(category_ids=_category_ids(read_files.values()))


def assembled(
    data: DataConfig, format: Format, root: str, contents: Mapping[str, dict[str, Any]], what: str
) -> Annotated:
    """Returns the images and annotations of {file: content as of COCO's JSON}; `what`: how messages
    call the files.

    Raises:
      ConfigError: as `read`.
    """
    images = walk.images(root)
    if not images or not contents:
        hint = (layout.other_format(data, root) if images else "") or format.known
        raise ConfigError(
            f"--dataset={data.dataset}: no {what if images else 'images'} in it; {hint}"
        )
    find = _Finder(data.flag, images)
    annotations: dict[str, Annotation | str] = {}
    parts = {}
    for split, file in _splits(data, [*contents]).items():
        parts[split] = _add(data, root, file, split, contents[file], find, annotations)
    beside = [name for name in images if name not in find.keys]
    warn(
        root,
        f"%d of %d images are in no {what.removesuffix('s')} and are left out: %s",
        beside,
        len(images),
    )
    file_of = {key: file for file, key in find.keys.items()}
    return Annotated(format, root, file_of, annotations, layout.class_names(annotations), {}, parts)


def files_of(data: DataConfig, extension: str) -> tuple[str, list[str]]:
    """Returns the folder of --dataset=KIND:PATH and its files with an extension, or the one that
    PATH is.

    Raises:
      ConfigError: no such folder or file.
    """
    path = os.path.expanduser(data.ref.path)
    if walk.extension(path) == extension:
        if not tf.io.gfile.exists(path) or tf.io.gfile.isdir(path):
            raise ConfigError(f"--dataset={data.dataset}: no such file")
        folder, name = os.path.split(path)
        above, inner = os.path.split(folder)
        beside = inner.lower() in layout.ANNOTATIONS and above
        return (above, [f"{inner}/{name}"]) if beside else (folder or ".", [name])
    root = walk.folder_at(data.ref.path, data.flag)
    return root, walk.files(root, (extension,))


def _load(root: str, file: str) -> Any:
    """Returns the content of a file."""
    try:
        with tf.io.gfile.GFile(f"{root}/{file}", "rb") as opened:
            return json.loads(opened.read().decode("utf-8-sig"))
    except (ValueError, RecursionError, tf.errors.OpError) as error:
        raise ConfigError(f"{root}/{file}: cannot be read as JSON: {reason(error)}") from error


def _is_coco(content: Any) -> bool:
    if not isinstance(content, dict):
        return False
    for part in _PARTS:
        items = content.get(part)
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            return False
    return True


def _is_labelme(content: Any) -> bool:
    return isinstance(content, dict) and {"shapes", "imagePath"} <= {*content}


def _splits(data: DataConfig, files: Sequence[str]) -> dict[str, str]:
    """Returns {split: its file}.

    A split is called as its file without `instances_`, or as a folder that the file lies in: the
    first of them that is a usual name of a split. Without any, a file alone is `train`; of
    Roboflow's files the folder's name counts, of others that of the file.
    """
    file_of: dict[str, str] = {}
    for file in files:
        stem = _stem(file)
        folders = os.path.dirname(file).split("/")
        name = (
            stem[len(_INSTANCES) :] if stem.startswith(_INSTANCES) else stem.removesuffix(_LABELS)
        )
        usual = (each for each in (name, *reversed(folders)) if each and names.meaning(each))
        otherwise = folders[-1] if stem in _ROBOFLOWS else name
        if len(files) == 1:
            otherwise = "train"
        split = next(usual, otherwise)
        if split in file_of:
            raise ConfigError(
                f"--dataset={data.dataset}: {file_of[split]} and {file} are both the split {split}"
            )
        file_of[split] = file
    return file_of


def _stem(file):
    return os.path.splitext(os.path.basename(file))[0]


class _Finder:
    """Finds the images that JSON files name. `keys` are those found so far, {file: key}."""

    def __init__(self, flag: str, images: Sequence[str]):
        self.keys: dict[str, str] = {}
        self._flag = flag
        self._taken: set[str] = set()
        self._images = {unicodedata.normalize("NFC", name): name for name in images}
        self._by_name: dict[str, list[str]] = {}
        for name in self._images:
            self._by_name.setdefault(name.rsplit("/", 1)[-1], []).append(name)

    def key(self, name: str, folder: str, split: str) -> str | None:
        """Returns the key of the image `name` of a split whose JSON lies in `folder`; None if there
        is no such file.

        Raises:
          ConfigError: several files may be meant.
        """
        name = unicodedata.normalize("NFC", name).replace("\\", "/")
        places = (
            folder,
            f"{folder}/images",
            f"{folder}/data",
            "",
            "images",
            split,
            f"images/{split}",
            f"{split}/images",
        )
        paths = [posixpath.normpath(posixpath.join(place, name)) for place in places]
        same = []
        meaning = names.meaning(split)
        for path in self._by_name.get(name.rsplit("/", 1)[-1], []):
            # Folders of other splits may have images of the same names.
            kinds = {found.kind for part in path.split("/")[:-1] if (found := names.meaning(part))}
            if not (meaning and kinds) or meaning.kind in kinds:
                same.append(path)
        path = next((path for path in paths if path in self._images), same[0] if same else None)
        if path is None:
            return None
        if path not in paths and len(same) > 1:
            raise ConfigError(
                f"{self._flag}: {shown(name)} in the JSON file of {split} is ambiguous: it can"
                f" be {' or '.join(same[:2])}; add the folder to its file_name, or remove the"
                " other images"
            )
        file = self._images[path]
        if file not in self.keys:
            key = layout.key(file)
            self.keys[file] = file if key in self._taken else key  # a.jpg beside a.png
            self._taken.add(self.keys[file])
        return self.keys[file]


def _add(
    data: DataConfig,
    root: str,
    file: str,
    split: str,
    content: Mapping[str, list[dict[str, Any]]],
    find: _Finder,
    annotations: dict[str, Annotation | str],
) -> list[str]:
    """Adds the annotations of a file; returns the keys of its images, file names of those that are
    not there.
    """
    classes = _class_of(data, file, content)
    key_of, of_file = _images(data, file, split, content, find)

    # The objects of its images.
    strange = []
    unknown = []
    masks = []
    for thing in content["annotations"]:
        image_id = _text(thing.get("image_id"))
        category_id = _text(thing.get("category_id"))
        key = key_of.get(image_id)
        name = classes.get(category_id, "")
        if key is None:
            strange.append(image_id)
            continue
        if not name:
            unknown.append(f"{key} (category_id {category_id})")
        if key not in of_file:
            continue
        is_mask = not thing.get("bbox") and isinstance(thing.get("segmentation"), dict)
        if name and is_mask:
            masks.append(key)
        else:
            of_file[key].names.append(name)
            of_file[key].boxes.append(_box(thing) if name else [NAN] * 4)
            of_file[key].difficult.append(thing.get("iscrowd") in (1, True))

    # Files before this one count.
    differ = []
    for key, annotation in of_file.items():
        if annotations.setdefault(key, annotation) != annotation:
            differ.append(key)
    message = (
        f"{file}: %d of %d images have different boxes in an earlier JSON file, which are used: %s"
    )
    warn(root, message, differ, len(of_file))

    # What is left out.
    boxes = f"{len(content['annotations'])} boxes"
    problem = f"have an image_id that {file} does not name"
    check.leave_out(data.flag, strange, boxes, problem, "add it to its images")
    problem = f"have a category_id that {file} does not name"
    check.leave_out(data.flag, unknown, boxes, problem, "add it to its categories")
    problem = "have a mask in RLE, which is not read, and no bbox"
    remedy = "add the bbox, as pycocotools.mask.toBbox finds it"
    check.leave_out(data.flag, masks, boxes, problem, remedy)
    return list(dict.fromkeys(key_of.values()))


def _images(
    data: DataConfig,
    file: str,
    split: str,
    content: Mapping[str, list[dict[str, Any]]],
    find: _Finder,
) -> tuple[dict[str, str], dict[str, Annotation]]:
    """Returns {id of an image: its key, or its file name if it is not there} and {key: an empty
    annotation}.
    """
    key_of: dict[str, str] = {}
    of_file: dict[str, Annotation] = {}
    named: dict[str, tuple[str, str]] = {}  # {key: its first (file_name, id)}
    for image in content["images"]:
        name = _text(image.get("file_name", ""))
        number = _text(image.get("id"))
        key = find.key(name, os.path.dirname(file), split)
        first_name, first_number = named.setdefault(key or name, (name, number))
        if first_number != number:
            called = name if first_name == name else f"{first_name} and {name}"
            raise ConfigError(
                f"{data.flag}: in {file} the ids {first_number} and {number} name one"
                f" file, {called}; give each image its own file_name, with its folder if names"
                " repeat, or remove one of the two"
            )
        if key_of.setdefault(number, key or name) != (key or name):
            pair = f"{named[key_of[number]][0]} and {name}"
            raise ConfigError(
                f"{data.flag}: in {file} the images {pair} have the same id, {number};"
                " give each its own"
            )
        if key:
            size = _number(image.get("height")), _number(image.get("width"))
            of_file.setdefault(key, Annotation([], [], [], size))
    return key_of, of_file


def _class_of(
    data: DataConfig, file: str, content: Mapping[str, list[dict[str, Any]]]
) -> dict[str, str]:
    """Returns {id of a category: its name}.

    Raises:
      ConfigError: an id has two names, or boxes have two ids of one name. One without boxes does
        not matter: in files of Roboflow the first stands for all others, and may be called as one
        of them.
    """
    classes: dict[str, str] = {}
    for each in content["categories"]:
        number = _text(each.get("id"))
        name = _text(each.get("name", each.get("id")))
        if classes.setdefault(number, name) != name:
            pair = f"{classes[number]} and {name}"
            raise ConfigError(
                f"{data.flag}: in {file} the categories {pair} have the same id, {number};"
                " give each its own"
            )
    boxes = collections.Counter(_text(thing.get("category_id")) for thing in content["annotations"])
    id_of: dict[str, str] = {}
    for number, name in classes.items():
        other = id_of.setdefault(name, number) if boxes[number] else number
        if other != number:
            pair = f"{other} ({boxes[other]} boxes) and {number} ({boxes[number]} boxes)"
            raise ConfigError(
                f"{data.flag}: in {file} the categories of the ids {pair} are both called"
                f" {shown(name)}; rename one, or give their boxes one id"
            )
    return classes


def _category_ids(contents: Collection[Mapping[str, list[dict[str, Any]]]]) -> dict[str, int]:
    """Returns {class: the id of its category}; empty if files differ in them, or if some are not
    integers.

    Of two categories of one name, the one with boxes counts.
    """
    id_of: dict[str, int] = {}
    used = set()
    for content in contents:
        used.update(_text(thing.get("category_id")) for thing in content["annotations"])
    for content in contents:
        of_file: dict[str, int] = {}
        categories = content["categories"]
        for each in sorted(categories, key=lambda each: _text(each.get("id")) not in used):
            of_file.setdefault(_text(each.get("name", each.get("id"))), each.get("id"))
        if any(id_of.setdefault(name, number) != number for name, number in of_file.items()):
            return {}
    for number in id_of.values():
        if not isinstance(number, int) or isinstance(number, bool):
            return {}
    return id_of if len({*id_of.values()}) == len(id_of) else {}


def _text(value):
    return unicodedata.normalize("NFC", str(value)).encode("utf-8", "replace").decode().strip()


def _number(value):
    try:
        return (
            float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else NAN
        )
    except OverflowError:  # an integer of hundreds of digits
        return NAN


def _box(thing):
    """Returns (ymin, xmin, ymax, xmax) of an annotation: of its bbox [x, y, width, height], or
    around its polygons.
    """
    bbox = thing.get("bbox")
    polygons = thing.get("segmentation")
    if isinstance(bbox, list) and len(bbox) == 4:
        x, y, width, height = map(_number, bbox)
        return [y, x, y + height, x + width]
    if bbox or not (isinstance(polygons, list) and polygons):
        return [NAN] * 4
    # A single polygon may be without the list around it.
    parts = polygons if all(isinstance(part, list) for part in polygons) else [polygons]
    numbers = [_number(value) for value in itertools.chain(*parts)]
    if any(len(part) % 2 or len(part) < 6 for part in parts) or not np.isfinite(numbers).all():
        return [NAN] * 4
    x = numbers[::2]
    y = numbers[1::2]
    return [min(y), min(x), max(y), max(x)]
