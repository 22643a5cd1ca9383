"""ImageNet and VOC in the layout of TensorFlow Datasets, of the photographs that `photos` is cut
from.
"""

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds
from tensorflow_datasets.object_detection import voc

from cpc_tf.data import datasets, photos

CLASSES, SIDE = 6, 80


def write_imagenet(data_dir, train=110, validation=10):
    """imagenet2012:5.1.0 with so many crops of each of 6 photographs; the real one's features, but
    for names.
    """
    features = tfds.features.FeaturesDict(
        {
            "image": tfds.features.Image(encoding_format="jpeg"),
            "label": tfds.features.ClassLabel(names=photos.CLASSES[:CLASSES]),
            "file_name": tfds.features.Text(),
        }
    )
    splits = {"train": _crops("train", train), "validation": _crops("test", validation)}
    _store("imagenet2012", "5.1.0", features, splits, data_dir)


def _crops(part, count):
    """Examples of ImageNet, classes in turn."""
    random, regions = np.random.default_rng(count), photos.regions(part)[:CLASSES]
    for number in range(count * CLASSES):
        label = number % CLASSES
        side = min(SIDE, *regions[label].size)
        image = np.asarray(photos.cut(regions[label], side, side, random))
        yield number, {"image": _jpeg(image), "label": label, "file_name": f"{number}.JPEG"}


def write_voc(data_dir, count=8):
    """voc/2007 with so many images in each split: a photograph on grey, its box and its class of
    VOC's twenty.
    """
    builder = voc.Voc(config="2007", data_dir=data_dir)
    splits = {
        name: _boxes(count, seed) for seed, name in enumerate(("train", "validation", "test"))
    }
    _store("voc", str(builder.version), builder.info.features, splits, data_dir, "2007")


def _boxes(count, seed):
    """Examples of VOC. Its boxes are VOC's numbers from 1, divided by the sides."""
    random, region = np.random.default_rng(seed), photos.regions("train")[0]
    for number in range(count):
        image = np.full([96, 128, 3], 128, np.uint8)
        top, left = random.integers(0, 30, 2)
        image[top : top + 64, left : left + 64] = np.asarray(photos.cut(region, 64, 64, random))
        box = tfds.features.BBox(
            (top + 1) / 96, (left + 1) / 128, (top + 64) / 96, (left + 64) / 128
        )
        seen = {
            "label": number % 20,
            "bbox": box,
            "pose": 0,
            "is_truncated": False,
            "is_difficult": False,
        }
        names = {"labels": [number % 20], "labels_no_difficult": [number % 20]}
        name = f"{seed}{number:05}.jpg"
        yield name, {"image": _jpeg(image), "image/filename": name, "objects": [seen], **names}


def _jpeg(image):
    return tf.io.encode_jpeg(image, quality=95).numpy()


def _store(name, version, features, splits, data_dir, config=None):
    with datasets.quiet():
        tfds.dataset_builders.store_as_tfds_dataset(
            name, version, features, splits, config, data_dir
        )
