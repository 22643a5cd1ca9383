"""Pictures with boxes in VOC's, COCO's and YOLO's formats: their files, and what is read from them."""

import json

import numpy as np
import tensorflow as tf

HEIGHT, WIDTH = 8, 12
# One box in the numbers of each format, and in ours: (ymin, xmin, ymax, xmax) from 0, half-open.
CAT = ("cat", 2, 3, 5, 6)
BBOX = (1, 2, 4, 4)
ROW = f"0 {3 / WIDTH!r} {4 / HEIGHT!r} {4 / WIDTH!r} {4 / HEIGHT!r}"
OURS = [2.0, 1.0, 6.0, 5.0]
CATEGORIES = ({"id": 1, "name": "cat"}, {"id": 90, "name": "dog"})


def picture(level, height=HEIGHT, width=WIDTH):
    return tf.io.encode_png(np.full([height, width, 3], level, np.uint8)).numpy()


def pictures(*names):
    """Pictures of these names, of grey levels 0, 1, ...; JPEGs hold PNGs, as files that were only renamed do."""
    return {name: picture(level) for level, name in enumerate(names)}


def xml(*objects, size=(HEIGHT, WIDTH)):
    """An annotation; an object is (name, xmin, ymin, xmax, ymax[, difficult])."""
    text = f"<annotation><size><width>{size[1]}</width><height>{size[0]}</height></size>"
    for name, *numbers in objects:
        corners = "".join(f"<{c}>{n}</{c}>" for c, n in zip(("xmin", "ymin", "xmax", "ymax"), numbers))
        difficult = numbers[4] if len(numbers) > 4 else 0
        text += f"<object><name>{name}</name><difficult>{difficult}</difficult><bndbox>{corners}</bndbox></object>"
    return (text + "</annotation>").encode()


def pairs(*places):
    """Images in VOC's format, each with its XML."""
    found = pictures(*(f"{place}.png" for place in places))
    return {**found, **{f"{place.replace('JPEGImages', 'Annotations')}.xml": xml(CAT) for place in places}}


def many(count):
    """So many images in VOC's layout: 000, 001, ..."""
    return pairs(*(f"JPEGImages/{number:03}" for number in range(count)))


def image(number, name, **more):
    return {"id": number, "file_name": name, "height": HEIGHT, "width": WIDTH, **more}


def box(number, category=1, bbox=BBOX, **more):
    return {"image_id": number, "category_id": category, "bbox": list(bbox), **more}


def coco(images, annotations, categories=CATEGORIES):
    return json.dumps({"images": images, "annotations": list(annotations), "categories": list(categories)})


def one(name):
    """COCO's JSON of one image with one box."""
    return coco([image(1, name)], [box(1)])


def contents(source):
    """(name, boxes, classes, whether difficult) of each image, in order."""
    return [
        (e["name"].decode(), e["boxes"].tolist(), [source.class_names[i] for i in e["labels"]], e["difficult"].tolist())
        for e in source.ordered().as_numpy_iterator()
    ]


def cats(name, count=1):
    """What `contents` says of an image with so many times our box."""
    return name, [OURS] * count, ["cat"] * count, [False] * count


def levels(source):
    """Grey levels of the images, in order."""
    return [int(tf.io.decode_image(e["encoded"])[0, 0, 0]) for e in source.ordered().as_numpy_iterator()]
