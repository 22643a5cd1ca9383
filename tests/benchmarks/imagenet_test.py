"""The made-up ImageNet: its layout is that of TensorFlow Datasets, and sources open it."""

import collections
import pathlib

import pytest

from benchmarks import imagenet
from cpc_tf.data import catalog
from cpc_tf.data.config import DataConfig

pytestmark = pytest.mark.slow
RECORDS, TEST_RECORDS, FILES, VOC = 1000, 100, 7, 42


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("imagenet")
    imagenet.write(folder, RECORDS, TEST_RECORDS, FILES, VOC)
    return folder


def test_it_has_the_layout_of_the_real_ones(folder):
    data = DataConfig(dataset=imagenet.IMAGENET, data_dir=str(folder))
    pair = catalog.open_pair(data, "validation")
    assert (pair.source.num_examples, pair.test_source.num_examples) == (RECORDS, TEST_RECORDS)
    assert collections.Counter(pair.source.labels().tolist()) == dict.fromkeys(range(1000), 1)
    names = sorted(path.name for path in pathlib.Path(folder, "imagenet2012/5.1.0").glob("*train*"))
    assert names == [f"imagenet2012-train.tfrecord-{n:05}-of-00007" for n in range(7)]
    objects = DataConfig(dataset="voc/2007", data_dir=str(folder))
    assert catalog.open_detection_source(objects, "train+validation").num_examples == VOC
    assert catalog.open_detection_source(objects, "test").num_examples == VOC
