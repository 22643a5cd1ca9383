"""The embedded photographs: counts, regions that share no pixel, the same pixels always."""

import hashlib

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from cpc_tf.data import catalog, photos
from cpc_tf.data.config import DataConfig

pytestmark = pytest.mark.slow


def open_photos(data_dir, split):
    return catalog.open_source(DataConfig(dataset="photos/19", data_dir=data_dir), split)


@pytest.mark.parametrize(("split", "per_class"), [("train", 20), ("test", 5)])
def test_labelled_splits_are_balanced(photos_dir, split, per_class):
    source = open_photos(photos_dir, split)
    assert source.class_names == photos.CLASSES
    assert source.class_counts().tolist() == [per_class] * 19
    # of which the fixture writes a tenth
    assert (photos.TRAIN_PER_CLASS, photos.TEST_PER_CLASS) == (
        200,
        50,
    )


def test_images_are_the_same_always(photos_dir):
    digest = hashlib.sha256()
    for split in ("train", "test", "unlabelled"):
        for example in open_photos(photos_dir, split).ordered().take(19):
            image = tf.io.decode_image(example["encoded"]).numpy()
            assert image.shape == (64, 64, 3)
            assert image.dtype == np.uint8
            digest.update(image.tobytes())
    assert digest.hexdigest()[:16] == "ff828c21c7d2fc9e", "new pixels need a new VERSION"


def test_splits_share_no_pixel():
    for size in ((100, 60), (60, 100), (80, 80)):
        # Each pixel holds its place along the longer side, of a square along its width.
        wide = size[0] >= size[1]
        ramp = np.tile(np.arange(max(size), dtype=np.uint8), [min(size), 1])
        photo = Image.fromarray(ramp if wide else ramp.T)
        assert photo.size == size
        train = np.asarray(photos.region(photo, photos._TRAIN_PART))
        test = np.asarray(photos.region(photo, photos._TEST_PART))
        assert train.max() == round(0.6 * max(size)) - 1
        assert test.min() == round(0.65 * max(size))
        assert test.max() == max(size) - 1
