"""The sets of images of the studies `coverage` and `encoders`: six kinds, each with about as many
images of each class.

Every function yields (image, label), the images of any size.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterable, Iterator
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


Example = tuple[Image.Image, int]  # image and label


class Pictures(NamedTuple):
    """Labelled images, as squares.

    Attributes:
      images: uint8 [N, SIDE, SIDE, 3].
      labels: int64 [N].
    """

    images: np.ndarray
    labels: np.ndarray


def photographs(places: Places, each: int = photos.TEST_PER_CLASS) -> Iterator[Example]:
    """`each` crops of each of 19 photographs, the classes; of their test part, which the encoder
    did not see either.
    """
    del places
    random = np.random.default_rng(0)
    for label, region in enumerate(photos.regions("test")):
        for _ in range(each):
            yield photos.cut(region, 112, 112, random), label


def imagenette(places: Places) -> Iterator[Example]:
    """Validation images of ten classes of ImageNet."""
    for label, folder in enumerate(sorted(pathlib.Path(places.pictures, "val").iterdir())):
        for path in sorted(folder.iterdir())[:MOST]:
            yield Image.open(path).convert("RGB"), label


def blood_cells(places: Places) -> Iterator[Example]:
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
    random = np.random.default_rng(0)
    for label, name in enumerate(sorted(boxes)):
        for number in random.permutation(len(boxes[name]))[:MOST]:
            picture, corners = boxes[name][number]
            yield Image.open(picture).convert("RGB").crop(corners), label


def drawings(places: Places) -> Iterator[Example]:
    """Drawings of eight subjects, of Debian's package openclipart-png."""
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
                yield Image.alpha_composite(white, drawing).convert("RGB"), label
                taken += 1


def digits(places: Places) -> Iterator[Example]:
    """Handwritten digits of 8 x 8 px, of scikit-learn."""
    from sklearn.datasets import load_digits

    del places
    data = load_digits()
    for label in range(10):
        for image in data.images[data.target == label][:MOST]:
            yield Image.fromarray((image * 15).astype(np.uint8)).convert("RGB"), label


def textures(places: Places) -> Iterator[Example]:
    """Squares of grey photographs of brick, grass and gravel, of scikit-image, which do not
    overlap.
    """
    import skimage.data

    del places
    for label, name in enumerate(("brick", "grass", "gravel")):
        texture = getattr(skimage.data, name)()
        for top in range(0, 512 - 42, 42):
            for left in range(0, 512 - 42, 42):
                square = texture[top : top + 42, left : left + 42]
                yield Image.fromarray(square).convert("RGB"), label


SETS: dict[str, Callable[[Places], Iterator[Example]]] = {
    "photos": photographs,
    "imagenette": imagenette,
    "blood cells": blood_cells,
    "drawings": drawings,
    "digits": digits,
    "textures": textures,
}


def squares(examples: Iterable[Example]) -> Pictures:
    """Returns the images resized to the side that the released encoder takes."""
    images = []
    labels = []
    for image, label in examples:
        images.append(np.asarray(image.resize((SIDE, SIDE), Image.Resampling.BILINEAR)))
        labels.append(label)
    return Pictures(np.stack(images), np.array(labels, np.int64))
