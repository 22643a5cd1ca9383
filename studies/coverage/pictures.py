"""The sets of images of the study: six kinds, each with about as many images of each class.

Every function returns `Pictures`. The images are small squares, resized to the side that the
encoder takes.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import NamedTuple
from xml.etree import ElementTree

import numpy as np
from PIL import Image

from cpc_tf.data import photos
from studies.runner import Places

SIDE = 128  # px, of the released encoder
MOST = 150  # images of a class
# px and bytes of a drawing
SMALLEST_SIDE = 64
LARGEST_FILE = 500_000
DRAWINGS = (
    "animals",
    "computer",
    "food",
    "people",
    "recreation",
    "shapes",
    "signs_and_symbols",
    "transportation",
)


class Pictures(NamedTuple):
    """Labelled images.

    Attributes:
      images: uint8 [N, SIDE, SIDE, 3].
      labels: int64 [N].
    """

    images: np.ndarray
    labels: np.ndarray


def photographs(places: Places) -> Pictures:
    """Crops of 19 photographs, the classes; of their test part, which the encoder did not see
    either.
    """
    del places
    random = np.random.default_rng(0)
    squares = []
    labels = []
    for label, region in enumerate(photos.regions("test")):
        for _ in range(photos.TEST_PER_CLASS):
            squares.append(photos.cut(region, 112, 112, random))
            labels.append(label)
    return _stacked(squares, labels)


def imagenette(places: Places) -> Pictures:
    """Validation images of ten classes of ImageNet."""
    squares = []
    labels = []
    for label, folder in enumerate(sorted(pathlib.Path(places.pictures, "val").iterdir())):
        for path in sorted(folder.iterdir())[:MOST]:
            squares.append(Image.open(path).convert("RGB"))
            labels.append(label)
    return _stacked(squares, labels)


def blood_cells(places: Places) -> Pictures:
    """Cells of three kinds, cut out by their boxes; as many of each kind as of the rarest, at most
    MOST.
    """
    boxes: dict[str, list[tuple[pathlib.Path, tuple[int, ...]]]] = {}
    for annotation in sorted(pathlib.Path(places.boxes, "Annotations").glob("*.xml")):
        root = ElementTree.parse(annotation).getroot()
        picture = pathlib.Path(places.boxes, "JPEGImages", root.findtext("filename", ""))
        for each in root.iter("object"):
            corners = [
                int(each.findtext(f"bndbox/{side}", "0"))
                for side in ("xmin", "ymin", "xmax", "ymax")
            ]
            if min(corners[2] - corners[0], corners[3] - corners[1]) > 8:
                boxes.setdefault(each.findtext("name", ""), []).append((picture, tuple(corners)))
    squares = []
    labels = []
    random = np.random.default_rng(0)
    for label, name in enumerate(sorted(boxes)):
        for number in random.permutation(len(boxes[name]))[:MOST]:
            picture, corners = boxes[name][number]
            squares.append(Image.open(picture).convert("RGB").crop(corners))
            labels.append(label)
    return _stacked(squares, labels)


def drawings(places: Places) -> Pictures:
    """Drawings of eight subjects, of Debian's package openclipart-png."""
    squares = []
    labels = []
    random = np.random.default_rng(0)
    for label, subject in enumerate(DRAWINGS):
        paths = sorted(pathlib.Path(places.drawings, subject).rglob("*.png"))
        if not paths:
            raise FileNotFoundError(f"--drawings={places.drawings}: no drawings in {subject}")
        taken = 0
        for number in random.permutation(len(paths)):
            if taken == MOST:
                break
            if paths[number].stat().st_size > LARGEST_FILE:
                continue
            drawing = Image.open(paths[number]).convert("RGBA")
            if min(drawing.size) >= SMALLEST_SIDE:
                white = Image.new("RGBA", drawing.size, "white")
                squares.append(Image.alpha_composite(white, drawing).convert("RGB"))
                labels.append(label)
                taken += 1
    return _stacked(squares, labels)


def digits(places: Places) -> Pictures:
    """Handwritten digits of 8 x 8 px, of scikit-learn."""
    from sklearn.datasets import load_digits

    del places
    data = load_digits()
    squares = []
    labels = []
    for label in range(10):
        for image in data.images[data.target == label][:MOST]:
            squares.append(Image.fromarray((image * 15).astype(np.uint8)).convert("RGB"))
            labels.append(label)
    return _stacked(squares, labels)


def textures(places: Places) -> Pictures:
    """Squares of grey photographs of brick, grass and gravel, of scikit-image, which do not
    overlap.
    """
    import skimage.data

    del places
    squares = []
    labels = []
    for label, name in enumerate(("brick", "grass", "gravel")):
        texture = getattr(skimage.data, name)()
        for top in range(0, 512 - 42, 42):
            for left in range(0, 512 - 42, 42):
                square = texture[top : top + 42, left : left + 42]
                squares.append(Image.fromarray(square).convert("RGB"))
                labels.append(label)
    return _stacked(squares, labels)


SETS: dict[str, Callable[[Places], Pictures]] = {
    "photos": photographs,
    "imagenette": imagenette,
    "blood cells": blood_cells,
    "drawings": drawings,
    "digits": digits,
    "textures": textures,
}


def _stacked(squares: list[Image.Image], labels: list[int]) -> Pictures:
    resized = [
        np.asarray(square.resize((SIDE, SIDE), Image.Resampling.BILINEAR)) for square in squares
    ]
    return Pictures(np.stack(resized), np.array(labels, np.int64))
