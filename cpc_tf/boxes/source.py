"""The interface of datasets with boxes, some of the images of one, and VOC's records of TensorFlow
Datasets.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds

from cpc_tf.boxes.geometry import from_voc
from cpc_tf.core.settings import ConfigError
from cpc_tf.data.decode import image_size
from cpc_tf.data.records import Records
from cpc_tf.data.source import Examples, Select


class ObjectTable(NamedTuple):
    """Which objects the images of a source have, in the order of `ordered`."""

    names: list[str]  # of the images
    images: np.ndarray  # int64 [objects], ascending: the place of its image in `names`
    labels: np.ndarray  # int64 [objects]
    difficult: np.ndarray  # bool [objects]

    def with_names(self, names: Collection[str]) -> ObjectTable:
        """Returns the images that have one of some names, and their objects."""
        wanted = np.array([name in names for name in self.names], bool)
        chosen = wanted[self.images]  # [objects]
        images = (np.cumsum(wanted) - 1)[self.images[chosen]]
        image_names = [name for name in self.names if name in names]
        return ObjectTable(image_names, images, self.labels[chosen], self.difficult[chosen])


class Sizes(NamedTuple):
    """Heights and widths in pixels of the decoded images.

    Attributes:
      images: [N, 2], of each image, in the order of `ordered`.
      boxes: [M, 2], of each object.
      owner: [M], the index of the image of each object.
    """

    images: np.ndarray
    boxes: np.ndarray
    owner: np.ndarray


class DetectionSource(Examples):
    """A dataset of encoded images with objects in them.

    `stream` and `ordered` give dicts:
      counter: int64.
      encoded: string, the bytes of an image file.
      name: string, the image's name in VOC's result files.
      boxes: float32 [n, 4], (ymin, xmin, ymax, xmax) in pixels of the decoded image, from 0 and
        half-open: the first pixel's is (0, 0, 1, 1). They lie within the image and have an area.
      labels: int64 [n], indices of class_names.
      difficult: bool [n], VOC's mark of objects that need not be found.

    Attributes:
      category_ids: {class: its id in COCO's JSON}; empty of other formats.
    """

    category_ids: Mapping[str, int] = MappingProxyType({})

    @functools.cached_property
    def objects(self) -> ObjectTable:
        """Which objects its images have; the first use may read all examples, without decoding an
        image.
        """
        examples = self.ordered().map(
            lambda example: [example[name] for name in ("name", "labels", "difficult")]
        )
        names, labels, difficult = zip(*examples.as_numpy_iterator())
        images = np.repeat(np.arange(len(names)), [len(of_image) for of_image in labels])
        return ObjectTable(
            [name.decode() for name in names],
            images,
            np.concatenate(labels),
            np.concatenate(difficult),
        )

    def groups(self) -> np.ndarray:
        """Returns for each image the index of the first that belongs with it, int64 [N]; here its
        own.
        """
        return np.arange(self.num_examples)

    def sizes(self) -> Sizes:
        """Returns the sizes of all images and objects; reads the images, but does not decode
        them.
        """
        examples = self.ordered().map(
            lambda example: (image_size(example["encoded"]), example["boxes"])
        )
        images, boxes = zip(*examples.as_numpy_iterator())
        sides = [of_image[:, 2:] - of_image[:, :2] for of_image in boxes]
        owner = np.repeat(np.arange(len(images)), [len(of_image) for of_image in boxes])
        return Sizes(np.stack(images), np.concatenate(sides), owner)


class Named(DetectionSource):
    """The images of a source that have one of some names; nothing is copied.

    An epoch has the order that the source has. A resume reads that epoch from its start, without
    decoding an image.
    """

    def __init__(self, source: DetectionSource, names: Collection[str]):
        self.class_names = source.class_names
        self.intensity_range = source.intensity_range
        self._source = source
        self.objects = source.objects.with_names({*names})
        self.num_examples = len(self.objects.names)
        pairs = tf.lookup.KeyValueTensorInitializer(
            tf.constant([*names]), tf.ones([len(names)], tf.int32)
        )
        self._wanted = tf.lookup.StaticHashTable(pairs, 0)

    def stream(self, seed: int, start: int = 0, select: Select = None) -> tf.data.Dataset:
        epoch, done = divmod(start, self.num_examples)
        examples = self._counted(
            self._source.stream(seed, epoch * self._source.num_examples), start, done
        )
        if select is None:
            return examples
        return examples.filter(lambda example: select(example["counter"]))

    def ordered(self) -> tf.data.Dataset:
        return self._counted(self._source.ordered(), 0, 0)

    def _counted(self, examples, start, done):
        """Returns the named ones among some examples, without the first `done`, counted from
        `start` on.
        """
        named = examples.filter(lambda example: self._wanted.lookup(example["name"]) > 0).skip(done)
        return named.enumerate(start).map(lambda counter, example: {**example, "counter": counter})


class VocRecords(Records, DetectionSource):
    """A split of a prepared builder with the features of `voc`. See `DetectionSource`.

    TFDS divides VOC's numbers by the image's size and changes nothing else: the first pixel is 1,
    and the last belongs to the box. That is undone here, and boxes are cut off at the border; any
    without area is left out. TFDS does not keep the annotation's size, so in an image that EXIF
    turns, boxes are taken as places in the turned image.
    """

    def __init__(self, builder: tfds.core.DatasetBuilder, split: str, window: int):
        """Raises ConfigError if the builder has no such split, or other features."""
        super().__init__(builder, split, window)
        features = builder.info.features
        try:
            objects = features["objects"].feature
            wanted = {key: features[key] for key in ("image", "image/filename")}
            # Only these: parsing the rest costs time.
            wanted["objects"] = tfds.features.Sequence(
                {k: objects[k] for k in ("bbox", "label", "is_difficult")}
            )
        except KeyError as error:
            raise ConfigError(
                f"--dataset={builder.name}: lacks {error}, a feature of voc"
            ) from error
        self._features = tfds.features.FeaturesDict(wanted)
        self.class_names = tuple(objects["label"].names)

    def _parse(self, counter, record):
        example = self._features.deserialize_example(
            record, decoders={"image": tfds.decode.SkipDecoding()}
        )
        objects = example["objects"]
        size = image_size(example["image"])
        boxes, sound = from_voc(objects["bbox"] * tf.cast(tf.tile(size, [2]), tf.float32), size)
        return {
            "counter": counter,
            "encoded": example["image"],
            "name": tf.strings.regex_replace(example["image/filename"], r"\.[^.]*$", ""),
            "boxes": boxes[sound],
            "labels": objects["label"][sound],
            "difficult": objects["is_difficult"][sound],
        }
