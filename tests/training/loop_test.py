import math
import os
import signal
import time

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.linear.config import LinearConfig
from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.settings import replace
from cpc_tf.training import loop
from cpc_tf.training.checkpoint import Checkpoints
from cpc_tf.training.strategy import make_strategy
from cpc_tf.training.workdir import Workdir


class Adder(tf.Module):
    """A trainee whose variable adds up what the data says, exactly."""

    reported = ("loss",)
    rates = ("learning_rate",)
    trained = ()

    def __init__(self):
        super().__init__()
        self.strategy, self.schedules = make_strategy("single"), {}
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
    outcome = loop.train(adder, _numbers, config.training, steps, Workdir(config, "pretrain"), **arguments)
    return adder, outcome


def _wanted(steps):
    total = 0
    for step in range(steps):
        total = total * 3 % 1_000_003 + step
    return total


@pytest.mark.parametrize("steps_per_loop", [1, 4, 7, 100])
def test_runs_each_step_once_in_order(tmp_path, steps_per_loop):
    adder, outcome = _train(_config(tmp_path, steps_per_loop=steps_per_loop), 23)
    assert int(adder.total) == _wanted(23)
    assert outcome.step == 23
    assert Checkpoints(str(tmp_path / "run"), adder.checkpoint).steps() == [10, 20, 23]


def test_metrics_are_means_over_the_device_loop(tmp_path):
    config = _config(tmp_path)
    _train(config, 12)
    records = Workdir(config, "pretrain").records()
    # Loops end at checkpoints: 0-3, 4-7, 8-9, 10-11.
    assert [(r["step"], r["loss"]) for r in records] == [(4, 1.5), (8, 5.5), (10, 8.5), (12, 10.5)]


def test_going_on_equals_an_uninterrupted_run(tmp_path):
    config = _config(tmp_path)
    _train(config, 17)
    adder, outcome = _train(config, 31)
    assert int(adder.total) == _wanted(31)
    assert int(adder.count) == 31
    assert outcome.step == 31


def test_a_finished_run_is_not_run_again(tmp_path, capsys):
    config = _config(tmp_path)
    _train(config, 5)
    adder, outcome = _train(config, 5)
    assert int(adder.total) == _wanted(5)
    assert outcome.step == 5
    assert "already at step 5" in capsys.readouterr().out


def test_a_training_that_has_ended_early_is_saved_and_not_run_again(tmp_path):
    def ended(records):
        return any(record["step"] >= 8 for record in records)

    for _ in range(2):
        adder, outcome = _train(_config(tmp_path), 31, ended=ended)
        assert int(adder.total) == _wanted(8)
        assert outcome.step == outcome.last["step"] == 8
        assert Checkpoints(str(tmp_path / "run"), adder.checkpoint).steps() == [8]


def test_sigterm_saves_and_stops_and_the_run_goes_on(tmp_path):
    config = _config(tmp_path)

    def watch(step, record):
        if step == 8:
            os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(loop.Stopped, match="saved step 8") as stopped:
        _train(config, 31, watch=watch)
    assert stopped.value.status == 143
    assert Checkpoints(str(tmp_path / "run"), Adder().checkpoint).steps() == [8]
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
        loop.train(Bad(), _numbers, config.training, 31, Workdir(config, "pretrain"))
    assert ended.value.status == 3
    assert Checkpoints(str(tmp_path / "run"), Adder().checkpoint).steps() == [10]


def test_the_replica_whose_loss_was_no_number_first_is_named(tmp_path, two_replicas):
    """From the next step on it is none on any replica."""

    class Bad(Adder):
        def train_step(self, batch):
            first = tf.distribute.get_replica_context().replica_id_in_sync_group == 0
            limit = tf.where(first, 32, 30)  # of numbers of which a step has two
            return {"loss": tf.where(batch >= tf.cast(limit, tf.int64), math.nan, 1.0)}

    config, bad = _config(tmp_path), Bad()
    bad.strategy = two_replicas
    wanted = r"loss is nan at step 18 \(since step 16, in which the loss of CPU:1 alone was not finite\); the last good"
    with pytest.raises(loop.Diverged, match=wanted):
        loop.train(bad, _numbers, config.training, 31, Workdir(config, "pretrain"))


class Huge(Adder):
    """Its loss stays small, but from step `above` on its weight is no longer a number that can be computed with."""

    def __init__(self, above):
        super().__init__()
        self.weight, self.above = tf.Variable([1.0]), above
        self.trained = [self.weight]

    def train_step(self, batch):
        self.weight.assign([tf.where(batch >= self.above, 1e38, 1.0)])
        return super().train_step(batch)


def test_weights_that_the_last_update_ruined_are_not_saved(tmp_path):
    """The losses of all steps were computed before that update."""
    config = _config(tmp_path)
    with pytest.raises(loop.Diverged, match=r"the norm of Variable.* is not finite at step 12.*step_00000010"):
        loop.train(Huge(11), _numbers, config.training, 12, Workdir(config, "pretrain"))
    assert Checkpoints(str(tmp_path / "run"), Adder().checkpoint).steps() == [10]


def test_a_test_whose_loss_is_no_number_is_divergence(tmp_path):
    loop.refuse_divergence({"top1": 0.5, "loss": 2.0}, _config(tmp_path))
    with pytest.raises(loop.Diverged, match="loss is nan when tested"):
        loop.refuse_divergence({"top1": 0.5, "loss": math.nan}, _config(tmp_path))


def test_advice_names_flags_that_the_run_has(tmp_path):
    """A linear classifier has no warm-up and no precision; a precision that is float32 already is no way out."""
    assert loop.advice(LinearConfig(), ["learning_rate"]) == "Try a smaller --learning_rate"
    assert loop.advice(_config(tmp_path), ["learning_rate"]) == "Try a smaller --learning_rate or some --warmup_steps"
    both = _config(tmp_path, warmup_steps=3, precision="bfloat16")
    wanted = "Try a smaller --learning_rate or a longer --warmup_steps or --precision=float32"
    assert loop.advice(both, ["learning_rate"]) == wanted
    assert loop.advice(LinearConfig(), ["finetune_rate", "encoder_rate"]).endswith("--finetune_rate and --encoder_rate")


def test_the_outcome_has_the_records_of_all_sessions(tmp_path):
    config = _config(tmp_path)
    _, first = _train(config, 10)
    _, outcome = _train(config, 14)
    assert (outcome.step, outcome.last["step"], outcome.last["loss"]) == (14, 14, 11.5)
    assert [record["step"] for record in outcome.records] == [4, 8, 10, 14]
    assert outcome.records == Workdir(config, "pretrain").records()
    assert outcome.seconds == outcome.last["wall_seconds"] > first.seconds
    again = _train(config, 14)[1]  # as after a kill between the last checkpoint and the result
    assert (again.records, again.last) == (outcome.records, outcome.last)


@pytest.mark.parametrize("kept", [2, 0])
def test_a_record_that_a_kill_cut_is_made_again(tmp_path, kept):
    """Of steps 10, 20 and 25: back to the checkpoint of step 10, if its record is there."""
    config = _config(tmp_path, steps_per_loop=10)
    _, whole = _train(config, 25)
    path = tmp_path / "run" / "metrics.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    assert len(lines) == 3
    path.write_text("".join(lines[:kept]) + lines[kept][:15])
    adder, outcome = _train(config, 25)
    assert int(adder.total) == _wanted(25)
    assert outcome.step == outcome.last["step"] == 25
    # Without any record the weights are what is left: no figure of another step stands beside them.
    assert outcome.last.get("loss") == (whole.last["loss"] if kept else None)


def test_evaluates_on_time_and_at_the_end(tmp_path):
    config = _config(tmp_path)
    _train(config, 14, evaluate=lambda: {"knn": 0.5}, evaluate_every=6)
    assert [r["step"] for r in Workdir(config, "pretrain").records() if "knn" in r] == [6, 12, 14]


def test_warnings_go_to_stderr(tmp_path, capsys):
    _train(_config(tmp_path), 4, watch=lambda step, record: "looks collapsed")
    assert "warning: looks collapsed" in capsys.readouterr().err


class Slow(Adder):
    """A step of 20 ms."""

    def train_step(self, batch):
        loss = super().train_step(batch)["loss"]
        return {"loss": tf.ensure_shape(tf.numpy_function(lambda x: time.sleep(0.02) or x, [loss], tf.float32), [])}


def _late(step, context):
    """A batch each 100 ms."""
    return _numbers(step, context).map(lambda x: tf.numpy_function(lambda y: time.sleep(0.1) or y, [x], tf.int64))


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["single", "mirrored"])
def test_waiting_for_data_is_recorded_and_said_once(tmp_path, capsys, strategy):
    """Of 100 ms a step the device works for 20; without that sleep the data is there."""
    shares, said = [], []
    for name, make in (("late", _late), ("in time", _numbers)):
        slow = Slow()
        slow.strategy = make_strategy(strategy)
        config = replace(_config(tmp_path), workdir=str(tmp_path / name))
        loop.train(slow, make, config.training, 12, Workdir(config, "pretrain"))
        shares.append([record["waiting"] for record in Workdir(config, "pretrain").records()][1:])
        said.append([line for line in capsys.readouterr().out.splitlines() if line.startswith("waiting for data: ")])
    assert np.median(shares[0]) > 0.5 > np.median(shares[1])
    assert [len(lines) for lines in said] == [1, 0]


def test_progress_line_shows_how_far_and_how_long(tmp_path, capsys):
    _train(_config(tmp_path), 20)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("4/20  20 %  timing  loss 1.500")
    assert "left" in lines[1]
    assert "images/s" in lines[1]
