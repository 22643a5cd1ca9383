"""A run that resumes with another length says what that does to its figures."""

import math

import pytest

from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.settings import ConfigError, replace
from cpc_tf.training import cluster
from cpc_tf.training.checkpoint import Checkpoints
from cpc_tf.training.optimizer import Schedule
from cpc_tf.training.resume import describe_changes, resume
from cpc_tf.training.strategy import make_strategy
from cpc_tf.training.workdir import Workdir
from tests.training.trainee_test import Line

PEAK = 0.1


def idle(schedule):
    """A trainee with this learning rate, of which no step is taken."""
    return Line(make_strategy("single"), 4, rate=schedule)


def start(folder, schedule, steps):
    """Starts or resumes a run of so many steps, and saves the last one as if it had been trained."""
    workdir = Workdir(replace(PretrainConfig(), workdir=str(folder)), "pretrain")
    trainee = idle(schedule)
    checkpoints = Checkpoints(workdir.path, trainee.checkpoint)
    resume(trainee, checkpoints, workdir.records(), steps, workdir)
    checkpoints.save(steps)


def test_another_number_of_hosts_that_share_the_records_is_named(tmp_path, caplog, monkeypatch):
    config = replace(PretrainConfig(), workdir=str(tmp_path), share_records=True)
    for hosts in (2, 2, 4):
        assert "share the records" not in caplog.text
        workdir, trainee = Workdir(config, "pretrain"), idle(Schedule(PEAK))
        monkeypatch.setattr(cluster, "hosts", lambda strategy, hosts=hosts: hosts)
        checkpoints = Checkpoints(workdir.path, trainee.checkpoint)
        checkpoints.save(4 + resume(trainee, checkpoints, workdir.records(), 16, workdir))
    assert "--share_records: from step 8 on 4 hosts share the records, not 2 as before" in caplog.text


def test_every_process_resumes_from_the_step_of_the_first(tmp_path, monkeypatch):
    for steps in (4, 8):
        start(tmp_path, cosine(16), steps)
    workdir = Workdir(replace(PretrainConfig(), workdir=str(tmp_path)), "pretrain", chief=False)
    trainee = idle(cosine(16))
    checkpoints = Checkpoints(workdir.path, trainee.checkpoint)
    reads = []
    monkeypatch.setattr(
        checkpoints.state, "read", lambda path, read=checkpoints.state.read: reads.append(path) or read(path)
    )
    first = iter([4, 2, 6, 2])  # what all processes add up to: the step, then how many have read, of two starts
    monkeypatch.setattr(cluster, "total", lambda strategy, value: next(first))
    assert resume(trainee, checkpoints, [], 16, workdir) == 4
    assert reads == [checkpoints.path(4)]
    assert checkpoints.steps() == [4, 8]  # the first process removes, no other
    with pytest.raises(ConfigError, match="resumes from step 6, .* all processes must see the same directory"):
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
            "a cosine that ends at step 16 in place of a cosine that ends at step 8. "
            f"It was {rate(7, 8)} in the last step and is {rate(8, 16)} in the next one",
        ),
        (
            [(Schedule(PEAK, drops=[4]), 8), (Schedule(PEAK, drops=[8]), 16)],
            "drops at step 8 in place of drops at step 4. It was 0.01 in the last step and is 0.01 in the next one",
        ),
        ([(cosine(16), 8), (cosine(16), 16), (cosine(12), 12)], ""),  # as after a kill; nothing is left to train
    ],
    ids=["longer", "drops", "same"],
)
def test_a_schedule_that_is_not_as_it_was_names_the_rate_before_and_after(sessions, said, tmp_path, caplog):
    for schedule, steps in sessions:
        start(tmp_path, schedule, steps)
    messages = [record.getMessage() for record in caplog.records if "schedule" in record.getMessage()]
    assert len(messages) == bool(said)
    assert all(said in message and "\n" not in message for message in messages)


def test_a_warm_up_longer_than_the_run_is_named(tmp_path, caplog):
    start(tmp_path, Schedule(PEAK, warmup_steps=20), 8)
    assert "--warmup_steps=20: the run has only 8 steps, at whose end the learning rate is 0.04 in place of 0.1" in (
        caplog.text
    )


@pytest.mark.parametrize("damaged", [5, {}, {"optimizer": {"rate": "x"}}, {"optimizer": 1}])
def test_a_damaged_record_is_not_compared(damaged):
    now = {"schedules": {"optimizer": cosine(8).get_config()}}
    assert describe_changes({"schedules": damaged}, now, 4) == []
