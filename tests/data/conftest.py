"""Tiny data that several tests share."""

import types

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

from cpc_tf.data.sources import photos, tfds_source


@pytest.fixture(scope="session")
def photos_dir(tmp_path_factory):
    """A data_dir with photos/19 prepared: 3800 train, 950 test and 19 unlabelled crops."""
    data_dir = str(tmp_path_factory.mktemp("tfds"))
    with tfds_source.quiet():
        photos.Photos(config=photos.config(19), data_dir=data_dir).download_and_prepare()
    return data_dir


@pytest.fixture(scope="session")
def write_folder():
    """Writes 2x2 PNGs, all of the grey level of their number, under these names."""

    def write(root, names):
        for number, name in enumerate(names):
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            pixels = np.full([2, 2, 3], number % 256, np.uint8)
            path.write_bytes(tf.io.encode_png(pixels).numpy())
        return str(root)

    return write


@pytest.fixture(scope="session")
def sharded(tmp_path_factory):
    """Stands in for a prepared builder: shards of these many records, the image of record i is grey level i."""

    def make(*counts, skip=0):
        root = tmp_path_factory.mktemp("shards")
        features = tfds.features.FeaturesDict(
            {"image": tfds.features.Image(shape=(None, None, 3)), "label": tfds.features.ClassLabel(num_classes=3)}
        )
        pieces, number = [], 0
        for shard, count in enumerate(counts):
            path = str(root / f"{shard}.tfrecord")
            with tf.io.TFRecordWriter(path) as writer:
                for _ in range(skip):
                    writer.write(b"not to be read")
                for _ in range(count):
                    image = np.full([2, 2, 3], number % 256, np.uint8)
                    writer.write(features.serialize_example({"image": image, "label": number % 3}))
                    number += 1
                writer.write(b"not to be read")
            pieces.append(types.SimpleNamespace(filename=path, skip=skip, take=count))
        split = types.SimpleNamespace(num_examples=number, file_instructions=pieces)
        info = types.SimpleNamespace(features=features, splits={"train": split})
        return types.SimpleNamespace(name="sharded", info=info)

    return make
