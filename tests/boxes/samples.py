"""Images with boxes in VOC's, COCO's and YOLO's formats: their files, and what is read from
them.
"""

import json

import numpy as np
import tensorflow as tf

from cpc_tf.boxes.catalog import open_detection_sources
from cpc_tf.boxes.source import DetectionSource
from cpc_tf.data import catalog
from cpc_tf.data.config import DataConfig
from cpc_tf.data.source import FOREVER
from tests.data.samples import encode

HEIGHT, WIDTH = 8, 12
# One box in the numbers of each format, and in ours: (ymin, xmin, ymax, xmax) from 0, half-open.
CAT = ("cat", 2, 3, 5, 6)
BBOX = (1, 2, 4, 4)
ROW = f"0 {3 / WIDTH!r} {4 / HEIGHT!r} {4 / WIDTH!r} {4 / HEIGHT!r}"
OURS = [2.0, 1.0, 6.0, 5.0]
MORE = 1 / 512  # how much wider each further box of `cats` is, which all numbers hold exactly
CATEGORIES = ({"id": 1, "name": "cat"}, {"id": 90, "name": "dog"})


def picture(level, height=HEIGHT, width=WIDTH):
    return tf.io.encode_png(np.full([height, width, 3], level, np.uint8)).numpy()


def pictures(*names):
    """Images of these names, of grey levels 0, 1, ...; JPEGs hold PNGs, as files that were only
    renamed do.
    """
    return {name: picture(level) for level, name in enumerate(names)}


def xml(*objects, size=(HEIGHT, WIDTH)):
    """An annotation; an object is (name, xmin, ymin, xmax, ymax[, difficult])."""
    text = f"<annotation><size><width>{size[1]}</width><height>{size[0]}</height></size>"
    for name, *numbers in objects:
        corners = "".join(
            f"<{c}>{n}</{c}>" for c, n in zip(("xmin", "ymin", "xmax", "ymax"), numbers)
        )
        difficult = numbers[4] if len(numbers) > 4 else 0
        text += (
            f"<object><name>{name}</name><difficult>{difficult}</difficult>"
            f"<bndbox>{corners}</bndbox></object>"
        )
    return (text + "</annotation>").encode()


def pairs(*places):
    """Images in VOC's format, each with its XML."""
    found = pictures(*(f"{place}.png" for place in places))
    return {
        **found,
        **{f"{place.replace('JPEGImages', 'Annotations')}.xml": xml(CAT) for place in places},
    }


def many(count):
    """So many images in VOC's layout: 000, 001, ..."""
    return pairs(*(f"JPEGImages/{number:03}" for number in range(count)))


def image(number, name, **more):
    return {"id": number, "file_name": name, "height": HEIGHT, "width": WIDTH, **more}


def box(number, category=1, bbox=BBOX, **more):
    return {"image_id": number, "category_id": category, "bbox": list(bbox), **more}


def coco(images, annotations, categories=CATEGORIES):
    return json.dumps(
        {"images": images, "annotations": list(annotations), "categories": list(categories)}
    )


def one(name):
    """COCO's JSON of one image with one box."""
    return coco([image(1, name)], [box(1)])


def lines(name, head="filename,width,height,class,xmin,ymin,xmax,ymax"):
    """A table of one image with one box."""
    return f"\ufeff{head}\r\n{name},{WIDTH},{HEIGHT},cat,1,2,5,6\r\n"


def contents(source):
    """(name, boxes, classes, whether difficult) of each image, in order."""
    return [
        (
            e["name"].decode(),
            e["boxes"].tolist(),
            [source.class_names[i] for i in e["labels"]],
            e["difficult"].tolist(),
        )
        for e in source.ordered().as_numpy_iterator()
    ]


def cats(name, count=1):
    """What `contents` says of an image with so many boxes, each a little wider than the one
    before.
    """
    return name, ours(count), ["cat"] * count, [False] * count


def ours(count):
    """So many boxes in our numbers; the first is OURS. Below they are in the numbers of each
    format.
    """
    return [[*OURS[:3], OURS[3] + i * MORE] for i in range(count)]


def objects(count):
    """For `xml`."""
    return [("cat", 2, 3, 5 + i * MORE, 6) for i in range(count)]


def entries(number, count):
    """For COCO's annotations of an image."""
    return [box(number, bbox=(1, 2, 4 + i * MORE, 4)) for i in range(count)]


def rows(count, label=0):
    """Lines of YOLO."""
    widths = [4 + i * MORE for i in range(count)]
    return "".join(f"{label} {(1 + w / 2) / WIDTH!r} 0.5 {w / WIDTH!r} 0.5\n" for w in widths)


def levels(source):
    """Grey levels of the images, in order."""
    return [
        int(tf.io.decode_image(e["encoded"])[0, 0, 0]) for e in source.ordered().as_numpy_iterator()
    ]


def open_boxes(data, split="train", flag="split", **options):
    """One split of a dataset with boxes."""
    return open_detection_sources(data, {flag: split}, **options)[0]


def open_voc_images(root, split="train", cache="", **settings):
    return catalog.open_source(
        DataConfig(dataset=f"voc:{root}", data_dir=str(cache), **settings), split
    )


def open_voc_folder(root, split="train", cache="", negatives_without_xml=False, **settings):
    data = DataConfig(dataset=f"voc:{root}", data_dir=str(cache), **settings)
    return open_boxes(data, split, negatives_without_xml=negatives_without_xml)


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
            "boxes": tf.ragged.constant(
                [np.reshape(b, [-1, 4]).tolist() for b in boxes], tf.float32, 1, (4,)
            ),
            "labels": tf.ragged.constant(labels, tf.int64),
            "difficult": tf.ragged.constant(difficult, tf.bool),
        }
        n = self.num_examples
        return lambda counter: {
            "counter": counter,
            **{k: column[counter % n] for k, column in columns.items()},
        }


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
