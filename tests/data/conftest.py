"""Tiny data that several tests share, and folders that tests spoil."""

import io
import os
import types

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds
from absl import logging
from PIL import Image

from cpc_tf.core.settings import ConfigError
from cpc_tf.data import check, datasets, photos
from cpc_tf.data.table import FINDINGS
from tests.data.samples import encode, write_files

_CHECK = check._check


def _as_sound(root, paths, max_megapixels):
    """As `check._check` of sound images of 8 bits; their sizes are read from headers."""

    def size(path):
        try:
            with (
                tf.io.gfile.GFile(path, "rb") as file,
                Image.open(io.BytesIO(file.read())) as image,
            ):
                return *image.size[::-1], image.getexif().get(274, 1)
        except (OSError, tf.errors.OpError):
            return 0, 0, 1

    found = np.zeros([len(paths), FINDINGS], np.int64)
    found[:, check.STATE] = check.SOUND
    found[:, check.HEIGHT : check.PIXELS] = np.reshape([size(path) for path in paths], [-1, 3])
    return found


@pytest.fixture
def cache(tmp_path):
    return str(tmp_path / "cache")


@pytest.fixture
def unchecked(monkeypatch):
    """Takes the files of folders for sound images of 8 bits: decoding two of them takes as long as
    fifty tests.
    """
    monkeypatch.setattr(check, "_check", _as_sound)


@pytest.fixture
def checked(unchecked, monkeypatch):
    """Decodes them after all, in a module whose other tests are `unchecked`."""
    monkeypatch.setattr(check, "_check", _CHECK)


@pytest.fixture
def warnings(monkeypatch):
    """The warnings that a user sees: those of TFDS are muted."""

    def warn(message, *values):
        if logging.get_verbosity() >= logging.WARNING:
            lines.append(message % values)

    lines = []
    monkeypatch.setattr(logging, "warning", warn)
    check._warn.cache_clear()
    return lines


@pytest.fixture
def refused():
    """Calls a function that must refuse, and returns the one line that it says."""

    def refused(function, *args, **options):
        with pytest.raises(ConfigError) as error:
            function(*args, **options)
        assert str(error.value).isprintable()
        return str(error.value)

    return refused


@pytest.fixture
def unreadable(monkeypatch):
    """Makes a folder unreadable: the tests run as root, whom no permission stops."""
    scan = os.scandir

    def make(folder):
        def scandir(path):
            if os.fspath(path).rstrip("/") == str(folder):
                raise PermissionError(13, "Permission denied", path)
            return scan(path)

        monkeypatch.setattr(os, "scandir", scandir)

    return make


@pytest.fixture
def root(tmp_path):
    """Images in x/train/a, x/train/b and beside the tree, in beside/c."""
    names = ("x/train/a/1.png", "x/train/b/2.png", "beside/c/3.png")
    write_files(tmp_path, dict.fromkeys(names, encode(np.zeros([8, 8, 3], np.uint8))))
    return tmp_path / "x"


@pytest.fixture(scope="session")
def photos_dir(tmp_path_factory):
    """A data_dir with photos/19 prepared, with a tenth of the labelled crops: 380 train, 95 test,
    19 unlabelled.
    """
    data_dir = str(tmp_path_factory.mktemp("tfds"))
    with datasets.quiet(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(photos, "TRAIN_PER_CLASS", 20)
        patch.setattr(photos, "TEST_PER_CLASS", 5)
        photos.Photos(config=photos.config(19), data_dir=data_dir).download_and_prepare()
    return data_dir


@pytest.fixture(scope="session")
def write_folder():
    """Writes 2x2 PNGs, all of the grey level of their number, under these names."""

    def write(root, names):
        levels = (np.full([2, 2, 3], number % 256, np.uint8) for number in range(len(names)))
        write_files(root, {name: encode(pixels) for name, pixels in zip(names, levels)})
        return str(root)

    return write


@pytest.fixture(scope="session")
def sharded(tmp_path_factory):
    """Stands in for a prepared builder: shards of these many records. Record i is of grey level i,
    or `picture`.
    """

    def make(*counts, skip=0, picture=None):
        root = tmp_path_factory.mktemp("shards")
        features = tfds.features.FeaturesDict(
            {
                "image": tfds.features.Image(shape=(None, None, 3)),
                "label": tfds.features.ClassLabel(num_classes=3),
            }
        )
        pieces, number = [], 0
        for shard, count in enumerate(counts):
            path = str(root / f"{shard}.tfrecord")
            with tf.io.TFRecordWriter(path) as writer:
                for _ in range(skip):
                    writer.write(b"not to be read")
                for _ in range(count):
                    image = (
                        np.full([2, 2, 3], number % 256, np.uint8) if picture is None else picture
                    )
                    writer.write(features.serialize_example({"image": image, "label": number % 3}))
                    number += 1
                writer.write(b"not to be read")
            pieces.append(types.SimpleNamespace(filename=path, skip=skip, take=count))
        split = types.SimpleNamespace(num_examples=number, file_instructions=pieces)
        info = types.SimpleNamespace(
            features=features, splits={"train": split}, full_name="sharded/1.0.0"
        )
        return types.SimpleNamespace(name="sharded", info=info)

    return make
