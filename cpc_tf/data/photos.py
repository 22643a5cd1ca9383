"""`photos`: a dataset that needs no download, cut from photographs inside the scikit-image and
scikit-learn wheels.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import os

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds
from PIL import Image

# The files are read by path: skimage.data would download what it does not find.
_FOLDERS = {"skimage": "data", "sklearn": "datasets/images"}
_NAMES = (
    "astronaut.png brick.png camera.png cell.png chelsea.png china.jpg coffee.png coins.png"
    " flower.jpg grass.png gravel.png hubble_deep_field.jpg ihc.png moon.png motorcycle_left.png"
    " page.png retina.jpg rocket.jpg text.png"
).split()
_FILES = [
    ("sklearn" if name in ("china.jpg", "flower.jpg") else "skimage", name) for name in _NAMES
]
CLASSES = tuple(os.path.splitext(name)[0] for name in _NAMES)
SIDE = 64
TRAIN_PER_CLASS = 200
TEST_PER_CLASS = 50
UNLABELLED = 3800

# Crops are squares of this side before they are resized to SIDE: never enlarged, and 112 px is the
# most that fits into the test part of every photograph (134 px of page.png).
_SMALLEST_SQUARE = 64
_LARGEST_SQUARE = 112
# Shares of the longer side. The 5 % between them belong to no split.
_TRAIN_PART = (0.0, 0.6)
_TEST_PART = (0.65, 1.0)
_NO_LABEL = -1


@dataclasses.dataclass
class PhotosConfig(tfds.core.BuilderConfig):
    """How many crops the split `unlabelled` has."""

    unlabelled: int = UNLABELLED


def config(unlabelled: int = UNLABELLED) -> PhotosConfig:
    """Returns the builder config with this number of unlabelled crops."""
    return PhotosConfig(name=str(unlabelled), unlabelled=unlabelled)


class Photos(tfds.core.GeneratorBasedBuilder):
    """19 photographs, 19 classes; uint8 crops [64, 64, 3], mirrored at random, always the same for
    a version.

    Splits: `train` (200 a class) and `unlabelled` (label -1, as many as asked for, classes in turn)
    come from the first 60 % of a photograph along its longer side, `test` (50 a class) from the
    last 35 %: no pixel is shared.
    """

    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        features = tfds.features.FeaturesDict(
            {
                "image": tfds.features.Image(shape=(SIDE, SIDE, 3), encoding_format="png"),
                "label": tfds.features.ClassLabel(names=CLASSES),
            }
        )
        return tfds.core.DatasetInfo(
            builder=self,
            description=self.__doc__,
            features=features,
            supervised_keys=("image", "label"),
        )

    def _split_generators(self, dl_manager):
        del dl_manager  # nothing is downloaded
        train = regions("train")
        test = regions("test")
        # A seed each, so that one split's size does not change another's pixels.
        return {
            "train": self._generate_examples(train, TRAIN_PER_CLASS * len(train), seed=0),
            "test": self._generate_examples(test, TEST_PER_CLASS * len(test), seed=1),
            "unlabelled": self._generate_examples(
                train, self.builder_config.unlabelled, seed=2, labelled=False
            ),
        }

    def _generate_examples(self, parts, count, seed, labelled=True):
        """Yields `count` (key, example) pairs, one crop of each photograph in turn."""
        random = np.random.default_rng(seed)
        for number in range(count):
            label = number % len(parts)
            crop = _crop(parts[label], random)
            # Not compressed: twice as fast to write and to read, and the same bytes whatever the
            # release of zlib.
            png = tf.io.encode_png(crop, compression=0).numpy()
            yield number, {"image": png, "label": label if labelled else _NO_LABEL}


def regions(split: str) -> list[Image.Image]:
    """Returns the region of each photograph that the split 'train' or 'test' may show, in the order
    of CLASSES.
    """
    part = {"train": _TRAIN_PART, "test": _TEST_PART}[split]
    # find_spec locates a package without importing it: importing sklearn takes a second.
    roots = {
        package: os.path.dirname(importlib.util.find_spec(package).origin) for package in _FOLDERS
    }
    paths = [os.path.join(roots[package], _FOLDERS[package], file) for package, file in _FILES]
    return [region(Image.open(path).convert("RGB"), part) for path in paths]


def region(photo: Image.Image, part: tuple[float, float]) -> Image.Image:
    """Returns the part (from, to) of a photograph, in shares of its longer side, or of its width if
    it is a square.
    """
    width, height = photo.size
    start, stop = (round(share * max(photo.size)) for share in part)
    return photo.crop((start, 0, stop, height) if width >= height else (0, start, width, stop))


def _crop(pixels: Image.Image, random: np.random.Generator) -> np.ndarray:
    """Returns a random square of a region, resized to uint8 [SIDE, SIDE, 3], mirrored in half of
    the cases.
    """
    square = int(random.integers(_SMALLEST_SQUARE, _LARGEST_SQUARE, endpoint=True))
    # Cut first: PIL's resize with a box also reads pixels around the box.
    resized = np.asarray(
        cut(pixels, square, square, random).resize((SIDE, SIDE), Image.Resampling.LANCZOS)
    )
    return resized[:, ::-1] if random.integers(2) else resized


def cut(image: Image.Image, height: int, width: int, random: np.random.Generator) -> Image.Image:
    """Returns a random rectangle of an image."""
    left = int(random.integers(image.width - width, endpoint=True))
    top = int(random.integers(image.height - height, endpoint=True))
    return image.crop((left, top, left + width, top + height))
