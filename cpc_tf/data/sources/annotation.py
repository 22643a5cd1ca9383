"""What the readers of annotations (VOC's XML, COCO's JSON, YOLO's text) find out about a folder of images."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import tensorflow as tf

NAN = float("nan")
UNKNOWN_SIZE = (NAN, NAN)


class Annotation(NamedTuple):
    """The unchecked objects of an image: an entry per object, in the file's order.

    A box is (ymin, xmin, ymax, xmax) as its `Format` counts; NaN where there is no number.
    """

    names: list[str]  # of the classes, '' if there is none
    boxes: list[list[float]]
    difficult: list[bool]
    size: tuple[float, float]  # (height, width) of the image, NaN or 0 if unknown
    filename: str = ""  # of the image, which need not be true


NO_OBJECTS = Annotation([], [], [], UNKNOWN_SIZE)


class Format(NamedTuple):
    """A format of annotations."""

    name: str
    known: str  # the layouts that are read, for messages
    annotated: str  # what makes an image annotated, for messages: 'none of its 4 images ...'
    incomplete: str  # what boxes lack whose numbers are NaN
    mistaken: str  # what the numbers are, for those who wrote others
    in_pixels: bool  # whether boxes are in pixels, else in parts of the image
    negatives: bool  # whether an image without an annotation has no objects; else that must be asked for
    # Boxes float64 [n, 4] as in the files and (height, width) of the image of each, int32 [n, 2] -> boxes as in
    # `cpc_tf.data.boxes` and whether each is sound.
    place: Callable[[np.ndarray, np.ndarray], tuple[tf.Tensor, tf.Tensor]]


class Annotated(NamedTuple):
    """A folder of images with boxes. Its images and annotations have the same keys, see `boxes_layout.key`."""

    format: Format
    root: str
    images: dict[str, str]  # {key: file}
    annotations: dict[str, Annotation | str]  # {key: annotation or why it cannot be read}
    class_names: tuple[str, ...]
    lists: dict[str, str]  # {split: path of its list}
    parts: dict[str, list[str]]  # {split: keys}, if there are no lists
    category_ids: Mapping[str, int] = MappingProxyType({})  # {class: its id}, if the format has ids
