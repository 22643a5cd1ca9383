"""The made-up VOC 2007: it has VOC's layout, and becomes records."""

import xml.etree.ElementTree as ElementTree

import pytest
from PIL import Image

from benchmarks import voc
from cpc_tf.data import catalog
from cpc_tf.data.config import DataConfig

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("voc")
    voc.draw(folder, {"train": 10, "val": 10, "test": 3})
    return folder


def test_records_have_all_images(folder):
    voc.write_records(folder)
    data = DataConfig(dataset="voc/2007", data_dir=str(folder / "tfds"))
    for split, count in (("train+validation", 20), ("test", 3)):
        source = catalog.open_detection_source(data, split)
        assert (source.num_examples, source.class_names) == (count, voc.CLASSES)


def test_it_has_vocs_layout(folder):
    devkit = folder / "VOCdevkit/VOC2007"
    lists = {file.stem: file.read_text().split() for file in (devkit / "ImageSets/Main").iterdir()}
    assert {name: len(found) for name, found in lists.items()} == {"train": 10, "val": 10, "trainval": 20, "test": 3}
    assert lists["trainval"] == [f"{number:06}" for number in range(1, 21)]
    difficult = set()
    for name in (*lists["trainval"], *lists["test"]):
        with Image.open(devkit / f"JPEGImages/{name}.jpg") as image:
            width, height = image.size
        root = ElementTree.parse(devkit / f"Annotations/{name}.xml").getroot()
        assert [int(root.find(f"size/{side}").text) for side in ("width", "height")] == [width, height]
        for item in root.iter("object"):
            left, top, right, bottom = (int(item.find(f"bndbox/{n}").text) for n in ("xmin", "ymin", "xmax", "ymax"))
            assert 1 <= left < right <= width
            assert 1 <= top < bottom <= height
            difficult.add(item.find("difficult").text)
    assert difficult == {"0", "1"}
