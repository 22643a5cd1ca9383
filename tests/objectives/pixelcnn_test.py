import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.objectives.cpc import QUARTER_TURNS, PixelCNN, rotate


@pytest.fixture(scope="module")
def context():
    network = PixelCNN(blocks=5, width=16, output_width=8, dtype="float32")
    network(tf.zeros([1, 6, 6, 8]))
    # Positive weights and latents keep every ReLU open: then what can be seen is seen.
    network.set_weights([np.abs(w) + 0.01 for w in network.get_weights()])
    return network


def _seen(network, turns, row, column):
    """Which latents, in the image's own frame, the context at [row, column] of the turned grid depends on: [R, C]."""
    latents = tf.random.stateless_uniform([1, 6, 6, 8], [0, 1])
    with tf.GradientTape() as tape:
        tape.watch(latents)
        value = tf.reduce_sum(network(rotate(latents, turns))[0, row, column])
    return np.abs(tape.gradient(value, latents)[0]).sum(-1) > 0


def test_shapes_and_parameters(context):
    assert context(tf.zeros([2, 6, 6, 8])).shape == [2, 6, 6, 8]
    # Five times 1x1 (8->16), 1x3 (16->16), 2x1 (16->16), 1x1 (16->8), with biases.
    assert context.count_params() == 5 * ((8 * 16 + 16) + (3 * 256 + 16) + (2 * 256 + 16) + (16 * 8 + 8))


@pytest.mark.parametrize("direction", list(QUARTER_TURNS))
@pytest.mark.parametrize(("row", "column"), [(0, 0), (4, 1)])
def test_context_sees_exactly_the_rows_up_to_its_own(context, direction, row, column):
    turns = QUARTER_TURNS[direction]
    seen = np.rot90(_seen(context, turns, row, column), turns)  # back in the turned frame
    assert not seen[row + 1 :].any()
    # Five blocks reach five rows up and, at least one row above its own, all columns of a 6x6 grid.
    reach = np.abs(np.arange(6) - column) <= 5
    assert seen[max(0, row - 5) : row + 1][:, reach].all()


@pytest.mark.parametrize(
    ("direction", "hidden"),
    [
        ("down", np.s_[3:, :]),
        ("up", np.s_[:3, :]),
        ("right", np.s_[:, 3:]),
        ("left", np.s_[:, :3]),
    ],
)
def test_directions_look_away_from_what_they_predict(context, direction, hidden):
    seen = _seen(context, QUARTER_TURNS[direction], 2, 2)
    assert not seen[hidden].any()
    assert seen.sum() == 18


def test_rotate_is_numpys_rot90():
    grid = tf.random.stateless_uniform([2, 4, 4, 3], [0, 0])
    for turns in range(4):
        np.testing.assert_array_equal(rotate(grid, turns), np.rot90(grid, turns, axes=(1, 2)))
