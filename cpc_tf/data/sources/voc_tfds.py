"""VOC as TensorFlow Datasets have it, and what is built like it."""

from __future__ import annotations

import tensorflow as tf
import tensorflow_datasets as tfds

from cpc_tf.data import boxes as box
from cpc_tf.data.decoding.decode import image_size
from cpc_tf.data.sources.source import DetectionSource
from cpc_tf.data.sources.tfds_source import Records
from cpc_tf.settings import ConfigError


class VocRecords(Records, DetectionSource):
    """A split of a prepared builder with the features of `voc`. See `DetectionSource`.

    TFDS divides VOC's numbers by the image's size and leaves them as they are else: the first pixel is 1, and the last
    belongs to the box. That is undone here, and boxes are cut off at the border; any without area is left out. Of an
    image that EXIF says to turn, boxes are taken for parts of the turned one: TFDS does not keep the annotation's size,
    which could tell.
    """

    def __init__(self, builder: tfds.core.DatasetBuilder, split: str, window: int):
        """Raises ConfigError if the builder has no such split or not these features."""
        super().__init__(builder, split, window)
        features = builder.info.features
        try:
            objects = features["objects"].feature
            self._features = tfds.features.FeaturesDict(
                {
                    "image": features["image"],
                    "image/filename": features["image/filename"],
                    # Only these: parsing the rest costs time.
                    "objects": tfds.features.Sequence({k: objects[k] for k in ("bbox", "label", "is_difficult")}),
                }
            )
        except KeyError as error:
            raise ConfigError(f"--dataset={builder.name}: has not the features of voc, {error} is missing") from error
        self.class_names = tuple(objects["label"].names)

    def _parse(self, counter, record):
        example = self._features.deserialize_example(record, decoders={"image": tfds.decode.SkipDecoding()})
        objects, size = example["objects"], image_size(example["image"])
        boxes, sound = box.from_voc(objects["bbox"] * tf.cast(tf.tile(size, [2]), tf.float32), size)
        return {
            "counter": counter,
            "encoded": example["image"],
            "name": tf.strings.regex_replace(example["image/filename"], r"\.[^.]*$", ""),
            "boxes": boxes[sound],
            "labels": objects["label"][sound],
            "difficult": objects["is_difficult"][sound],
        }
