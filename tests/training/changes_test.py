"""Runs that go on with another length or on other devices say what that does to their figures."""

import math
import re

import pytest
import tensorflow as tf

from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.settings import replace
from cpc_tf.training import loop
from cpc_tf.training.changes import describe_changes
from cpc_tf.training.optimizer import sgd
from cpc_tf.training.schedules import Schedule
from cpc_tf.training.strategy import make_strategy
from cpc_tf.training.trainee import Trainee
from cpc_tf.training.workdir import Workdir

PEAK = 0.1


class Point(Trainee):
    """Learns one number by a rate that depends on the length of the run."""

    def __init__(self, schedule, strategy):
        super().__init__(strategy, 2)
        with strategy.scope():
            self.value = tf.Variable(1.0)
        self.set_up({"optimizer": (sgd(schedule, 0.0), [self.value])}, value=self.value)

    def inputs(self, batch):
        return (batch["x"],)

    def gradients(self, x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self.value - x))
        return tape.gradient(loss, self.trained), {"loss": loss}


def train(folder, schedule, steps, strategy=None):
    """Trains up to so many steps, from where the run in the folder is."""
    config = replace(PretrainConfig(), workdir=str(folder), batch_size=2, steps_per_loop=4, checkpoint_every=4)
    trainee = Point(schedule, strategy or make_strategy("single"))

    def batches(step, context):
        return tf.data.Dataset.from_tensors({"x": tf.zeros([2 // context.num_replicas_in_sync])}).repeat()

    return loop.train(trainee, batches, config.training, steps, Workdir(config, "pretrain"))


def cosine(steps):
    return Schedule(PEAK, cosine_steps=steps)


def drops(steps):
    return Schedule(PEAK, drops=[0.5 * steps])


def by_hand(step, steps):
    return 0.5 * PEAK * (1 + math.cos(math.pi * step / steps))


def messages(caplog):
    return [record.getMessage() for record in caplog.records if "schedule" in record.getMessage()]


@pytest.mark.parametrize(("then", "now"), [(8, 16), (16, 12)], ids=["longer", "shorter"])
def test_a_cosine_of_another_length_names_the_rate_before_and_after(tmp_path, caplog, then, now):
    train(tmp_path, cosine(then), 8)
    train(tmp_path, cosine(now), now)
    (message,) = messages(caplog)
    was, becomes = map(float, re.search(r"It was (\S+) in the last step and is (\S+) in the next", message).groups())
    assert (was, becomes) == pytest.approx((by_hand(7, then), by_hand(8, now)), rel=5e-3)
    assert f"a cosine that ends at step {now} in place of a cosine that ends at step {then}" in message
    assert "\n" not in message


def test_drops_in_parts_of_the_run_are_named_too(tmp_path, caplog):
    train(tmp_path, drops(8), 8)
    train(tmp_path, drops(16), 16)
    (message,) = messages(caplog)
    assert "It was 0.01 in the last step and is 0.01 in the next one" in message
    assert "drops at step 8 in place of drops at step 4" in message


def test_the_same_schedule_is_not_named(tmp_path, caplog):
    train(tmp_path, cosine(16), 8)
    train(tmp_path, cosine(16), 16)  # as after a kill
    train(tmp_path, cosine(12), 12)  # nothing is left to train
    for steps in (4, 8):
        train(tmp_path / "constant", Schedule(PEAK, warmup_steps=2), steps)
    assert messages(caplog) == []


def test_it_is_said_once(tmp_path, caplog):
    for steps in (8, 16, 16):
        train(tmp_path, cosine(steps), 8 if steps == 8 else 12)
    assert len(messages(caplog)) == 1


def test_another_number_of_replicas_is_named(tmp_path, caplog, two_replicas):
    train(tmp_path, cosine(8), 4)
    train(tmp_path, cosine(8), 8, two_replicas)
    assert "this run began on 1 replica and continues on 2 replicas" in caplog.text


def test_a_warm_up_longer_than_the_run_is_named(tmp_path, caplog):
    train(tmp_path, Schedule(PEAK, warmup_steps=20), 8)
    assert "--warmup_steps=20: the run has only 8 steps, at whose end the learning rate is 0.04 in place of 0.1" in (
        caplog.text
    )


@pytest.mark.parametrize("damaged", [5, {}, {"optimizer": {"rate": "x"}}, {"optimizer": {"drop": 1}}, {"optimizer": 1}])
def test_a_record_that_cannot_be_read_is_not_compared(damaged):
    now = {"replicas": 1, "schedules": {"optimizer": cosine(8).get_config()}}
    assert describe_changes({"schedules": damaged, "replicas": "many"}, now, 4) == []
