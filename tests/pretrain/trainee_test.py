"""A step of pre-training against the model alone, wherever a group's images are; what of the step
is compiled.
"""

import functools
import re

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.core.keras import keras
from cpc_tf.core.settings import ConfigError, replace
from cpc_tf.encoders import networks
from cpc_tf.objectives.base import check_groups
from cpc_tf.objectives.config import OBJECTIVES, model_class
from cpc_tf.objectives.others.rotation import Rotation
from cpc_tf.objectives.others.rotation_config import RotationConfig
from cpc_tf.pretrain.diagnostics import latent_statistics, sample_latents
from cpc_tf.pretrain.trainee import Pretraining, build_model
from cpc_tf.training.strategy import make_strategy
from cpc_tf.training.trainee import BatchPosition
from tests.pretrain.tiny import TINY

slow = pytest.mark.slow
pytestmark = pytest.mark.usefixtures("networks_of_one_block")
EIGHT = replace(TINY, batch_size=8)
# Predictions so large that the bound, a difference of two losses, is more than their rounding.
GROUPS = replace(EIGHT, emb_scale=3.0)


def _patches(count):
    values = tf.random.stateless_uniform([count, 5, 5, 8, 8, 3], [0, 0], maxval=256, dtype=tf.int32)
    return tf.cast(values, tf.uint8)


@functools.cache
def _answer(group, norm="layer"):
    """(metrics, clipped gradients, weights before) of a step: the model alone, given one group
    after another.
    """
    model = build_model(replace(GROUPS, parts=1, norm=norm))
    weights = model.get_weights()
    with tf.GradientTape() as tape:
        outputs = [model(_patches(8)[i : i + group], training=True) for i in range(0, 8, group)]
        loss = tf.reduce_mean([output.loss for output in outputs])
    gradients = [gradient.numpy() for gradient in tape.gradient(loss, model.trainable_variables)]
    norm = np.sqrt(sum(np.square(gradient).sum() for gradient in gradients))
    assert norm > EIGHT.optimizer.clip_norm == 0.01, "too small to be clipped"
    statistics = latent_statistics(
        sample_latents(tf.concat([output.latents for output in outputs], 0), 8)
    )
    means = {
        name: np.mean([output.metrics[name] for output in outputs]) for name in outputs[0].metrics
    }
    metrics = {"loss": loss, "gradient_norm": norm, **statistics, **means}
    return (
        {name: float(value) for name, value in metrics.items()},
        [0.01 / norm * g for g in gradients],
        weights,
    )


def _step(config, strategy):
    """(metrics, gradients in effect, names of operations) of one step on eight images."""
    training, each = Pretraining(config, strategy, 10), 8 // strategy.num_replicas_in_sync

    @tf.function(autograph=False)
    def step(share):
        found = strategy.run(training.train_step, ({"patches": share},))
        return {name: strategy.reduce("MEAN", value, None) for name, value in found.items()}

    shares = strategy.experimental_distribute_values_from_function(
        lambda context: _patches(8)[each * context.replica_id_in_sync_group :][:each]
    )
    metrics = {name: float(value) for name, value in step(shares).items()}
    # After one step from zero, Adam's first moment is (1 - beta1) times the clipped gradient.
    moments = [m.numpy() / (1 - config.optimizer.beta1) for m in training.optimizer._momentums]
    graph = step.get_concrete_function(shares).graph.as_graph_def()
    nodes = [
        *graph.node,
        *(node for function in graph.library.function for node in function.node_def),
    ]
    return metrics, moments, {node.op for node in nodes}


# What lies between two exchanges is compiled piece by piece. More of it is in
# tests/training/contract_test.py.
@slow
@pytest.mark.parametrize(
    ("group", "parts", "replicas", "xla", "norm"),
    [
        (8, 2, 2, "on", "layer"),
        (4, 1, 4, "off", "layer"),
        (4, 4, 1, "off", "layer"),
        (4, 1, 1, "off", "batch"),
        (2, 1, 2, "off", "batch"),
        (4, 1, 4, "off", "batch"),
    ],
)
def test_negatives_and_batch_statistics_follow_groups_across_replicas(
    group, parts, replicas, xla, norm, two_replicas, four_replicas
):
    """Of the parts of all replicas, of some replicas, and of the parts of one."""
    strategy = {1: make_strategy("single"), 2: two_replicas, 4: four_replicas}[replicas]
    groups = {"negative_images": group % 8, "norm_images": group if norm == "batch" else 0}
    # With batch norm activations are computed a second time, with the statistics of the same
    # groups.
    config = replace(
        GROUPS, **groups, xla=xla, accumulate=parts, norm=norm, recompute=norm == "batch"
    )
    metrics, gradients, operations = _step(config, strategy)
    wanted, wanted_gradients, _ = _answer(group, norm)
    assert metrics.keys() == wanted.keys()
    for name, value in wanted.items():
        assert metrics[name] == pytest.approx(
            value, rel=1e-3 if name == "effective_rank" else 2e-5, abs=1e-6
        ), name
    scale = max(np.abs(g).max() for g in wanted_gradients)
    for ours, theirs in zip(gradients, wanted_gradients):
        np.testing.assert_allclose(ours, theirs, atol=1e-4 * scale)
    # Our own operation, which XLA has not.
    assert ("CpcNormReluGrad" in operations) is (xla == "off" and norm == "layer")


def _deep(monkeypatch, *blocks):
    """Makes 'small' of stacks of so many blocks, as deep as an encoder of the paper or less, and
    narrow.
    """
    layers = tuple(networks.Stack(count, 8, 32 << i, 2) for i, count in enumerate(blocks))
    deep = networks.Architecture(
        layers, stem_kernel=3, stem_width=16, stem_stride=1, stem_pool=False
    )
    monkeypatch.setitem(networks.ARCHITECTURES, "small", deep)


@slow
@pytest.mark.parametrize(
    ("third", "directions"), [(23, 1), (46, 2)], ids=["ResNet-101 of v1", "ResNet-161"]
)
def test_without_norms_a_deep_encoder_begins_at_chance(third, directions, monkeypatch):
    """With He's start in all kernels the loss was 2e7 on v1's encoder: each block doubled the
    variance.
    """
    _deep(monkeypatch, 3, 4, third)
    settings = {
        "norm": "none",
        "directions": directions,
        "steps_to_ignore": 1,
        "steps_to_predict": 4,
    }
    model = build_model(replace(EIGHT, **settings))
    chance = directions * 3 * np.log(8 * 25)  # offsets x log(candidates)
    assert float(model(_patches(8), training=True).loss) == pytest.approx(chance, rel=0.01)


@slow
def test_steps_without_norm_equal_when_recomputed_in_parts(monkeypatch):
    """At first branches are zero: the third step is the first whose gradient reaches all of their
    kernels.
    """
    _deep(monkeypatch, 1, 2)
    weights = []
    for options in ({}, {"recompute": True, "accumulate": 2}):
        config = replace(EIGHT, norm="none", learning_rate=0.01, negative_images=4, **options)
        training = Pretraining(config, make_strategy("single"), 10)
        before = training.model.encoder.get_weights()
        step = tf.function(training.train_step, autograph=False)
        losses = [float(step({"patches": _patches(8)})["loss"]) for _ in range(4)]
        weights.append(training.model.encoder.get_weights())
        assert all((one != other).any() for one, other in zip(before, weights[-1]))
    assert losses[-1] < losses[0]
    for found, wanted in zip(*weights):
        np.testing.assert_allclose(found, wanted, atol=2e-4)


def test_groups_not_dividing_the_replica_batch_are_refused():
    why = (
        "each of 2 replicas has 6 images of --batch_size=12, .* divides the other; --batch_size=8"
        " would do"
    )
    with pytest.raises(ConfigError, match=f"^--negative_images=4: {why}$"):
        check_groups("negative_images", 4, 12, replicas=2)


@slow
def test_compiled_float32_products_use_full_precision():
    """With bfloat16 these are the logits and their two gradients; statistics are sums and need no
    product.
    """
    training = Pretraining(
        replace(TINY, xla="on", precision="bfloat16"), make_strategy("single"), 10
    )
    rows = BatchPosition(tf.constant(0), tf.constant(0, tf.int64))
    program = training._gradients.experimental_get_compiler_ir(rows, _patches(4))(stage="hlo")
    products = [line for line in program.splitlines() if re.search(r"= f32\S* dot\(", line)]
    assert len(products) == 3
    assert all("operand_precision={highest,highest}" in line for line in products)


@slow
def test_another_seed_gives_other_weights():
    """The same one gives the same: each step above begins with a model of its own."""
    *_, weights = _answer(4)
    other = build_model(replace(EIGHT, seed=1)).get_weights()
    assert all((ours != theirs).any() for ours, theirs in zip(weights, other) if ours.ndim > 1)


class Correlations(Rotation):
    """An objective whose loss is of a whole batch."""

    OF_WHOLE_BATCH = "correlations of the features"


class Unstated(Rotation):
    OF_WHOLE_BATCH = None


class WithBatchNorm(Rotation):
    """An objective whose head has Keras' batch norm."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.norm = keras.layers.BatchNormalization()


@pytest.mark.parametrize(("kind", "accumulate", "replicas", "message"), [
    (Correlations, 2, 1,
     "--accumulate=2: correlations of the features need all images of a step"),
    (Correlations, 1, 2,
     "--strategy=auto: each of the 2 devices would compute its own correlations of the feat"),
    (WithBatchNorm, 2, 1, "--accumulate=2: batch norm's statistics need all images"),
    (WithBatchNorm, 1, 2,
     "--strategy=auto: each of the 2 devices would compute its own batch norm's statistics"),
    (Unstated, 1, 1,
     "--objective=rotation: its class Unstated must say what the loss .*: "
     'OF_WHOLE_BATCH = "" if noth'),
])  # fmt: skip
def test_whole_batch_objectives_are_refused_in_parts(
    kind, accumulate, replicas, message, monkeypatch, two_replicas
):
    monkeypatch.setattr(RotationConfig, "MODEL", f"{__name__}:{kind.__name__}")
    whole = {"objective": "rotation", "patch_size": 24, "patch_stride": 24, "negative_images": 0}
    strategy = make_strategy("single") if replicas == 1 else two_replicas
    with pytest.raises(ConfigError, match=f"^{message}"):
        Pretraining(replace(TINY, accumulate=accumulate, **whole), strategy, 10)


def test_whole_batch_objectives_declare_it_and_exchange():
    whole = {name for name in OBJECTIVES if model_class(name).of_whole_batch()}
    assert whole == {"byol", "relative_position", "vicreg"}
    assert all(model_class(name).EXCHANGES for name in whole)


@pytest.mark.parametrize(
    ("changes", "parts"), [({}, 2), ({"norm": "batch"}, 1), ({"xla": "on"}, 1)]
)
def test_what_is_encoded_in_parts(changes, parts):
    assert replace(TINY, **changes).parts == parts
