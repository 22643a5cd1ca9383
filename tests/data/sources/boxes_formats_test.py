"""The same pictures and boxes in VOC's, COCO's and YOLO's formats are the same data."""

import json

import numpy as np
import pytest

from cpc_tf.data import catalog
from cpc_tf.data.config import DataConfig
from tests.data.samples import write_files
from tests.data.sources.boxes_folder_test import picture, xml
from tests.data.sources.boxes_turned_test import STORE, stored

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("unchecked")]

# (ymin, xmin, ymax, xmax) from 0, half-open: boxes of images of sizes whose reciprocals are no sums of powers of two.
SIZES = [(8, 12), (37, 53), (49, 23), (101, 7), (11, 97)]
CLASSES = ("zebra", "cat", "dog", "not there")  # not in the order of their names


def boxes_of(number, size):
    """(class, box, whether difficult) of an image; sides of two pixels or more, since VOC can state no shorter ones."""
    random = np.random.default_rng(number)
    corners = [np.sort(random.permuted(np.tile(np.arange(0, n + 1, 2), [number, 1]), axis=1)[:, :2]) for n in size]
    boxes = np.stack([corners[0][:, 0], corners[1][:, 0], corners[0][:, 1], corners[1][:, 1]], 1).tolist()
    return [(int(random.integers(3)), box, bool(random.integers(2))) for box in boxes]


def write(root):
    """Writes a folder of each format; returns {format: dataset}."""
    images = {f"{n}.png": (picture(n, "png", *size), size, boxes_of(n, size)) for n, size in enumerate(SIZES)}
    for tag in STORE:  # stored turned
        encoded, box, size = stored(tag)
        x0, y0, x1, y1 = map(int, box)
        images[f"t{tag}.jpg"] = encoded, size, [(1, (y0 - 1, x0 - 1, y1, x1), False)] if tag in (1, 6) else []
    coco = {"images": [], "annotations": [], "categories": []}
    coco["categories"] = [{"id": 7 * n + 3, "name": name} for n, name in enumerate(CLASSES)]
    files = {"yolo/data.yaml": f"names: {list(CLASSES)}\n"}
    for number, (name, (encoded, (height, width), boxes)) in enumerate(images.items()):
        stem = name.split(".")[0]
        objects = [(CLASSES[c], x0 + 1, y0 + 1, x1, y1, int(hard)) for c, (y0, x0, y1, x1), hard in boxes]
        files[f"voc/Annotations/{stem}.xml"] = xml(*objects, size=(height, width))
        coco["images"].append({"id": 100 - number, "file_name": name, "height": height, "width": width})
        for c, (y0, x0, y1, x1), hard in boxes:
            own = {"image_id": 100 - number, "category_id": 7 * c + 3, "iscrowd": int(hard)}
            coco["annotations"].append({**own, "bbox": [x0, y0, x1 - x0, y1 - y0]})
        parts = [
            (c, (x0 + x1) / 2 / width, (y0 + y1) / 2 / height, (x1 - x0) / width, (y1 - y0) / height)
            for c, (y0, x0, y1, x1), _ in boxes
        ]
        files[f"yolo/labels/{stem}.txt"] = "".join(" ".join(map(repr, map(float, row))) + "\n" for row in parts)
        for folder in ("voc/JPEGImages", "coco/images", "yolo/images"):
            files[f"{folder}/{name}"] = encoded
    files["coco/annotations/instances_default.json"] = json.dumps(coco)
    write_files(root, files)
    return {kind: f"{kind}:{root}/{kind}" for kind in ("voc", "coco", "yolo")}


def test_boxes_are_the_same_bits(tmp_path, cache):
    """Of pictures that are stored turned, too: COCO's sizes tell as VOC's do."""
    found = {}
    for kind, dataset in write(tmp_path).items():
        source = catalog.open_detection_source(DataConfig(dataset=dataset, data_dir=cache), "train")
        assert source.class_names == ("cat", "dog", "zebra")
        found[kind] = list(source.ordered().as_numpy_iterator())
    assert sum(len(example["labels"]) for example in found["voc"]) == sum(range(len(SIZES))) + 2
    for coco, yolo, expected in zip(found["coco"], found["yolo"], found["voc"]):
        for part in expected:
            np.testing.assert_array_equal(coco[part], expected[part])
        if expected["name"] != b"t6":  # of which YOLO's text cannot tell how it is meant
            for part in expected.keys() - {"difficult"}:  # which YOLO's format lacks
                np.testing.assert_array_equal(yolo[part], expected[part])


@pytest.mark.parametrize("kind", ["voc", "coco", "yolo"])
def test_images_alone(tmp_path, cache, kind):
    data = DataConfig(dataset=write(tmp_path)[kind], data_dir=cache)
    source = catalog.open_source(data, "train")
    assert source.labels().tolist() == [-1] * (len(SIZES) + len(STORE))
    assert not source.class_names
