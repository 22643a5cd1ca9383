"""The made-up ImageNet and VOC 2007: they have the layout of the real ones, and sources open
them.
"""

import collections

import pytest

from benchmarks import imagenet, voc
from cpc_tf.boxes.voc import parse
from cpc_tf.data import catalog
from cpc_tf.data.config import DataConfig
from tests.boxes.samples import open_boxes

pytestmark = pytest.mark.slow


def boxes(folder, split):
    """The images with boxes that there are, and their classes."""
    source = open_boxes(DataConfig(dataset="voc/2007", data_dir=str(folder)), split)
    return source.num_examples, source.class_names


def test_records_of_imagenet_and_voc(tmp_path):
    imagenet.write(tmp_path, 1000, 100, 7, 42)
    pair = catalog.open_pair(
        DataConfig(dataset=imagenet.IMAGENET, data_dir=str(tmp_path)), "validation"
    )
    assert (pair.source.num_examples, pair.test_source.num_examples) == (1000, 100)
    assert collections.Counter(pair.source.labels().tolist()) == dict.fromkeys(range(1000), 1)
    names = sorted(path.name for path in (tmp_path / "imagenet2012/5.1.0").glob("*train*"))
    assert names == [f"imagenet2012-train.tfrecord-{n:05}-of-00007" for n in range(7)]
    assert boxes(tmp_path, "train+validation") == boxes(tmp_path, "test") == (42, voc.CLASSES)


def test_the_drawn_voc_becomes_records(tmp_path):
    voc.draw(tmp_path, {"train": 10, "val": 10, "test": 3})
    devkit = tmp_path / "VOCdevkit/VOC2007"
    lists = {file.stem: file.read_text().split() for file in (devkit / "ImageSets/Main").iterdir()}
    assert {name: len(found) for name, found in lists.items()} == {
        "train": 10,
        "val": 10,
        "trainval": 20,
        "test": 3,
    }
    found = [parse(path.read_bytes()) for path in (devkit / "Annotations").iterdir()]
    assert {difficult for each in found for difficult in each.difficult} == {False, True}
    voc.write_records(tmp_path)
    assert boxes(tmp_path / "tfds", "train+validation") == (20, voc.CLASSES)
    assert boxes(tmp_path / "tfds", "test") == (3, voc.CLASSES)
