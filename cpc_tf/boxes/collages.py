"""`collages`: a detection dataset that needs no download, photographs of `photos` pasted on each
other.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds
from PIL import Image

from cpc_tf.data import photos

# Photographs of stuff, not things. They are never objects: a part of a background would be an
# object without a label.
BACKGROUNDS = ("brick", "cell", "grass", "gravel", "hubble_deep_field", "moon")
CLASSES = tuple(name for name in photos.CLASSES if name not in BACKGROUNDS)
TRAIN = 600
TEST = 200

_HEIGHTS = (128, 160)
_WIDTHS = (160, 200)
_MOST_OBJECTS = 4
_SIDES = (32, 112)  # of an object, the longer one
_SLIMMEST = 0.5  # shorter by longer side
# Longer side of the cut that is resized to an object: never enlarged, and 134 px is the most that
# fits into the test part of every photograph.
_CUTS = (64, 134)
_LEAST_CONTRAST = (
    10  # standard deviation of an object's pixels: a piece of black sky could be anything
)
_MOST_COVERED = 0.2  # of the smaller of two objects, by the larger or beneath it
_TRIES = 20  # to find a cut or a place
_FILTER = Image.Resampling.LANCZOS


@dataclasses.dataclass
class CollagesConfig(tfds.core.BuilderConfig):
    """How many images the splits have."""

    train: int = TRAIN
    test: int = TEST


def config(train: int = TRAIN, test: int = TEST) -> CollagesConfig:
    """Returns the builder config with these numbers of images."""
    return CollagesConfig(name=f"{train}_{test}", train=train, test=test)


class Collages(tfds.core.GeneratorBasedBuilder):
    """1 to 4 cut-outs of photographs, 32 to 112 px, on another one: 128x160 to 160x200 px, 13
    classes.

    The features of `voc`, in its convention: a box is VOC's numbers, which count pixels from 1 and
    include the last, divided by the image's size. The classes come in turns. The splits are made of
    the regions that `photos` shows in its splits of the same names: no pixel is shared. Always the
    same pixels for a version.
    """

    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        objects = {
            "bbox": tfds.features.BBoxFeature(),
            "label": tfds.features.ClassLabel(names=CLASSES),
            "is_difficult": np.bool_,
            "is_truncated": np.bool_,
        }
        features = tfds.features.FeaturesDict(
            {
                "image": tfds.features.Image(encoding_format="png"),
                "image/filename": tfds.features.Text(),
                "objects": tfds.features.Sequence(objects),
            }
        )
        return tfds.core.DatasetInfo(builder=self, description=self.__doc__, features=features)

    def _split_generators(self, dl_manager):
        del dl_manager  # nothing is downloaded
        # A seed each, so that one split's size does not change another's pixels.
        return {
            "train": _examples("train", self.builder_config.train, seed=0),
            "test": _examples("test", self.builder_config.test, seed=1),
        }

    def _generate_examples(self):
        raise NotImplementedError("the generators are made in _split_generators")


def _examples(split, count, seed):
    """Yields `count` (key, example) pairs."""
    parts = dict(zip(photos.CLASSES, photos.regions(split)))
    things = [parts[name] for name in CLASSES]
    backgrounds = [parts[name] for name in BACKGROUNDS]
    random = np.random.default_rng(seed)
    for number in range(count):
        image = _background(backgrounds[number % len(backgrounds)], random)
        objects = _paste(image, things, number % len(things), random)
        # Not compressed, as in photos.
        png = tf.io.encode_png(np.asarray(image), compression=0).numpy()
        yield (
            number,
            {"image": png, "image/filename": f"{split}_{number:05}.png", "objects": objects},
        )


def _background(part, random):
    """Returns a random part of a region as an image of random size, enlarged only if it must be."""
    height, width = (int(random.integers(*sides, endpoint=True)) for sides in (_HEIGHTS, _WIDTHS))
    factor = min(1.0, part.width / width, part.height / height)
    return photos.cut(part, round(height * factor), round(width * factor), random).resize(
        (width, height), _FILTER
    )


def _paste(image, things, first, random):
    """Pastes objects onto the image, the first one of class `first`, and returns them as
    features.
    """
    taken = []
    objects = []
    for number in range(int(random.integers(1, _MOST_OBJECTS, endpoint=True))):
        label = first if number == 0 else int(random.integers(len(things)))
        thing = _thing(things[label], random)
        for _ in range(_TRIES):
            top = int(random.integers(image.height - thing.height, endpoint=True))
            left = int(random.integers(image.width - thing.width, endpoint=True))
            place = (top, left, top + thing.height, left + thing.width)
            if all(_covered(place, other) <= _MOST_COVERED for other in taken):
                break
        else:
            continue  # no room: one object less
        image.paste(thing, (left, top))
        taken.append(place)
        box = [
            (top + 1) / image.height,
            (left + 1) / image.width,
            place[2] / image.height,
            place[3] / image.width,
        ]
        objects.append(
            {
                "bbox": tfds.features.BBox(*box),
                "label": label,
                "is_difficult": False,
                "is_truncated": False,
            }
        )
    return objects


def _thing(part, random):
    """Returns a cut-out of a region, shrunk to a random size, mirrored in half of the cases."""
    longer = round(np.exp(random.uniform(*np.log(_SIDES))))
    shorter = round(longer * random.uniform(_SLIMMEST, 1))
    factor = random.integers(max(longer, _CUTS[0]), _CUTS[1], endpoint=True) / longer
    height, width = (longer, shorter) if random.integers(2) else (shorter, longer)
    for _ in range(_TRIES):
        cut = photos.cut(part, round(height * factor), round(width * factor), random)
        if np.asarray(cut).std() >= _LEAST_CONTRAST:
            break
    thing = cut.resize((width, height), _FILTER)
    return thing.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if random.integers(2) else thing


def _covered(one, other):
    """Returns the share of the smaller of two boxes (top, left, bottom, right) that lies within the
    larger.
    """
    height = min(one[2], other[2]) - max(one[0], other[0])
    width = min(one[3], other[3]) - max(one[1], other[1])
    smaller = min((box[2] - box[0]) * (box[3] - box[1]) for box in (one, other))
    return max(height, 0) * max(width, 0) / smaller
