"""The made-up ImageNet: its layout is that of TensorFlow Datasets, and a task starts on it."""

import collections
import pathlib

import pytest

from benchmarks import imagenet
from cpc_tf.data import catalog
from cpc_tf.data.config import DataConfig
from tests.binaries import ROOT

pytestmark = pytest.mark.slow
RECORDS, TEST_RECORDS, FILES, VOC = 3000, 1000, 7, 84


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("imagenet")
    imagenet.write(folder, RECORDS, TEST_RECORDS, FILES, VOC)
    return folder


def test_it_has_the_layout_of_the_real_ones(folder):
    data = DataConfig(dataset=imagenet.IMAGENET, data_dir=str(folder))
    pair = catalog.open_pair(data, "validation")
    assert (pair.source.num_examples, pair.test_source.num_examples) == (RECORDS, TEST_RECORDS)
    assert collections.Counter(pair.source.labels().tolist()) == dict.fromkeys(range(1000), 3)
    names = sorted(path.name for path in pathlib.Path(folder, "imagenet2012/5.1.0").glob("*train*"))
    assert names == [f"imagenet2012-train.tfrecord-{n:05}-of-00007" for n in range(7)]
    objects = DataConfig(dataset="voc/2007", data_dir=str(folder))
    assert catalog.open_detection_source(objects, "train+validation").num_examples == VOC
    assert catalog.open_detection_source(objects, "test").num_examples == VOC - 1


def test_a_start_is_measured_in_a_process_of_its_own(folder, monkeypatch):
    monkeypatch.chdir(ROOT)
    found = imagenet.measured(folder, "pre-training", ["--batch_size=16", "--directions=1"])
    assert found["seconds"] > 0 < found["cpu"]
    assert found["peak"] > 0.1
    records = sum(path.stat().st_size for path in folder.rglob("imagenet2012-train*"))
    assert found["read"] > records / 1e9
