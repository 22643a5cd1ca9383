"""What holds for everything that the loop trains: each objective of pre-training, and each task on
labels.

A step of one device is compiled whole, and compared with the same step on two and on four replicas,
traced as the loop traces it, in parts where a task has them. tests/conformance_test.py compares
whole runs of each task on one device and on two.
"""

import functools
from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.boxes.canvas import batches
from cpc_tf.core.settings import replace
from cpc_tf.efficient.classifier import FINE_TUNED, FROZEN, SUPERVISED
from cpc_tf.linear.classifier import LinearTraining
from cpc_tf.linear.config import LinearConfig
from cpc_tf.objectives.config import OBJECTIVES, model_class, settings_class
from cpc_tf.pretrain.trainee import Pretraining
from cpc_tf.training.strategy import make_strategy
from tests import samples
from tests.boxes.samples import RECTANGLES, Images, rectangle
from tests.detect.samples import SMALL, detector_training
from tests.efficient import classifier_test as efficient
from tests.pretrain.tiny import TINY

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("networks_of_one_block")]
RANDOM = np.random.default_rng(0)
GRIDS = {
    "patches": tf.constant(RANDOM.integers(0, 256, [4, 2, 2, 8, 8, 3], dtype=np.uint8)),
    "label": tf.constant([0, 1, 2, 0], tf.int64),
}


def pretraining(name, strategy, **settings):
    """(trainee, a batch of 4) of an objective or a sum; the options of the others are the same."""
    kind, names = model_class(name), name.split("+")
    side = {} if any(settings_class(each).PATCHES for each in names) else {"patch_size": 24}
    own = {
        key: value for each in names for key, value in samples.OF_OBJECTIVE.get(each, {}).items()
    }
    needs = "".join(settings_class(each).NEEDS for each in names)
    encoder = {"encoder": f"small_{needs}"} if needs else {}
    alike = {"objective": name, "learning_rate": 0.002}
    if "cpc" in names:
        alike["directions"] = 1
    config = replace(TINY, **{**alike, **side, **encoder, **own, **settings})
    shapes = {key: [4, *view.shape(config.geometry)] for key, view in kind.VIEW.views.items()}
    noise = {
        key: np.random.default_rng(0).integers(0, 256, shape, np.uint8)
        for key, shape in shapes.items()
    }
    index = {"index": tf.constant([5, 0, 3, 1], tf.int64)} if kind.INDEXED else {}
    return Pretraining(config, strategy, 10, images=6), {
        **tf.nest.map_structure(tf.constant, noise),
        **index,
    }


def linear(strategy, **settings):
    config = replace(LinearConfig(), **{"batch_size": 4, "learning_rate": 0.05, **settings})
    mean_colours = functools.partial(tf.reduce_mean, axis=[3, 4])
    return (
        LinearTraining(
            config, lambda grid: mean_colours(tf.cast(grid, tf.float32)), (2, 2, 3), 3, strategy
        ),
        GRIDS,
    )


def classification(phase, strategy, **settings):
    return efficient.make(phase, strategy=strategy, learning_rate=0.01, **settings), efficient.BATCH


def detector(strategy, **settings):
    config = replace(SMALL, **{"batch_size": 4, **settings})
    return detector_training(config, strategy), boxes(config.canvas)


@functools.cache
def boxes(canvas):
    """A batch with boxes: the pipeline is traced once."""
    source = Images([rectangle(*example) for example in RECTANGLES[:4]])
    return next(iter(batches(source, canvas, global_batch=4, seed=0)))


SUM = "cpc+instance_bank"  # a patch grid and whole crops, candidates on other replicas, a bank
# A sum with what is exchanged twice, and that of the rows "Multi-task", of lightness alone.
SUMS = [SUM, "cpc+vicreg", "relative_position+exemplar+colorization"]
# Name -> (strategy, settings) -> (trainee, a batch of 4).
TRAINEES = {
    **{name: functools.partial(pretraining, name) for name in (*OBJECTIVES, *SUMS)},
    **{
        f"{name} with batch norm": functools.partial(pretraining, name, norm="batch")
        for name in ("byol", "vicreg")
    },
    "linear": linear,
    **{
        phase: functools.partial(classification, phase)
        for phase in (FROZEN, FINE_TUNED, SUPERVISED)
    },
    "detect": detector,
}
# Of each way to compute the gradients of parts: compared with images of other parts, as CPC's are
# too (tests/pretrain/trainee_test.py), or alone. Parts of a detector are as those of replicas, and
# classifiers have none.
IN_PARTS = ["instance", "rotation"]
# Objectives with a bank or a momentum copy.
REMEMBERING = [
    "byol",
    "cmc",
    "colorization",
    "deep_cluster",
    "instance_bank",
    "local_aggregation",
    "moco",
    "pirl",
    SUM,
]
REMEMBERING += ["byol with batch norm"]
HALF = [
    *((name, "bfloat16") for name in (*OBJECTIVES, "detect")),
    ("cpc", "float16"),
    ("detect", "float16"),
]


class Steps(NamedTuple):
    """What some steps on one batch give."""

    losses: list[float]
    weights: list[np.ndarray]
    averages: list[np.ndarray]


def train(trainee, batch, steps=2, compiled=False, traced=True):
    """Trains some steps on one batch, which replicas share.

    Args:
      compiled: whether a step is one XLA program, as on a TPU.
      traced: whether it is a graph, as in the loop, where TensorFlow packs what it reduces and
        knows fewer shapes.
    """
    strategy = trainee.strategy
    rows = 4 // strategy.num_replicas_in_sync
    shares = strategy.experimental_distribute_values_from_function(
        lambda context: {
            name: x[rows * context.replica_id_in_sync_group :][:rows] for name, x in batch.items()
        }
    )
    step = functools.partial(
        strategy.run, tf.autograph.experimental.do_not_convert(trainee.train_step)
    )
    step = tf.function(step, autograph=False, jit_compile=compiled) if traced else step
    losses = []
    for _ in range(steps):
        found = step((shares,))
        assert set(found) == set(trainee.reported)
        metrics = {name: float(strategy.reduce("MEAN", x, None)) for name, x in found.items()}
        assert np.isfinite([*metrics.values()]).all()
        losses.append(metrics["loss"])
    averages = trainee.average.averages if trainee.average else []
    return Steps(
        losses, *([variable.numpy() for variable in each] for each in (trainee.trained, averages))
    )


@functools.cache
def as_one_program(name):
    """Two steps on one device, each of them one XLA program."""
    return train(*TRAINEES[name](make_strategy("single"), xla="on"), compiled=True)


def assert_equal(ours, theirs):
    assert len(ours.averages) == len(theirs.averages)
    for one, other in zip(
        *([steps.losses, *steps.weights, *steps.averages] for steps in (ours, theirs))
    ):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=5e-4)


@pytest.mark.parametrize("name", TRAINEES)
def test_two_replicas_in_parts_equal_one_xla_program(name, two_replicas):
    trainee, batch = TRAINEES[name](
        two_replicas, xla="off", **({"accumulate": 2} if name in IN_PARTS else {})
    )
    if name in (*OBJECTIVES, *SUMS):
        assert set(trainee.metric_names) >= set(model_class(name).FIGURES) - {"knn"}
    ours = train(trainee, batch)
    if name not in REMEMBERING:  # what is compared with is another one in the second step
        assert ours.losses[-1] < ours.losses[0]
    assert_equal(ours, as_one_program(name))


@pytest.mark.parametrize(
    "name", [name for name in TRAINEES if name.split()[0] in (*OBJECTIVES, *SUMS)]
)
def test_an_objective_trains_alike_on_four_replicas(name, four_replicas):
    """An image each: whatever is compared or normalized, each replica needs what the others
    have.
    """
    assert_equal(train(*TRAINEES[name](four_replicas, xla="off")), as_one_program(name))


def test_xla_on_two_replicas_compiles_between_exchanges(two_replicas):
    """Here the frozen encoder; of CPC tests/pretrain/trainee_test.py shows it."""
    trainee, batch = linear(two_replicas, xla="on")
    assert trainee.exchanges
    assert_equal(train(trainee, batch), as_one_program("linear"))


@pytest.mark.parametrize(("name", "precision"), HALF)
def test_half_precision_trains_float32_weights_with_recompute(name, precision):
    trainee, batch = TRAINEES[name](make_strategy("single"), precision=precision, recompute=True)
    before = [variable.numpy() for variable in trainee.trained]
    train(trainee, batch, steps=1, traced=False)
    assert {variable.dtype for variable in trainee.trained} == {tf.float32}
    assert all((a != b.numpy()).any() for a, b in zip(before, trainee.trained) if a.ndim > 1)
