"""The ids of pictures and classes in COCO's JSON: those of true boxes, which `loadRes` compares, or numbers from 1."""

from __future__ import annotations

import collections
import itertools
import os
import unicodedata
from collections.abc import Sequence
from typing import Any, NamedTuple

from cpc_tf.files import read_json
from cpc_tf.predict.models import Model
from cpc_tf.settings import ConfigError
from cpc_tf.texts import listed


class Ids(NamedTuple):
    """The ids of the pictures, in their order, and of the classes."""

    images: list[int]
    categories: dict[str, int]


def read(path: str, files: Sequence[str], model: Model) -> Ids:
    """Returns the ids for pictures and the classes of a detector.

    Classes have the ids of --coco_ids, or else of the COCO JSON that the detector learned from; without either, both
    count from 1.

    Args:
      path: the value of --coco_ids, '' for none.
      files: names of the pictures.
      model: the detector.

    Raises:
      ConfigError: the file cannot be read, or lacks a picture or a class, or has a picture twice.
    """
    if not path:
        return Ids([*range(1, len(files) + 1)], _completed(model.category_ids, model.class_names))
    content = read_json(os.path.expanduser(path))
    try:
        numbers = {_composed(each["name"]): each["id"] for each in content["categories"]}
        images = [(_path(each["file_name"]), each["id"]) for each in content["images"]]
    except (KeyError, TypeError) as error:
        raise ConfigError("coco_ids", path, "is no COCO JSON with images and categories") from error
    if absent := [name for name in model.class_names if name not in numbers]:
        raise ConfigError("coco_ids", path, f"has {listed([*numbers])}, but no category {listed(absent)} of the model")
    return Ids(_image_ids(path, images, files), {name: numbers[name] for name in model.class_names})


def _image_ids(path: str, images: Sequence[tuple[str, Any]], files: Sequence[str]) -> list[Any]:
    """Returns the id of each picture: of the image with its path, or else with its name, if only one has it."""
    by_path, by_name = collections.defaultdict(list), collections.defaultdict(list)
    for name, number in images:
        by_path[name].append(number)
        by_name[os.path.basename(name)].append(number)
    found = [by_path.get(_path(file)) or by_name.get(os.path.basename(_path(file)), []) for file in files]
    for problem, wrong in (
        ("are not among its images", [file for file, own in zip(files, found) if not own]),
        ("may be several of its images", [file for file, own in zip(files, found) if len(own) > 1]),
    ):
        if wrong:
            raise ConfigError("coco_ids", path, f"{len(wrong)} of {len(files)} pictures {problem}: {listed(wrong)}")
    numbers = [own[0] for own in found]
    counts = collections.Counter(numbers)
    if twice := [file for file, own in zip(files, numbers) if counts[own] > 1]:
        raise ConfigError("coco_ids", path, f"several pictures are one of its images: {listed(twice)}")
    return numbers


def _completed(known: dict[str, int], class_names: Sequence[str]) -> dict[str, int]:
    """Returns an id of each class: the known one, or the next number that is free."""
    free = (number for number in itertools.count(1) if number not in known.values())
    return {name: known[name] if name in known else next(free) for name in class_names}


def _composed(name: Any) -> str:
    return unicodedata.normalize("NFC", str(name)).strip()


def _path(name: Any) -> str:
    return _composed(name).replace("\\", "/").removeprefix("./")
