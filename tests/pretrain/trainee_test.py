import functools
import re

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.pretrain.trainee import Pretraining, build_model
from cpc_tf.settings import ConfigError, replace
from cpc_tf.training.strategy import make_strategy
from cpc_tf.training.trainee import Rows
from tests.pretrain.tiny import TINY

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("tiny_encoder")]


def _patches(count, seed=0):
    values = tf.random.stateless_uniform([count, 5, 5, 8, 8, 3], [seed, 0], maxval=256, dtype=tf.int32)
    return tf.cast(values, tf.uint8)


def _one_step(config, strategy, batches):
    """(metrics, gradients in effect, weights after) of one step; `batches` holds one batch a replica."""
    training = Pretraining(config, strategy, 10)
    step = tf.autograph.experimental.do_not_convert(training.train_step)
    distributed = strategy.experimental_distribute_values_from_function(
        lambda context: batches[context.replica_id_in_sync_group]
    )

    @tf.function
    def run(patches):
        metrics = strategy.run(step, ({"patches": patches},))
        return {name: strategy.reduce("MEAN", value, None) for name, value in metrics.items()}

    metrics = {name: float(value) for name, value in run(distributed).items()}
    # After one step from zero, Adam's first moment is (1 - beta1) times the clipped gradient.
    moments = [m.numpy() / (1 - config.optimizer.beta1) for m in training.optimizer._momentums]
    return metrics, moments, [v.numpy() for v in training.model.trainable_variables]


def test_recomputation_with_batch_norm_is_refused():
    with pytest.raises(ConfigError, match=r"^--recompute: with --norm=batch .* twice; leave it out, or take another"):
        replace(TINY, norm="batch", recompute=True)


@functools.cache
def _on_one(group):
    """What one device makes of eight images, compared with those of their group; 0: with all."""
    return _one_step(replace(TINY, batch_size=8, negative_images=group), make_strategy("single"), [_patches(8)])


# (images of a group, parts of a replica's images, replicas, XLA): what lies between two exchanges is compiled piece by
# piece, with parts or without; a step without exchanges as a whole.
GROUPS = [(0, 1, 2, "on"), (0, 2, 2, "off"), (0, 2, 2, "on"), (4, 4, 2, "on"), (2, 1, 2, "on"), (4, 1, 4, "off")]


@pytest.mark.parametrize(("group", "parts", "replicas", "xla"), GROUPS)
def test_negatives_are_of_a_group_wherever_it_is(group, parts, replicas, xla, two_replicas, four_replicas):
    """Groups of several replicas, of several parts of a replica, and within a part."""
    patches, each = _patches(8), 8 // replicas
    one, one_gradients, _ = _on_one(group)
    config = replace(TINY, batch_size=8, negative_images=group, xla=xla, accumulate=parts)
    shares = [patches[i : i + each] for i in range(0, 8, each)]
    several, gradients, _ = _one_step(config, two_replicas if replicas == 2 else four_replicas, shares)
    assert several.keys() == one.keys()
    for name, value in one.items():
        assert several[name] == pytest.approx(value, rel=1e-3 if name == "effective_rank" else 2e-5, abs=1e-6), name
    scale = max(np.abs(g).max() for g in one_gradients)
    for ours, theirs in zip(gradients, one_gradients):
        np.testing.assert_allclose(ours, theirs, atol=1e-4 * scale)


def test_a_group_is_as_a_batch_of_its_own():
    patches = _patches(8)
    model = build_model(TINY)
    losses = [float(model(patches[i : i + 2], training=True).loss) for i in range(0, 8, 2)]
    assert _on_one(2)[0]["loss"] == pytest.approx(np.mean(losses), rel=1e-5)


@pytest.mark.parametrize(
    ("batch_size", "group", "why"),
    [
        (4, 3, "--batch_size=4 cannot be divided into groups of so many; 1, 2, 4 would do"),
        (12, 4, "each of 2 replicas has 6 images of --batch_size=12, .* divides the other; --batch_size=8 would do"),
    ],
)
def test_groups_that_do_not_divide_the_batch_are_refused(batch_size, group, why, two_replicas):
    with pytest.raises(ConfigError, match=f"^--negative_images={group}: {why}$"):
        Pretraining(replace(TINY, batch_size=batch_size, negative_images=group), two_replicas, 10)


def test_an_objective_without_negatives_has_no_groups():
    with pytest.raises(ConfigError, match=r"^--negative_images=2: --objective=rotation has no negatives; leave it"):
        replace(TINY, objective="rotation", negative_images=2, patch_size=24)


def test_what_is_compiled_in_float32_asks_for_full_precision():
    """With bfloat16 these are the logits and their two gradients; statistics are sums and need no product."""
    training = Pretraining(replace(TINY, xla="on", precision="bfloat16"), make_strategy("single"), 10)
    rows = Rows(tf.constant(0), tf.constant(0, tf.int64))
    program = training._gradients.experimental_get_compiler_ir(rows, _patches(4))(stage="hlo")
    products = [line for line in program.splitlines() if re.search(r"= f32\S* dot\(", line)]
    assert len(products) == 3
    assert all("operand_precision={highest,highest}" in line for line in products)


def test_the_gradient_is_clipped_and_its_norm_reported():
    metrics, gradients, _ = _on_one(0)
    norm = np.sqrt(sum(np.square(g).sum() for g in gradients))
    assert metrics["gradient_norm"] > 0.01
    assert norm == pytest.approx(0.01, rel=1e-3)


def test_a_step_with_batch_norm_compiles_with_xla():
    config = replace(TINY, xla="on", norm="batch")
    training = Pretraining(config, tf.distribute.get_strategy(), 10)
    compiled = tf.function(training.train_step, autograph=False, jit_compile=True)
    before = training.model.trainable_variables[0].numpy()
    assert np.isfinite([float(compiled({"patches": _patches(4)})["loss"]) for _ in range(3)]).all()
    assert np.abs(training.model.trainable_variables[0] - before).max() > 0


def test_the_same_seed_gives_the_same_weights_and_another_one_others():
    first, again, other = (build_model(replace(TINY, seed=seed)).get_weights() for seed in (1, 1, 2))
    for ours, theirs in zip(first, again):
        np.testing.assert_array_equal(ours, theirs)
    assert any((ours != theirs).any() for ours, theirs in zip(first, other))


def test_it_learns_four_images_by_heart():
    config = replace(TINY, learning_rate=0.01, target_dim=16, context_dim=32)
    training = Pretraining(config, tf.distribute.get_strategy(), 100)
    step = tf.function(training.train_step, autograph=False)
    batch = {"patches": _patches(4)}
    first = float(step(batch)["loss"])
    for _ in range(150):
        last = step(batch)
    assert float(last["loss"]) < 0.3 * first
    assert float(last["accuracy"]) > 0.5


def test_averaged_weights_stand_in_and_go_away():
    training = Pretraining(TINY, make_strategy("single"), 10)
    training.average.averages[0].assign(training.average.averages[0] + 1.0)
    raw = training.model.trainable_variables[0].numpy()
    with training.averaged():
        np.testing.assert_allclose(training.model.trainable_variables[0], raw + 1.0, atol=1e-6)
    np.testing.assert_array_equal(training.model.trainable_variables[0], raw)


@pytest.mark.parametrize("xla", ["off", "on"])
def test_the_native_norm_is_in_the_step_unless_xla_compiles_it(xla):
    strategy = make_strategy("single")
    training = Pretraining(replace(TINY, xla=xla), strategy, 10)
    step = tf.function(lambda x: strategy.run(training.train_step, ({"patches": x},)), autograph=False)
    graph = step.get_concrete_function(_patches(4)).graph.as_graph_def()
    nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
    assert ("CpcNormReluGrad" in {node.op for node in nodes}) is (xla == "off")


def test_parts_change_no_answer():
    """More of them are those of tests/objectives/base_test.py."""
    assert TINY.numerics.parts == 2
    metrics, gradients, _ = _on_one(0)
    whole = _one_step(replace(TINY, batch_size=8, parts=1), make_strategy("single"), [_patches(8)])
    assert metrics == pytest.approx(whole[0], rel=1e-5, abs=1e-6)
    for ours, theirs in zip(gradients, whole[1]):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("changes", "parts"), [({}, 2), ({"norm": "batch"}, 1), ({"xla": "on"}, 1)])
def test_what_is_encoded_in_parts(changes, parts):
    assert build_model(replace(TINY, **changes)).parts == parts
