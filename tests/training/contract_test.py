"""What holds for everything that the loop trains: each objective of pre-training, and each task on labels."""

import functools
from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.data.pipeline import detection_pipeline
from cpc_tf.efficient.classifier import FINE_TUNED, FROZEN, SUPERVISED
from cpc_tf.linear.classifier import LinearTraining
from cpc_tf.linear.config import LinearConfig
from cpc_tf.objectives import OBJECTIVES
from cpc_tf.pretrain.trainee import Pretraining
from cpc_tf.settings import ConfigError, replace
from cpc_tf.training.strategy import make_strategy
from tests.data.samples import RECTANGLES, Images, rectangle
from tests.detect.samples import SMALL, detector_training
from tests.efficient import classifier_test as efficient
from tests.pretrain.tiny import TINY

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("tiny_encoder")]
RANDOM = np.random.default_rng(0)
LATENTS = {
    "latents": tf.constant(RANDOM.normal(size=[4, 2, 2, 8]), tf.float32),
    "label": tf.constant([0, 1, 2, 0], tf.int64),
}


def pretraining(name, strategy, **settings):
    """(trainee, a batch of 4) of an objective; the options of the others are the same."""
    view = OBJECTIVES[name].VIEW
    side = {"patch_size": 24} if view.whole else {}
    config = replace(TINY, **{"objective": name, "learning_rate": 0.002, "directions": 1, **side, **settings})
    noise = np.random.default_rng(0).integers(0, 256, [4, *view.shape(config.geometry)], dtype=np.uint8)
    return Pretraining(config, strategy, 10), {view.key: tf.constant(noise)}


def linear(strategy, batch_size=4, **_):
    config = replace(LinearConfig(), batch_size=batch_size, learning_rate=0.05)
    return LinearTraining(config, None, (2, 2, 8), 3, strategy), LATENTS


def classification(phase, strategy, **settings):
    return efficient.make(phase, strategy=strategy, learning_rate=0.01, **settings), efficient.BATCH


def detector(strategy, **settings):
    config = replace(SMALL, **{"batch_size": 4, **settings})
    return detector_training(config, strategy), boxes(config.canvas)


@functools.cache
def boxes(canvas):
    """A batch with boxes: the pipeline is traced once."""
    source = Images([rectangle(*example) for example in RECTANGLES[:4]])
    return next(iter(detection_pipeline.batches(source, canvas, global_batch=4, seed=0)))


# Name -> (strategy, settings) -> (trainee, a batch of 4).
TRAINEES = {
    **{name: lambda strategy, name=name, **s: pretraining(name, strategy, **s) for name in OBJECTIVES},
    "linear": linear,
    **{
        phase: lambda strategy, phase=phase, **s: classification(phase, strategy, **s)
        for phase in (FROZEN, FINE_TUNED, SUPERVISED)
    },
    "detect": detector,
}
HALF = [*((name, "bfloat16") for name in (*OBJECTIVES, "detect")), ("cpc", "float16"), ("detect", "float16")]
# Of each way to compute the gradients of parts: compared with images of other parts, as CPC's are too
# (tests/pretrain/trainee_test.py), or alone; of the phases of a classifier, the one with two optimizers. The others
# compute something from the whole batch.
IN_PARTS = ["instance", "rotation", FINE_TUNED, "detect"]


class Steps(NamedTuple):
    """What some steps on one batch give."""

    losses: list[float]
    weights: list[list[np.ndarray]]  # after each step
    averages: list[np.ndarray]


def train(trainee, batch, steps=3, jit=False):
    """Trains some steps on one batch, which replicas share."""
    strategy = trainee.strategy
    rows = 4 // strategy.num_replicas_in_sync
    shares = strategy.experimental_distribute_values_from_function(
        lambda context: {name: x[rows * context.replica_id_in_sync_group :][:rows] for name, x in batch.items()}
    )
    step = tf.function(lambda share: strategy.run(trainee.train_step, (share,)), autograph=False, jit_compile=jit)
    losses, weights = [], []
    for _ in range(steps):
        found = step(shares)
        assert set(found) == set(trainee.reported)
        metrics = {name: float(strategy.reduce("MEAN", x, None)) for name, x in found.items()}
        assert np.isfinite([*metrics.values()]).all()
        losses.append(metrics["loss"])
        weights.append([v.numpy() for v in trainee.trained])
    return Steps(losses, weights, [v.numpy() for v in trainee.average.averages] if trainee.average else [])


@functools.cache
def plain(name):
    """Three steps of a trainee on one device, not compiled: what all others shall give."""
    trainee, batch = TRAINEES[name](make_strategy("single"), xla="off")
    if name in OBJECTIVES:
        assert set(trainee.metric_names) >= set(OBJECTIVES[name].FIGURES) - {"knn"}
    return train(trainee, batch)


@pytest.mark.parametrize("name", TRAINEES)
def test_it_learns_and_compiles_as_a_tpu_compiles_it(name):
    """The whole step is one XLA program, with the answer of the step that is not compiled."""
    trainee, batch = TRAINEES[name](make_strategy("single"), xla="on")
    one, other = plain(name), train(trainee, batch, jit=True)
    assert one.losses[-1] < one.losses[0]
    assert other.losses[-1] < other.losses[0]
    assert len(one.averages) == len(other.averages)
    ours, theirs = ([steps.losses, *steps.weights[-1], *steps.averages] for steps in (one, other))
    for one, other in zip(ours, theirs):
        np.testing.assert_allclose(one, other, rtol=2e-3, atol=5e-4)


@pytest.mark.parametrize(("name", "precision"), HALF)
def test_half_precision_trains_float32_weights_also_if_activations_are_recomputed(name, precision):
    trainee, batch = TRAINEES[name](make_strategy("single"), precision=precision, recompute=True)
    before = [variable.numpy() for variable in trainee.trained]
    train(trainee, batch, steps=1)
    assert {variable.dtype for variable in trainee.trained} == {tf.float32}
    assert all((a != b.numpy()).any() for a, b in zip(before, trainee.trained) if a.ndim > 1)


def assert_equal_steps(name, strategy, **settings):
    """Two steps give the losses and weights of plain ones."""
    trainee, batch = TRAINEES[name](strategy, **settings)
    ours, theirs = train(trainee, batch, steps=2), plain(name)
    for one, other in zip([ours.losses, *ours.weights[-1]], [theirs.losses[:2], *theirs.weights[1]]):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", TRAINEES)
def test_two_replicas_with_xla_take_the_steps_of_one_without(name, two_replicas):
    assert_equal_steps(name, two_replicas, xla="on")


@pytest.mark.parametrize("name", IN_PARTS)
def test_parts_take_the_steps_of_the_whole_batch(name):
    assert_equal_steps(name, make_strategy("single"), accumulate=2)


@pytest.mark.parametrize("name", TRAINEES)
def test_a_batch_that_does_not_divide_is_refused(name, two_replicas):
    with pytest.raises(ConfigError, match=r"^--batch_size=3: not a multiple of the 2 replicas of --strategy$"):
        TRAINEES[name](two_replicas, batch_size=3)
