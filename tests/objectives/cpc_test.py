import dataclasses
import math

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.encoders.config import EncoderConfig
from cpc_tf.encoders.network import make_encoder
from cpc_tf.objectives.base import pool
from cpc_tf.objectives.cpc import CPC, QUARTER_TURNS, CPCConfig, Direction, PixelCNN, rotate

pytestmark = pytest.mark.usefixtures("tiny_encoder")
SMALL_ENCODER = EncoderConfig(encoder="small")
SMALL = CPCConfig(context_blocks=1, context_dim=8, target_dim=4)


def _listing(context, targets, heads, emb_scale, steps_to_ignore, steps_to_predict):
    """The CPC listing of appendix A in plain NumPy loops, from `targets =` on; the mean over
    predictions.

    `heads[i]` is (kernel [D, T], bias [T]) of the prediction convolution of step i.
    """
    context, targets = context.astype(np.float64), targets.astype(np.float64)
    batch_dim, col_dim, rows, target_dim = targets.shape
    flat_targets = targets.reshape(-1, target_dim)
    loss, accuracies = 0.0, []
    for i in range(steps_to_ignore, steps_to_predict):
        col_dim_i = col_dim - i - 1
        losses, correct = [], []
        for element in range(batch_dim * col_dim_i * rows):
            b, col = element // (col_dim_i * rows), element % (col_dim_i * rows)
            kernel, bias = heads[i - steps_to_ignore]
            prediction = (context[b, col // rows, col % rows] @ kernel + bias) * emb_scale
            logits = flat_targets @ prediction
            label = b * col_dim * rows + (i + 1) * rows + col
            # The label is the target i + 1 rows below the context, in the same column of the same
            # image.
            assert np.array_equal(flat_targets[label], targets[b, col // rows + i + 1, col % rows])
            losses.append(
                np.log(np.exp(logits - logits.max()).sum()) + logits.max() - logits[label]
            )
            correct.append(logits.argmax() == label)
        loss += np.mean(losses)
        accuracies.append(np.mean(correct))
    return loss, np.mean(accuracies)


@pytest.mark.parametrize("shape", [(2, 6, 6, 10), (3, 4, 4, 5), (1, 7, 7, 3)])
@pytest.mark.parametrize(("ignore", "predict"), [(2, 3), (0, 1), (1, 3)])
def test_loss_is_the_listings(shape, ignore, predict):
    config = dataclasses.replace(SMALL, steps_to_ignore=ignore, steps_to_predict=predict)
    direction = Direction(config, shape[-1], "float32", "down")
    latents = tf.random.stateless_normal(shape, [1, 2]) * 3
    output = alone(direction, latents)
    heads = [(head.kernel.numpy()[0, 0], head.bias.numpy()) for head in direction.heads]
    loss, accuracy = _listing(
        direction.context(latents).numpy(),
        direction.target(latents).numpy(),
        heads,
        config.emb_scale,
        ignore,
        predict,
    )
    assert float(output.loss) == pytest.approx(loss, rel=1e-5)
    assert float(output.accuracy) == pytest.approx(accuracy, abs=1e-6)
    bound = math.log(shape[0] * shape[1] * shape[2]) - loss / (predict - ignore)
    assert float(output.bound) == pytest.approx(bound, abs=1e-4)


def alone(direction, latents, group=None):
    """The prediction on grids of latents whose negatives are each other's, or those of groups of so
    many.
    """
    embeddings = direction(latents)
    return direction.compare(embeddings, pool(embeddings["targets"], group or len(latents), 0))


def test_a_training_is_called_what_it_is():
    """Cards and reports called CPC v1 and all rungs to v2 "CPC v2"."""
    trained = [
        (1, "v1"),
        (2, "v1"),
        (4, "colour_drop"),
        (4, "full"),
        (4, "small_patches"),
        (1, "full"),
    ]
    names = [CPCConfig(directions=directions).method(augment) for directions, augment in trained]
    assert names == [
        "CPC v1",
        "CPC, 2 directions",
        "CPC, 4 directions",
        "CPC v2",
        "CPC v2",
        "CPC, 1 direction",
    ]


def test_sum_reduction_equals_mean_times_group_predictions():
    latents = tf.random.stateless_normal([4, 5, 5, 6], [0, 1])
    mean, total = (
        Direction(dataclasses.replace(SMALL, reduction=r), 6, "float32", r) for r in ("mean", "sum")
    )
    mean(latents), total(latents)
    total.set_weights(mean.get_weights())
    of_mean, of_sum = (
        float(alone(direction, latents, group=2).loss) for direction in (mean, total)
    )
    assert of_sum == pytest.approx(of_mean * 2 * 2 * 5, rel=1e-5)


def test_groups_are_batches_of_their_own():
    latents = tf.random.stateless_normal([6, 5, 5, 6], [0, 1])
    direction = Direction(SMALL, 6, "float32", "down")
    grouped = alone(direction, latents, group=2)
    each = [alone(direction, latents[i : i + 2]) for i in (0, 2, 4)]
    for field in grouped._fields:
        assert float(getattr(grouped, field)) == pytest.approx(
            np.mean([getattr(x, field) for x in each]), abs=1e-5
        )


@pytest.mark.parametrize("directions", [1, 4])
def test_each_direction_has_its_own_layers(directions):
    model = CPC(make_encoder(SMALL_ENCODER), dataclasses.replace(SMALL, directions=directions))
    patches = tf.cast(tf.random.stateless_uniform([2, 4, 4, 8, 8, 3], [0, 0], maxval=256), tf.uint8)
    output = model(patches)
    losses = {name: value for name, value in output.metrics.items() if name.startswith("loss/")}
    assert list(losses) == [f"loss/{name}" for name in list(QUARTER_TURNS)[:directions]]
    assert set(output.metrics) == set(model.metric_names)
    assert output.latents.shape == [2, 4, 4, 16]
    assert float(output.loss) == pytest.approx(sum(map(float, losses.values())), rel=1e-6)
    own = [len(head.trainable_variables) for head in model.heads.values()]
    # one context block, target, one prediction; kernel and bias each
    assert own == [8 + 2 + 2] * directions
    assert len(model.trainable_variables) == sum(own) + len(model.encoder.trainable_variables)


def test_directions_predict_the_turned_grid():
    model = CPC(make_encoder(SMALL_ENCODER), SMALL)
    patches = tf.cast(tf.random.stateless_uniform([2, 4, 4, 8, 8, 3], [0, 0], maxval=256), tf.uint8)
    model(patches)
    for head in list(model.heads.values())[1:]:
        head.set_weights(model.heads["down"].get_weights())
    latents, losses = model.encode(patches), model(patches).metrics
    for name, turns in QUARTER_TURNS.items():
        turned = float(alone(model.heads["down"], rotate(latents, turns)).loss)
        assert float(losses[f"loss/{name}"]) == pytest.approx(turned, rel=1e-5)


def test_a_guess_among_candidates_that_are_all_alike():
    model = CPC(make_encoder(SMALL_ENCODER, "bfloat16"), SMALL, "bfloat16")
    output = model(tf.zeros([1, 4, 4, 8, 8, 3], tf.uint8), training=True)
    assert output.loss.dtype == output.latents.dtype == tf.float32
    assert float(output.metrics["loss/down"]) == pytest.approx(math.log(16), abs=0.02)


# The context network.


@pytest.fixture(scope="module")
def context():
    network = PixelCNN(blocks=5, width=16, output_width=8, dtype="float32")
    network(tf.zeros([1, 6, 6, 8]))
    # Positive weights and latents keep every ReLU open: then what can be seen is seen.
    network.set_weights([np.abs(w) + 0.01 for w in network.get_weights()])
    return network


def _seen(network, turns, row, column):
    """Which latents, in the image's own frame, the context at [row, column] of the turned grid
    depends on: [R, C].
    """
    latents = tf.random.stateless_uniform([1, 6, 6, 8], [0, 1])
    with tf.GradientTape() as tape:
        tape.watch(latents)
        value = tf.reduce_sum(network(rotate(latents, turns))[0, row, column])
    return np.abs(tape.gradient(value, latents)[0]).sum(-1) > 0


def test_shapes_and_parameters(context):
    assert context(tf.zeros([2, 6, 6, 8])).shape == [2, 6, 6, 8]
    # Five times 1x1 (8->16), 1x3 (16->16), 2x1 (16->16), 1x1 (16->8), with biases.
    assert context.count_params() == 5 * (
        (8 * 16 + 16) + (3 * 256 + 16) + (2 * 256 + 16) + (16 * 8 + 8)
    )


@pytest.mark.parametrize("direction", list(QUARTER_TURNS))
@pytest.mark.parametrize(("row", "column"), [(0, 0), (4, 1)])
def test_context_covers_rows_up_to_its_own(context, direction, row, column):
    turns = QUARTER_TURNS[direction]
    seen = np.rot90(_seen(context, turns, row, column), turns)  # back in the turned frame
    assert not seen[row + 1 :].any()
    # Five blocks reach five rows up and, at least one row above its own, all columns of a 6x6 grid.
    reach = np.abs(np.arange(6) - column) <= 5
    assert seen[max(0, row - 5) : row + 1][:, reach].all()


def test_directions_look_away_from_what_they_predict(context):
    for direction, hidden in {
        "down": np.s_[3:],
        "up": np.s_[:3],
        "right": np.s_[:, 3:],
        "left": np.s_[:, :3],
    }.items():
        seen = _seen(context, QUARTER_TURNS[direction], 2, 2)
        assert not seen[hidden].any(), direction
        assert seen.sum() == 18


def test_rotate_is_numpys_rot90():
    grid = tf.random.stateless_uniform([2, 4, 4, 3], [0, 0])
    for turns in range(4):
        np.testing.assert_array_equal(rotate(grid, turns), np.rot90(grid, turns, axes=(1, 2)))
