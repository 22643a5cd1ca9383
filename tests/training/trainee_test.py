"""The base of everything that is trained, by a trainee of one weight whose steps can be computed by hand."""

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.settings import ConfigError
from cpc_tf.training.config import NumericsConfig
from cpc_tf.training.loss_scale import FIRST, GROWTH
from cpc_tf.training.optimizer import sgd
from cpc_tf.training.strategy import make_strategy
from cpc_tf.training.trainee import Trainee


class Line(Trainee):
    """Learns `slope` and `bias` of slope * x + bias, each by an optimizer of its own."""

    metric_names = ("loss", "gradient_norm")

    def __init__(self, strategy, batch_size, xla="off", accumulate=1, precision="float32", **options):
        super().__init__(strategy, batch_size, NumericsConfig(xla=xla, accumulate=accumulate, precision=precision))
        with strategy.scope():
            self.slope, self.bias = tf.Variable(1.0), tf.Variable(2.0)
        self.set_up(
            {"fast": (sgd(0.1, 0.0), [self.slope]), "slow": (sgd(0.01, 0.0), [self.bias])},
            **options,
            slope=self.slope,
            bias=self.bias,
        )

    def inputs(self, batch):
        return batch["x"], batch["y"]

    def losses(self, rows, x, y):
        loss = tf.reduce_mean(tf.square(self.slope * x + self.bias - y))
        return loss, {"loss": loss}


X, Y = np.float32([1, 2, 3, 4]), np.float32([2, 2, 2, 0])


def steps(trainee, count=1):
    """The metrics of the last of so many steps; replicas share the batch."""
    strategy = trainee.strategy
    rows = len(X) // strategy.num_replicas_in_sync
    batch = strategy.experimental_distribute_values_from_function(
        lambda context: {
            name: tf.constant(values[context.replica_id_in_sync_group * rows :][:rows])
            for name, values in (("x", X), ("y", Y))
        }
    )
    run = tf.function(lambda: strategy.run(trainee.train_step, (batch,)), autograph=False)
    for _ in range(count):
        metrics = run()
    return {name: float(strategy.reduce("MEAN", value, None)) for name, value in metrics.items()}


def by_hand(count, clip=np.inf):
    """(slope, bias, norms) after so many steps."""
    slope, bias, norms = 1.0, 2.0, []
    for _ in range(count):
        error = slope * X + bias - Y
        gradient = np.array([2 * (error * X).mean(), 2 * error.mean()])
        norms.append(np.linalg.norm(gradient))
        gradient *= min(1.0, clip / norms[-1])
        slope, bias = slope - 0.1 * gradient[0], bias - 0.01 * gradient[1]
    return slope, bias, norms


@pytest.mark.parametrize("clip", [0.0, 0.5])
@pytest.mark.parametrize("options", [{}, {"accumulate": 2}, {"precision": "float16"}], ids=["plain", "parts", "scaled"])
@pytest.mark.parametrize("kind", ["one", "two", "xla"])
def test_steps_are_those_by_hand(kind, options, clip, two_replicas):
    strategy = two_replicas if kind == "two" else make_strategy("single")
    trainee = Line(strategy, 4, "on" if kind == "xla" else "off", clip_norm=clip, **options)
    metrics = steps(trainee, 3)
    slope, bias, norms = by_hand(3, clip or np.inf)
    assert float(trainee.slope.numpy()) == pytest.approx(slope, rel=1e-5)
    assert float(trainee.bias.numpy()) == pytest.approx(bias, rel=1e-5)
    assert metrics["gradient_norm"] == pytest.approx(norms[-1], rel=1e-5)  # before clipping
    assert int(trainee.step.numpy()) == 3


def test_averages_of_two_replicas_are_those_of_one(two_replicas):
    trainees = [Line(strategy, 4, average_decay=0.9) for strategy in (make_strategy("single"), two_replicas)]
    for trainee in trainees:
        steps(trainee, 4)
    one, two = ([float(a.numpy()) for a in trainee.average.averages] for trainee in trainees)
    assert two == pytest.approx(one, rel=1e-6)
    before = float(trainees[0].slope)
    with trainees[0].averaged():
        assert float(trainees[0].slope) == one[0] != before
    assert float(trainees[0].slope) == before


def test_a_checkpoint_goes_on_exactly(tmp_path):
    whole, start, resumed = (Line(make_strategy("single"), 4, average_decay=0.9) for _ in range(3))
    steps(whole, 5)
    steps(start, 3)
    path = start.checkpoint.write(str(tmp_path / "step"))
    resumed.checkpoint.read(path).assert_existing_objects_matched()
    steps(resumed, 2)
    assert int(resumed.step) == 5
    for ours, theirs in zip([*resumed.trained, *resumed.average.averages], [*whole.trained, *whole.average.averages]):
        assert float(ours) == float(theirs)
    names = {name.split("/")[0] for name, _ in tf.train.list_variables(path)}
    assert names >= {"step", "average", "fast", "slow", "slope", "bias"}


def loss_scale(trainee):
    return float(trainee.loss_scale.value.numpy()), int(trainee.loss_scale.steps.numpy())


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_step_that_overflows_is_left_out_and_halves_the_loss_scale(replicas, two_replicas):
    strategy = two_replicas if replicas == 2 else make_strategy("single")
    trainee = Line(strategy, 4, precision="float16", average_decay=0.9)
    trainee.loss_scale.value.assign(2.0**125)
    trainee.loss_scale.steps.assign(7)
    metrics = steps(trainee, 1)
    assert (metrics["gradient_norm"], metrics["loss_scale"]) == (0, 2.0**125)
    assert [float(v.numpy()) for v in (*trainee.trained, *trainee.average.averages)] == [1, 2, 1, 2]
    assert int(trainee.step.numpy()) == 1
    assert loss_scale(trainee) == (2.0**124, 0)
    steps(trainee, 10)  # until it fits
    assert float(trainee.slope.numpy()) != 1
    assert int(trainee.step.numpy()) == 11
    assert loss_scale(trainee)[0] < 2.0**124


def test_the_loss_scale_grows_after_many_steps_and_is_resumed(tmp_path):
    trainee, resumed = (Line(make_strategy("single"), 4, precision="float16") for _ in range(2))
    trainee.loss_scale.steps.assign(GROWTH - 2)
    steps(trainee, 1)
    assert loss_scale(trainee) == (FIRST, GROWTH - 1)
    resumed.checkpoint.read(trainee.checkpoint.write(str(tmp_path / "step"))).assert_existing_objects_matched()
    steps(resumed, 1)
    assert loss_scale(resumed) == (2 * FIRST, 0)


def test_without_any_scale_left_an_overflow_is_reported():
    trainee = Line(make_strategy("single"), 4, precision="float16")
    trainee.loss_scale.value.assign(1.0)
    trainee.slope.assign(1e30)
    assert steps(trainee, 1)["gradient_norm"] == np.inf
    assert loss_scale(trainee) == (1, 0)


def test_parts_that_do_not_divide_a_replicas_images_are_refused(two_replicas):
    why = r"^--accumulate=4: the 6 images that a device has of --batch_size=12 cannot .* parts; 1, 2, 3, 6 would do$"
    with pytest.raises(ConfigError, match=why):
        Line(two_replicas, 12, accumulate=4)


def test_parts_of_what_needs_the_whole_batch_are_refused():
    with pytest.raises(ConfigError, match=r"^--accumulate=2: its heights are of all images of a step, .*; leave it"):
        Line(make_strategy("single"), 4, accumulate=2, of_whole_batch="its heights")


def test_a_batch_that_does_not_divide_is_refused_in_one_line(two_replicas):
    with pytest.raises(ConfigError, match=r"^--batch_size=3: not a multiple of the 2 replicas of --strategy$"):
        Line(two_replicas, 3)


def test_it_is_abstract():
    with pytest.raises(TypeError, match="abstract"):
        Trainee(make_strategy("single"), 4)
