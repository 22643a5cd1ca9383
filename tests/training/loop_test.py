"""The loop: its steps, records and checkpoints, and how it ends, by trainees whose steps can be
computed by hand.
"""

import contextlib
import io
import math
import os
import shutil
import signal
import time

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.core.settings import ConfigError, replace
from cpc_tf.core.termination import Interrupted, interrupting
from cpc_tf.linear.config import LinearConfig
from cpc_tf.objectives.config import model_class
from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.training import cluster, loop
from cpc_tf.training.checkpoint import Checkpoints
from cpc_tf.training.loop import describe_changes, resume
from cpc_tf.training.optimizer import Schedule
from cpc_tf.training.strategy import make_strategy
from cpc_tf.training.workdir import Workdir
from tests.training.trainee_test import Line


class Adder(tf.Module):
    """A trainee whose variable adds up what the data says, exactly."""

    reported = ("loss",)
    rates = ("learning_rate",)
    trained = ()
    follows_length = ""

    def __init__(self, strategy=None):
        super().__init__()
        self.strategy, self.schedules = strategy or make_strategy("single"), {}
        self.total, self.count = tf.Variable(0, dtype=tf.int64), tf.Variable(0, dtype=tf.int64)
        self.checkpoint = tf.train.Checkpoint(total=self.total, count=self.count)

    def train_step(self, batch):
        self.total.assign(self.total * 3 % 1_000_003 + batch)
        self.count.assign_add(1)
        return {"loss": tf.cast(batch, tf.float32)}


class Bad(Adder):
    """The loss of the first replica is none from the number 32 on, that of the second from 30
    on.
    """

    def train_step(self, batch):
        first = tf.distribute.get_replica_context().replica_id_in_sync_group == 0
        limit = tf.cast(tf.where(first, 32, 30), tf.int64)
        return {"loss": tf.where(batch >= limit, math.nan, 1.0)}


class Huge(Adder):
    """Its loss stays small, but from step 11 on its weight is no longer a number that can be
    computed with.
    """

    def __init__(self):
        super().__init__()
        self.weight = tf.Variable([1.0])
        self.trained = [self.weight]

    def train_step(self, batch):
        self.weight.assign([tf.where(batch >= 11, 1e38, 1.0)])
        return super().train_step(batch)


class Slow(Adder):
    """A step of 20 ms."""

    def train_step(self, batch):
        loss = super().train_step(batch)["loss"]
        return {
            "loss": tf.ensure_shape(
                tf.numpy_function(lambda x: time.sleep(0.02) or x, [loss], tf.float32), []
            )
        }


def numbers(step, context):
    return tf.data.Dataset.range(step, 10**9)


def late(step, context):
    """A batch each 100 ms."""
    return numbers(step, context).map(
        lambda x: tf.numpy_function(lambda y: time.sleep(0.1) or y, [x], tf.int64)
    )


def total_of(steps):
    total = 0
    for step in range(steps):
        total = total * 3 % 1_000_003 + step
    return total


def settings(folder, **more):
    training = {"batch_size": 1, "steps_per_loop": 4, "checkpoint_every": 10, **more}
    return replace(PretrainConfig(), workdir=str(folder / "run"), **training)


@pytest.fixture
def config(tmp_path):
    return settings(tmp_path)


def train(config, steps, trainee=None, data=numbers, **arguments):
    trainee = trainee or Adder()
    outcome = loop.train(
        trainee, data, config.training, steps, Workdir(config, "pretrain"), **arguments
    )
    return trainee, outcome


def saved(config):
    return Checkpoints(config.workdir).steps()


@pytest.fixture(scope="module")
def sessions(tmp_path_factory):
    """(config, three starts of a run: 16 steps, then up to 25, then none; what they print)."""
    config, output = settings(tmp_path_factory.mktemp("sessions")), io.StringIO()
    with contextlib.redirect_stdout(output):
        starts = [train(config, steps) for steps in (16, 25, 25)]
    return config, starts, output.getvalue().splitlines()


def test_each_step_runs_once_in_order_across_sessions(sessions):
    config, starts, output = sessions
    assert [outcome.step for _, outcome in starts] == [16, 25, 25]
    assert [int(adder.total) for adder, _ in starts] == [total_of(16), total_of(25), total_of(25)]
    assert [int(adder.count) for adder, _ in starts] == [16, 25, 25]
    assert saved(config) == [16, 20, 25]  # the last three of 10, 16, 20, 25
    assert output[-1] == f"{config.workdir}: already at step 25 of 25"


def test_records_average_device_loops_and_span_all_sessions(sessions):
    config, ((_, first), (_, second), (_, third)), _ = sessions
    # Loops end at checkpoints: 0-3, 4-7, 8-9, 10-13, 14-15, and then 16-19, 20-23, 24.
    wanted = [
        (4, 1.5),
        (8, 5.5),
        (10, 8.5),
        (14, 11.5),
        (16, 14.5),
        (20, 17.5),
        (24, 21.5),
        (25, 24.0),
    ]
    assert [(record["step"], record["loss"]) for record in second.records] == wanted
    assert second.records == Workdir(config, "pretrain").records()
    assert second.last == second.records[-1]
    assert second.seconds == second.last["wall_seconds"] > first.seconds
    assert (third.records, third.last) == (second.records, second.last)


@pytest.mark.parametrize("kept", [6, 0])
def test_record_cut_by_a_kill_is_written_again(sessions, tmp_path, kept):
    """Of the records of all eight loops: back to the checkpoint of step 20, if its record is
    there.
    """
    shutil.copytree(sessions[0].workdir, tmp_path / "run")
    path = tmp_path / "run" / "metrics.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:kept]) + lines[kept][:15])
    adder, outcome = train(settings(tmp_path), 25)
    assert int(adder.total) == total_of(25)
    assert outcome.step == outcome.last["step"] == 25
    # Without any record the weights are what is left: no figure of another step stands beside them.
    assert outcome.last.get("loss") == (24.0 if kept else None)


@pytest.mark.slow
@pytest.mark.parametrize(("steps_per_loop", "ends"), [(1, [*range(1, 15)]), (100, [6, 10, 12, 14])])
def test_a_device_loop_ends_where_something_is_due(tmp_path, capsys, steps_per_loop, ends):
    config = settings(tmp_path, steps_per_loop=steps_per_loop)
    adder, outcome = train(
        config,
        14,
        evaluate=lambda: {"knn": 0.5},
        evaluate_every=6,
        watch=lambda step, record: "looks collapsed" if step == 12 else None,
    )
    assert int(adder.total) == total_of(14)
    assert [record["step"] for record in outcome.records] == ends
    assert [record["step"] for record in outcome.records if "knn" in record] == [6, 12, 14]
    assert saved(config) == [10, 14]
    assert capsys.readouterr().err == "warning: looks collapsed\n"


@pytest.mark.slow
def test_work_between_steps_also_precedes_an_extension(tmp_path):
    def run(folder, *lengths):
        called = []
        for steps in lengths:
            adder = Adder()

            def rounded(step, adder=adder):  # the same if done twice
                called.append(step)
                adder.total.assign(adder.total // 10 * 10)
                time.sleep(0.1)

            _, outcome = train(settings(folder), steps, adder, between=rounded, between_every=5)
            # of each of the five steps
            assert 0.02 <= outcome.last["between_wall_seconds"] < 0.1
        return int(adder.total), called

    at_once, once = run(tmp_path / "whole", 15)
    assert once == [0, 5, 10]  # not at the end, where nothing is trained after it
    assert run(tmp_path / "longer", 10, 15) == (at_once, [0, 5, 10])
    assert run(tmp_path / "resumed", 7, 15)[0] == at_once


@pytest.mark.slow
def test_early_ended_training_is_saved_and_not_rerun(config):
    for _ in range(2):
        adder, outcome = train(
            config, 31, ended=lambda records: any(record["step"] >= 8 for record in records)
        )
        assert int(adder.total) == total_of(8)
        assert outcome.step == outcome.last["step"] == 8
        assert saved(config) == [8]


def test_signal_before_the_first_record_ends_at_once(config):
    class Interrupting(Adder):
        def train_step(self, batch):
            os.kill(os.getpid(), signal.SIGTERM)  # while TensorFlow traces
            return super().train_step(batch)

    with interrupting(), pytest.raises(Interrupted):
        train(config, 31, Interrupting())
    assert saved(config) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("replicas", "stops", "where"),
    [
        (1, 34, "since step 33"),
        (2, 18, "since step 16, in which the loss of CPU:1 alone was not finite"),
    ],
    ids=["one replica", "two replicas"],
)
def test_nan_loss_stops_and_names_replica_and_checkpoint(
    config, two_replicas, replicas, stops, where
):
    """Two replicas take two numbers a step. From the next step on the loss of none is finite."""
    wanted = (
        rf"^loss is nan at step {stops} \({where}\); the last good checkpoint is"
        rf" \S*step_000000{stops // 10}0\."
    )
    with pytest.raises(loop.Diverged, match=wanted) as ended:
        train(config, 50, Bad(two_replicas if replicas == 2 else None))
    assert ended.value.status == 3
    assert saved(config)[-1] == stops // 10 * 10


@pytest.mark.slow
def test_weights_ruined_by_last_update_are_not_saved(config):
    """The losses of all steps were computed before that update."""
    with pytest.raises(
        loop.Diverged, match=r"the norm of Variable.* is not finite at step 12.*step_00000010"
    ):
        train(config, 12, Huge())
    assert saved(config) == [10]


def test_nan_test_loss_is_divergence(config):
    loop.refuse_divergence({"top1": 0.5, "loss": 2.0}, config)
    with pytest.raises(loop.Diverged, match="loss is nan when tested"):
        loop.refuse_divergence({"top1": 0.5, "loss": math.nan}, config)


def test_advice_names_flags_that_the_run_has(config):
    """A linear classifier has no warm-up and no precision; a precision that is float32 already is
    no way out.
    """
    assert loop.advice(LinearConfig(), ["learning_rate"]) == "Try a smaller --learning_rate"
    assert (
        loop.advice(config, ["learning_rate"])
        == "Try a smaller --learning_rate or some --warmup_steps"
    )
    both = replace(config, warmup_steps=3, precision="bfloat16")
    wanted = "Try a smaller --learning_rate or a longer --warmup_steps or --precision=float32"
    assert loop.advice(both, ["learning_rate"]) == wanted
    assert loop.advice(LinearConfig(), ["finetune_rate", "encoder_rate"]).endswith(
        "--finetune_rate and --encoder_rate"
    )


@pytest.mark.slow
@pytest.mark.parametrize("replicas", [1, 2])
def test_waiting_for_data_is_recorded_and_said_once(tmp_path, capsys, two_replicas, replicas):
    """Of 100 ms a step the device works for 20; without that sleep the data is there."""
    shares, said = [], []
    for data in (late, numbers):
        slow = Slow(two_replicas if replicas == 2 else None)
        _, outcome = train(settings(tmp_path / data.__name__), 12, slow, data)
        shares.append([record["waiting"] for record in outcome.records][1:])
        said.append(
            [
                line
                for line in capsys.readouterr().out.splitlines()
                if line.startswith("waiting for data: ")
            ]
        )
    assert np.median(shares[0]) > 0.5 > np.median(shares[1])
    assert [len(lines) for lines in said] == [1, 0]


PEAK = 0.1


def idle(schedule):
    """A trainee with this learning rate, of which no step is taken."""
    return Line(make_strategy("single"), 4, rate=schedule)


def start(folder, schedule, steps):
    """Starts or resumes a run of so many steps, and saves the last one as if it had been
    trained.
    """
    workdir = Workdir(replace(PretrainConfig(), workdir=str(folder)), "pretrain")
    trainee = idle(schedule)
    checkpoints = Checkpoints(workdir.path, trainee.checkpoint)
    resume(trainee, checkpoints, workdir.records(), steps, workdir)
    checkpoints.save(steps)


def test_changed_number_of_record_sharing_hosts_is_named(tmp_path, caplog, monkeypatch):
    config = replace(PretrainConfig(), workdir=str(tmp_path), share_records=True)
    for hosts in (2, 2, 4):
        assert "share the records" not in caplog.text
        workdir, trainee = Workdir(config, "pretrain"), idle(Schedule(PEAK))
        monkeypatch.setattr(cluster, "hosts", lambda strategy, hosts=hosts: hosts)
        checkpoints = Checkpoints(workdir.path, trainee.checkpoint)
        checkpoints.save(4 + resume(trainee, checkpoints, workdir.records(), 16, workdir))
    assert (
        "--share_records: from step 8 on 4 hosts share the records, not 2 as before" in caplog.text
    )


def test_every_process_resumes_from_the_first_process_step(tmp_path, monkeypatch):
    for steps in (4, 8):
        start(tmp_path, cosine(16), steps)
    workdir = Workdir(replace(PretrainConfig(), workdir=str(tmp_path)), "pretrain", chief=False)
    trainee = idle(cosine(16))
    checkpoints = Checkpoints(workdir.path, trainee.checkpoint)
    reads = []
    monkeypatch.setattr(
        checkpoints.state,
        "read",
        lambda path, read=checkpoints.state.read: reads.append(path) or read(path),
    )
    # what all processes add up to: the step, then how many have read, of two starts
    first = iter([4, 2, 6, 2])
    monkeypatch.setattr(cluster, "total", lambda strategy, value: next(first))
    assert resume(trainee, checkpoints, [], 16, workdir) == 4
    assert reads == [checkpoints.path(4)]
    assert checkpoints.steps() == [4, 8]  # the first process removes, no other
    with pytest.raises(
        ConfigError, match="resumes from step 6, .* all processes must see the same directory"
    ):
        resume(trainee, checkpoints, [], 16, workdir)


def cosine(steps):
    return Schedule(PEAK, cosine_steps=steps)


def rate(step, steps):
    """A cosine's, in a step of so many."""
    return f"{0.5 * PEAK * (1 + math.cos(math.pi * step / steps)):.3g}"


@pytest.mark.parametrize(
    ("sessions", "said"),
    [
        (
            [(cosine(8), 8), (cosine(16), 16), (cosine(16), 20)],  # says it only once
            (
                "a cosine that ends at step 16 in place of a cosine that ends at step 8. "
                f"It was {rate(7, 8)} in the last step and is {rate(8, 16)} in the next one"
            ),
        ),
        (
            [(Schedule(PEAK, drops=[4]), 8), (Schedule(PEAK, drops=[8]), 16)],
            (
                "drops at step 8 in place of drops at step 4. It was 0.01 in the last step and is"
                " 0.01 in the next one"
            ),
        ),
        # as after a kill; nothing is left to train
        (
            [(cosine(16), 8), (cosine(16), 16), (cosine(12), 12)],
            "",
        ),
    ],
    ids=["longer", "drops", "same"],
)
def test_changed_schedule_names_rate_before_and_after(sessions, said, tmp_path, caplog):
    for schedule, steps in sessions:
        start(tmp_path, schedule, steps)
    messages = [
        record.getMessage() for record in caplog.records if "schedule" in record.getMessage()
    ]
    assert len(messages) == bool(said)
    assert all(said in message and "\n" not in message for message in messages)


def test_warm_up_longer_than_the_run_is_named(tmp_path, caplog):
    start(tmp_path, Schedule(PEAK, warmup_steps=20), 8)
    assert (
        "--warmup_steps=20: the run has only 8 steps, at whose end the learning rate is 0.04 in"
        " place of 0.1" in (caplog.text)
    )


def test_changed_length_names_other_schedules_that_follow_it(tmp_path, caplog, monkeypatch):
    """As a momentum that rises to 1 at the end of the run; the learning rate is constant."""
    monkeypatch.setattr(Line, "follows_length", model_class("byol").FOLLOWS_LENGTH)
    for steps in (8, 16, 20):
        start(tmp_path, Schedule(PEAK), steps)
    said = [
        record.getMessage().partition(": ")[2]
        for record in caplog.records
        if "schedule" in record.getMessage()
    ]
    what = (
        "the momentum of the target network follows another schedule, since the length of the run"
        " changed"
    )
    assert said == [
        f"from step 8 on {what}: it ends at step 16 in place of step 8",
        f"from step 16 on {what}: it ends at step 20 in place of step 16",
    ]


@pytest.mark.parametrize("damaged", [5, {}, {"optimizer": {"rate": "x"}}, {"optimizer": 1}])
def test_a_damaged_record_is_not_compared(damaged):
    now = {"schedules": {"optimizer": cosine(8).get_config()}, "train_steps": 8}
    assert (
        describe_changes({"schedules": damaged, "train_steps": [damaged]}, now, 4, "the momentum")
        == []
    )
