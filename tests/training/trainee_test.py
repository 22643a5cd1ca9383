"""The base of everything that is trained, by a trainee of one weight whose steps can be computed by
hand.
"""

import functools

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.core.settings import ConfigError
from cpc_tf.training.config import NumericsConfig
from cpc_tf.training.optimizer import FIRST, GROWTH, sgd
from cpc_tf.training.strategy import make_strategy
from cpc_tf.training.trainee import Trainee

# What a batch has of four examples, and what is added to Y by an example's place among those of all
# replicas.
X, Y, ADDED = np.float32([1, 2, 3, 4]), np.float32([1, 2, 3, -2]), np.float32([1, 0, -1, 2])


class Line(Trainee):
    """Learns `slope` and `bias` of slope * x + bias, each by an optimizer of its own."""

    metric_names = ("loss", "gradient_norm")

    def __init__(
        self,
        strategy,
        batch_size,
        xla="off",
        accumulate=1,
        precision="float32",
        rate=0.1,
        **options,
    ):
        super().__init__(
            strategy,
            batch_size,
            NumericsConfig(xla=xla, accumulate=accumulate, precision=precision),
        )
        with strategy.scope():
            self.slope, self.bias = tf.Variable(1.0), tf.Variable(2.0)
        self.set_up(
            {"fast": (sgd(rate, 0.0), [self.slope]), "slow": (sgd(0.01, 0.0), [self.bias])},
            **options,
            slope=self.slope,
            bias=self.bias,
        )

    def inputs(self, batch):
        return batch["x"], batch["y"]

    def losses(self, rows, x, y):
        y += tf.gather(ADDED, rows.first + tf.range(x.shape[0]))
        loss = tf.reduce_mean(tf.square(self.slope * x + self.bias - y))
        return loss, {"loss": loss}


def steps(trainee, count=1, traced=False):
    """The metrics of the last of so many steps; replicas share the batch."""
    strategy = trainee.strategy
    rows = len(X) // strategy.num_replicas_in_sync
    batch = strategy.experimental_distribute_values_from_function(
        lambda context: {
            name: tf.constant(values[context.replica_id_in_sync_group * rows :][:rows])
            for name, values in (("x", X), ("y", Y))
        }
    )
    train_step = tf.autograph.experimental.do_not_convert(trainee.train_step)
    run = functools.partial(strategy.run, train_step, (batch,))
    run = tf.function(run, autograph=False) if traced else run
    for _ in range(count):
        metrics = run()
    return {name: float(strategy.reduce("MEAN", value, None)) for name, value in metrics.items()}


def values(variables):
    return [float(variable.numpy()) for variable in variables]


def by_hand(count, clip, decay):
    """(weights, their averages, norms of the gradients) after so many steps."""
    weights, norms = np.array([1.0, 2.0]), []
    averages = weights
    for step in range(count):
        error = weights[0] * X + weights[1] - (Y + ADDED)
        gradient = np.array([2 * (error * X).mean(), 2 * error.mean()])
        norms.append(np.linalg.norm(gradient))
        weights = weights - [0.1, 0.01] * gradient * min(1.0, clip / norms[-1])
        kept = min(decay, (1 + step) / (10 + step))
        averages = kept * averages + (1 - kept) * weights
    return weights, averages, norms


@pytest.mark.slow
@pytest.mark.parametrize(
    ("replicas", "xla", "clip", "options"),
    [
        (1, "off", 0.5, {}),
        (1, "on", 0.0, {"accumulate": 2}),
        (1, "on", 0.5, {"precision": "float16"}),
        (2, "off", 0.0, {"precision": "float16"}),
        (2, "off", 0.5, {"accumulate": 2}),
        (2, "on", 0.5, {"accumulate": 2, "precision": "float16"}),
    ],
)
def test_steps_are_those_by_hand(replicas, xla, clip, options, two_replicas):
    strategy = two_replicas if replicas == 2 else make_strategy("single")
    trainee = Line(strategy, 4, xla, clip_norm=clip, average_decay=0.15, **options)
    metrics = steps(trainee, 3, traced=True)
    weights, averages, norms = by_hand(3, clip or np.inf, 0.15)
    assert values(trainee.trained) == pytest.approx(weights, rel=1e-5)
    for average, wanted in zip(trainee.average.averages, averages):
        copies = [float(copy) for copy in strategy.experimental_local_results(average)]
        assert copies == pytest.approx([wanted] * replicas, rel=1e-5)
        # else replicas would send each other their copies
        assert average.aggregation == tf.VariableAggregation.NONE
    assert metrics["gradient_norm"] == pytest.approx(norms[-1], rel=1e-5)  # before clipping
    assert int(trainee.step.numpy()) == 3


def test_averages_temporarily_replace_the_weights():
    trainee = Line(make_strategy("single"), 4, average_decay=0.9)
    steps(trainee, 2)
    weights, averages = values(trainee.trained), values(trainee.average.averages)
    with trainee.averaged():
        assert values(trainee.trained) == averages != weights
    assert (values(trainee.trained), values(trainee.average.averages)) == (weights, averages)


def test_a_checkpoint_goes_on_exactly(tmp_path):
    whole, start, resumed = (Line(make_strategy("single"), 4, average_decay=0.9) for _ in range(3))
    steps(whole, 5)
    steps(start, 3)
    path = start.checkpoint.write(str(tmp_path / "step"))
    resumed.checkpoint.read(path).assert_existing_objects_matched()
    steps(resumed, 2)
    assert int(resumed.step) == 5
    ours, theirs = (values([*each.trained, *each.average.averages]) for each in (resumed, whole))
    assert ours == theirs
    names = {name.split("/")[0] for name, _ in tf.train.list_variables(path)}
    assert names >= {"step", "average", "fast", "slow", "slope", "bias"}


def loss_scale(trainee):
    return float(trainee.loss_scale.value.numpy()), int(trainee.loss_scale.steps.numpy())


@pytest.mark.slow
def test_overflowing_step_is_skipped_and_halves_loss_scale(two_replicas):
    trainee = Line(two_replicas, 4, precision="float16", average_decay=0.9)
    trainee.loss_scale.value.assign(2.0**125)
    trainee.loss_scale.steps.assign(7)
    metrics = steps(trainee)
    assert (metrics["gradient_norm"], metrics["loss_scale"]) == (0, 2.0**125)
    assert values([*trainee.trained, *trainee.average.averages]) == [1, 2, 1, 2]
    assert int(trainee.step.numpy()) == 1
    assert loss_scale(trainee) == (2.0**124, 0)
    steps(trainee, 10)  # until it fits
    assert float(trainee.slope.numpy()) != 1
    assert int(trainee.step.numpy()) == 11
    assert loss_scale(trainee)[0] < 2.0**124


def test_loss_scale_grows_and_is_resumed(tmp_path):
    trainee, resumed = (Line(make_strategy("single"), 4, precision="float16") for _ in range(2))
    trainee.loss_scale.steps.assign(GROWTH - 2)
    steps(trainee)
    assert loss_scale(trainee) == (FIRST, GROWTH - 1)
    resumed.checkpoint.read(
        trainee.checkpoint.write(str(tmp_path / "step"))
    ).assert_existing_objects_matched()
    steps(resumed)
    assert loss_scale(resumed) == (2 * FIRST, 0)


def test_without_any_scale_left_an_overflow_is_reported():
    trainee = Line(make_strategy("single"), 4, precision="float16")
    trainee.loss_scale.value.assign(1.0)
    trainee.slope.assign(1e30)
    assert steps(trainee)["gradient_norm"] == np.inf
    assert loss_scale(trainee) == (1, 0)


@pytest.mark.parametrize(
    ("batch_size", "options", "why"),
    [
        (3, {}, r"^--batch_size=3: not a multiple of the 2 replicas of --strategy$"),
        (
            12,
            {"accumulate": 4},
            r"^--accumulate=4: the 6 images that a device has of --batch_size=12 cannot .* parts; "
            r"1, 2, 3, 6 would do$",
        ),
        (
            4,
            {"accumulate": 2, "of_whole_batch": "its heights"},
            r"^--accumulate=2: its heights need all images of a step .*; leave it",
        ),
    ],
    ids=["replicas", "parts", "whole batch"],
)
def test_what_cannot_be_divided_is_refused(batch_size, options, why, two_replicas):
    with pytest.raises(ConfigError, match=why):
        Line(two_replicas, batch_size, **options)
