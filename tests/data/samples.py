"""Images with boxes in memory."""

import io

import numpy as np
import tensorflow as tf
from PIL import Image

from cpc_tf.data import catalog
from cpc_tf.data.config import DataConfig
from cpc_tf.data.source import FOREVER, DetectionSource


def open_folder(root, split="train", cache="", **settings):
    return catalog.open_source(DataConfig(dataset=f"folder:{root}", data_dir=str(cache), **settings), split)


def open_voc_images(root, split="train", cache="", **settings):
    return catalog.open_source(DataConfig(dataset=f"voc:{root}", data_dir=str(cache), **settings), split)


def open_voc_folder(root, split="train", cache="", negatives_without_xml=False, **settings):
    data = DataConfig(dataset=f"voc:{root}", data_dir=str(cache), **settings)
    return catalog.open_detection_source(data, split, negatives_without_xml=negatives_without_xml)


class Images(DetectionSource):
    """Images with boxes in memory, in their order: (encoded, boxes, labels, difficult) each."""

    class_names = ("a", "b", "c")

    def __init__(self, examples):
        self.num_examples = len(examples)
        self._examples = examples

    def stream(self, seed, start=0, select=None):
        counters = tf.data.Dataset.range(start, FOREVER)
        return (counters if select is None else counters.filter(select)).map(self._reader())

    def ordered(self):
        return tf.data.Dataset.range(self.num_examples).map(self._reader())

    def _reader(self):
        encoded, boxes, labels, difficult = zip(*self._examples)
        columns = {
            "encoded": tf.constant(encoded),
            "name": tf.constant([f"image{i}" for i in range(len(encoded))]),
            "boxes": tf.ragged.constant([np.reshape(b, [-1, 4]).tolist() for b in boxes], tf.float32, 1, (4,)),
            "labels": tf.ragged.constant(labels, tf.int64),
            "difficult": tf.ragged.constant(difficult, tf.bool),
        }
        n = self.num_examples
        return lambda counter: {"counter": counter, **{k: column[counter % n] for k, column in columns.items()}}


def write_files(root, files):
    """Writes {path below root: bytes or text}."""
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content.encode() if isinstance(content, str) else content)


def encode(picture, kind="PNG", **options):
    """The file of a picture of Pillow or of pixels."""
    stream = io.BytesIO()
    image = picture if isinstance(picture, Image.Image) else Image.fromarray(picture)
    image.save(stream, kind, **options)
    return stream.getvalue()


def rectangle(shape, box, kind="PNG"):
    """One white rectangle on black."""
    pixels = np.zeros([*shape, 3], np.uint8)
    ymin, xmin, ymax, xmax = box
    pixels[ymin:ymax, xmin:xmax] = 255
    options = {"quality": 100, "subsampling": 0} if kind == "JPEG" else {}
    return encode(pixels, kind, **options), [box], [1], [False]


RECTANGLES = [
    ((40, 60), (5, 10, 25, 40)),
    ((60, 40), (0, 0, 30, 10)),  # in a corner
    ((20, 30), (4, 18, 20, 30)),  # enlarged
    ((300, 400), (100, 50, 180, 290)),
    ((30, 200), (10, 20, 30, 150)),  # bounded by the canvas
]
