"""The records of TensorFlow Datasets as sources: images with labels, and images with VOC's boxes."""

from __future__ import annotations

import functools

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds

from cpc_tf.data import boxes as box
from cpc_tf.data.config import RANGE
from cpc_tf.data.decoding.decode import image_size
from cpc_tf.data.sources import levels
from cpc_tf.data.sources.record_index import Piece, RecordIndex, index_of
from cpc_tf.data.sources.records import Records
from cpc_tf.data.sources.source import NO_LABEL, DetectionSource, IndexedSource, Source
from cpc_tf.settings import ConfigError

_UNLABELLED = ("unlabelled", "unlabeled")  # how names of splits without labels begin
_MOST_COUNTED = 1 << 30  # bytes of records that are read to count labels: seconds


class TfdsSource(Records, Source):
    """A split of a prepared builder: its image and, if there is one, its label. See `Source`."""

    def __init__(self, builder: tfds.core.DatasetBuilder, split: str, window: int, sixteen_bit: str = RANGE):
        """Raises ConfigError if the builder has no such split, or no images that can be read."""
        super().__init__(builder, split, window)
        self._name, self._split = builder.name, split
        self._features, self._image = _features(builder)
        if self._features[self._image].np_dtype == np.uint16:
            self.levels = levels.of_records(sixteen_bit, builder.name, self._some(builder), self.num_examples)
        # TFDS gives all splits the same features: unlabelled ones carry label -1, here as in stl10.
        bare = next((part for part in map(str.strip, split.split("+")) if part.startswith(_UNLABELLED)), "")
        if bare:
            self.about = self.about._replace(unlabelled=f"{bare} is a usual name for images without labels")
        labelled = "label" in self._features and not bare
        self.class_names = tuple(self._features["label"].names) if labelled else ()

    def names(self) -> list[str]:
        return [f"{self._split}/{index}" for index in range(self.num_examples)]

    @functools.cached_property
    def index(self) -> RecordIndex:
        """Where each record is, and its label, in the order of `ordered`. The first use may read all records."""
        pieces = [Piece(*piece) for piece in zip(self._files, self._skips.tolist(), self._takes.tolist())]
        return index_of(pieces, "label" if "label" in self._features else "", self._name)

    def labels(self) -> np.ndarray:
        return self.index.labels

    def by_index(self) -> IndexedRecords:
        return IndexedRecords(self)

    def class_counts(self) -> np.ndarray | None:
        size = 0
        for path in dict.fromkeys(self._files):
            size += tf.io.gfile.stat(path).length
            if size > _MOST_COUNTED:
                return None
        return super().class_counts()

    def _parse(self, counter, record):
        example = self._features.deserialize_example(record, decoders={self._image: tfds.decode.SkipDecoding()})
        label = tf.cast(example.get("label", NO_LABEL), tf.int64)
        return {"counter": counter, "encoded": example[self._image], "label": label}

    def _some(self, builder):
        """Yields encoded images of all splits; TFDS has shuffled them."""
        splits = [name for name, info in sorted(builder.info.splits.items()) if info.num_examples]
        for split in splits:
            examples = builder.as_dataset(split=split, decoders={self._image: tfds.decode.SkipDecoding()})
            yield from (example[self._image] for example in examples.take(levels.IMAGES // len(splits) + 1))


class IndexedRecords(IndexedSource):
    """The examples of a `TfdsSource`, each read where it is in its file."""

    def __init__(self, source: TfdsSource):
        self.num_examples, self.class_names, self.levels = source.num_examples, source.class_names, source.levels
        self.names, self.labels, self._parse = source.names, source.labels, source._parse
        self._paths, self._pieces = tf.constant(source._files), tf.constant(source.index.pieces)
        self._offsets = tf.constant(source.index.offsets)

    def read(self, index: tf.Tensor) -> dict[str, tf.Tensor]:
        # Only this operation begins within a file. Without a buffer it reads the record and no more.
        path, offset = self._paths[self._pieces[index]], self._offsets[index]
        shape = {"output_types": [tf.string], "output_shapes": [[]]}
        rest = tf.raw_ops.TFRecordDatasetV2(filenames=[path], compression_type="", buffer_size=0, byte_offsets=[offset])
        record = tf.raw_ops.TakeDataset(input_dataset=rest, count=1, **shape)
        (record,) = tf.raw_ops.DatasetToSingleElement(dataset=record, **shape)
        example = self._parse(index, record)
        return {"encoded": example["encoded"], "label": example["label"]}


def _features(builder):
    """Returns the features to read, as a FeaturesDict, and the name of the image among them."""
    features = builder.info.features
    images = [name for name in features if isinstance(features[name], tfds.features.Image)]
    if not images:
        raise ConfigError(f"--dataset={builder.name}: has no images, its features are {', '.join(features)}")
    image = "image" if "image" in images else images[0]
    if features[image].np_dtype not in (np.uint8, np.uint16):
        kind = np.dtype(features[image].np_dtype)
        raise ConfigError(f"--dataset={builder.name}: its images are of {kind}; what is read is uint8 and uint16")
    wanted = {image: features[image]}
    if "label" in features and isinstance(features["label"], tfds.features.ClassLabel):
        wanted["label"] = features["label"]
    # Only these: parsing the rest of each record (boxes, file names) costs time.
    return tfds.features.FeaturesDict(wanted), image


class VocRecords(Records, DetectionSource):
    """A split of a prepared builder with the features of `voc`. See `DetectionSource`.

    TFDS divides VOC's numbers by the image's size and changes nothing else: the first pixel is 1, and the last belongs
    to the box. That is undone here, and boxes are cut off at the border; any without area is left out. TFDS does not
    keep the annotation's size, so in an image that EXIF turns, boxes are taken as places in the turned image.
    """

    def __init__(self, builder: tfds.core.DatasetBuilder, split: str, window: int):
        """Raises ConfigError if the builder has no such split, or other features."""
        super().__init__(builder, split, window)
        features = builder.info.features
        try:
            objects = features["objects"].feature
            wanted = {key: features[key] for key in ("image", "image/filename")}
            # Only these: parsing the rest costs time.
            wanted["objects"] = tfds.features.Sequence({k: objects[k] for k in ("bbox", "label", "is_difficult")})
        except KeyError as error:
            raise ConfigError(f"--dataset={builder.name}: lacks {error}, a feature of voc") from error
        self._features = tfds.features.FeaturesDict(wanted)
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
