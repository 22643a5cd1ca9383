import math
import os
import signal

import pytest
import tensorflow as tf

from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.settings import replace
from cpc_tf.training import loop
from cpc_tf.training.checkpoint import Checkpoints
from cpc_tf.training.strategy import make_strategy
from cpc_tf.training.workdir import Workdir


class Adder(tf.Module):
    """A trainee whose variable adds up what the data says, exactly."""

    metric_names = ("loss",)

    def __init__(self):
        super().__init__()
        self.strategy = make_strategy("single")
        self.total, self.count = tf.Variable(0, dtype=tf.int64), tf.Variable(0, dtype=tf.int64)
        self.checkpoint = tf.train.Checkpoint(total=self.total, count=self.count)

    def train_step(self, batch):
        self.total.assign(self.total * 3 % 1_000_003 + batch)
        self.count.assign_add(1)
        return {"loss": tf.cast(batch, tf.float32)}


def _numbers(step, context):
    return tf.data.Dataset.range(step, 10**9)


def _config(tmp_path, **settings):
    training = {"batch_size": 1, "steps_per_loop": 4, "checkpoint_every": 10, **settings}
    return replace(PretrainConfig(), workdir=str(tmp_path / "run"), **training)


def _train(config, steps, **arguments):
    adder = Adder()
    record = loop.train(adder, _numbers, config.training, steps, Workdir(config), **arguments)
    return adder, record


def _wanted(steps):
    total = 0
    for step in range(steps):
        total = total * 3 % 1_000_003 + step
    return total


@pytest.mark.parametrize("steps_per_loop", [1, 4, 7, 100])
def test_runs_each_step_once_in_order(tmp_path, steps_per_loop):
    adder, record = _train(_config(tmp_path, steps_per_loop=steps_per_loop), 23)
    assert int(adder.total) == _wanted(23)
    assert record["step"] == 23
    assert Checkpoints(str(tmp_path / "run"), adder.checkpoint).steps() == [10, 20, 23]


def test_metrics_are_means_over_the_device_loop(tmp_path):
    config = _config(tmp_path)
    _train(config, 12)
    records = Workdir(config).metrics()
    # Loops end at checkpoints: 0-3, 4-7, 8-9, 10-11.
    assert [(r["step"], r["loss"]) for r in records] == [(4, 1.5), (8, 5.5), (10, 8.5), (12, 10.5)]


def test_going_on_equals_an_uninterrupted_run(tmp_path):
    config = _config(tmp_path)
    _train(config, 17)
    adder, record = _train(config, 31)
    assert int(adder.total) == _wanted(31)
    assert int(adder.count) == 31
    assert record["step"] == 31


def test_a_finished_run_is_not_run_again(tmp_path, capsys):
    config = _config(tmp_path)
    _train(config, 5)
    adder, record = _train(config, 5)
    assert int(adder.total) == _wanted(5)
    assert record["step"] == 5
    assert "already at step 5" in capsys.readouterr().out


def test_sigterm_saves_and_stops_and_the_run_goes_on(tmp_path):
    config = _config(tmp_path)

    def look(step, record):
        if step == 8:
            os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(loop.Stopped, match="saved step 8") as stopped:
        _train(config, 31, look=look)
    assert stopped.value.status == 143
    assert signal.getsignal(signal.SIGTERM) is before
    adder, _ = _train(config, 31)
    assert int(adder.total) == _wanted(31)


def test_nan_stops_and_names_the_last_good_checkpoint(tmp_path):
    config = _config(tmp_path)

    class Bad(Adder):
        def train_step(self, batch):
            super().train_step(batch)
            return {"loss": tf.where(batch >= 15, math.nan, 1.0)}

    with pytest.raises(loop.Diverged, match=r"loss is nan at step 18.*step_00000010") as ended:
        loop.train(Bad(), _numbers, config.training, 31, Workdir(config))
    assert ended.value.status == 3
    assert Checkpoints(str(tmp_path / "run"), Adder().checkpoint).steps() == [10]


def test_probe_runs_on_time_and_at_the_end(tmp_path):
    config = _config(tmp_path)
    _train(config, 14, probe=lambda: {"knn": 0.5}, probe_every=6)
    assert [r["step"] for r in Workdir(config).metrics() if "knn" in r] == [6, 12, 14]


def test_warnings_go_to_stderr(tmp_path, capsys):
    _train(_config(tmp_path), 4, look=lambda step, record: "looks collapsed")
    assert "warning: looks collapsed" in capsys.readouterr().err


def test_progress_line_shows_how_far_and_how_long(tmp_path, capsys):
    _train(_config(tmp_path), 20)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("4/20  20 %  timing  loss 1.500")
    assert "left" in lines[1]
    assert "images/s" in lines[1]
