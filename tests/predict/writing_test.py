"""Where predictions are written: a disk that fills at any byte, and a bucket."""

import resource
import signal
import sys

import pytest
import tensorflow as tf

from cpc_tf.files import NotWritten
from cpc_tf.predict import part, run
from cpc_tf.predict.config import PredictConfig
from cpc_tf.predict.records import Prediction
from cpc_tf.predict.run import predict
from cpc_tf.settings import ConfigError

ABOUT = {"--model": "a"}
RECORDS = [Prediction(f"{i}.jpg", ("a",), (0.5,)) for i in range(3)]


@pytest.fixture
def disk():
    """Sets how long a file can be; at the end as long as before."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


def written(output):
    """Writes the records one by one, behind those that are there; returns those."""
    with part.opened(output, ABOUT) as unfinished:
        for record in RECORDS[len(unfinished.records) :]:
            unfinished.append([record])
        return unfinished.records


@pytest.mark.parametrize("room", [0, 5, 17, 40, 90, 200])
def test_a_full_disk_is_one_line_wherever_it_fills(tmp_path, disk, room):
    output = f"{tmp_path}/p.csv"
    disk(room)
    with pytest.raises(NotWritten, match=r"p.csv.part: cannot be written \(File too large\)"):
        written(output)
    disk(resource.RLIM_INFINITY)
    done = written(output)  # goes on behind the last whole line
    assert done == RECORDS[: len(done)]
    assert written(output) == RECORDS


def test_a_full_disk_behind_standard_output_is_one_line(monkeypatch):
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        with pytest.raises(NotWritten, match=r"^--output=-: standard output cannot be written \(No space left"):
            run._print([["a"]])


class Knows:
    """A model that knows the answer."""

    is_detector, several_labels, usual_batch, class_names, levels = False, False, 2, ["a"], None

    def predict(self, files, batch_size, start=0):
        yield (
            run.pictures.Batch(0, 3, *[run.pictures.np.zeros([0], int)] * 2, run.pictures.np.zeros([0], bool), {}),
            RECORDS,
            [],
        )


def test_a_bucket_gets_the_whole_file_at_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "open_model", lambda *_: Knows())
    (tmp_path / "list.txt").write_text("0.jpg\n1.jpg\n2.jpg\n")
    config = PredictConfig(model="m", pictures=f"{tmp_path}/list.txt", output="ram://bucket/p.csv")
    predict(config)
    assert tf.io.gfile.GFile(config.output).read().splitlines()[1] == "0.jpg,a,0.5000,,,,,"
    with pytest.raises(ConfigError, match="^--output=ram://bucket/p.csv: is finished"):
        predict(config)
    with pytest.raises(NotWritten, match="^nowhere://p.csv: cannot be written"):
        predict(PredictConfig(model="m", pictures=f"{tmp_path}/list.txt", output="nowhere://p.csv"))
