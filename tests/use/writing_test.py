"""Where predictions are written: a disk that fills at any byte, and a bucket."""

import resource
import signal
import sys

import pytest
import tensorflow as tf

from cpc_tf.core.files import NotWritten
from cpc_tf.core.settings import ConfigError
from cpc_tf.use import formats
from cpc_tf.use.model import Prediction
from cpc_tf.use.predict import predict
from cpc_tf.use.predict_config import PredictConfig

RECORDS = [Prediction(f"{i}.jpg", ("a",), (0.5,)) for i in range(3)]


class Knows:
    """A model that knows the answer."""

    is_detector, multi_label, class_names, recommended_score = False, False, ["a"], 0.5

    def steps(self, *_):
        yield RECORDS, [None] * 3


@pytest.fixture
def disk():
    """Sets how long a file can be; at the end as long as before."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize("room", [0, 17, 80, 120])
def test_full_disk_at_any_byte_is_one_line(tmp_path, disk, room):
    config, part = PredictConfig("m", output=f"{tmp_path}/p.csv"), tmp_path / "p.csv.part"

    def write():
        with formats.opened(config, Knows, None) as append:
            for record in RECORDS:
                append([record])

    disk(room)
    with pytest.raises(
        NotWritten,
        match=r"p.csv.part: cannot be written \(File too large\); it has what was predicted",
    ):
        write()
    disk(resource.RLIM_INFINITY)
    left = part.read_bytes()
    write()
    assert (tmp_path / "p.csv").read_bytes()[:room] == left


def test_full_disk_on_standard_output_is_one_line(monkeypatch):
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        with pytest.raises(
            NotWritten, match=r"^--output=-: standard output cannot be written \(No space left"
        ):
            formats._print("a\n")


def test_bucket_gets_the_whole_file_at_the_end(tmp_path):
    (tmp_path / "list.txt").write_text("0.jpg\n1.jpg\n2.jpg\n")
    config = PredictConfig(model="m", pictures=f"{tmp_path}/list.txt", output="ram://bucket/p.csv")
    predict(config, model=Knows())
    assert tf.io.gfile.GFile(config.output).read().splitlines()[1] == "0.jpg,a,0.5000,,,,,"
    with pytest.raises(ConfigError, match="^--output=ram://bucket/p.csv: is finished"):
        predict(config)
    with pytest.raises(NotWritten, match="^nowhere://p.csv: cannot be written"):
        predict(PredictConfig(model="m", pictures=f"{tmp_path}/list.txt", output="nowhere://p.csv"))
