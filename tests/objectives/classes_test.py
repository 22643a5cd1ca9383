"""Objectives that tell a few classes apart, rotation and relative position, against NumPy loops."""

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.encoders.config import EncoderConfig
from cpc_tf.encoders.network import make_encoder
from cpc_tf.objectives.config import ObjectiveSettings
from cpc_tf.objectives.others.relative_position import NEIGHBOURS, RelativePosition, pairs
from cpc_tf.objectives.others.rotation import Rotation

pytestmark = pytest.mark.usefixtures("tiny_encoder")
RANDOM = np.random.default_rng(0)
IMAGES = RANDOM.integers(0, 256, [3, 8, 8, 3], dtype=np.uint8)
PATCHES = RANDOM.integers(0, 256, [2, 4, 4, 8, 8, 3], dtype=np.uint8)


def made(kind, precision="float32"):
    return kind(
        make_encoder(EncoderConfig(encoder="small"), precision), ObjectiveSettings(), precision
    )


def rotations(rotation):
    """(logits, label) of each image that is turned, in the order of images and turns."""
    kernel, bias = (weight.numpy() for weight in rotation.head.trainable_variables)
    for image in IMAGES:
        latents = rotation.encode(np.stack([np.rot90(image, turns) for turns in range(4)])).numpy()
        yield from zip(latents @ kernel + bias, range(4))


def positions(model):
    """(logits, label) of each inner patch and each of its neighbours."""
    latents = model.encode(PATCHES).numpy()
    latents = (latents - latents.mean((0, 1, 2))) / np.sqrt(latents.var((0, 1, 2)) + 1e-5)
    layers = (model.patch, model.hidden, model.head)
    (w0, b0), (w1, b1), (w2, b2) = (
        [v.numpy() for v in layer.trainable_variables] for layer in layers
    )
    latents = np.maximum(latents @ w0 + b0, 0)
    for grid, row, column in (
        (grid, row, column) for grid in latents for row in (1, 2) for column in (1, 2)
    ):
        for label, (down, right) in enumerate(NEIGHBOURS):
            both = np.concatenate([grid[row, column], grid[row + down, column + right]])
            yield np.maximum(both @ w1 + b1, 0) @ w2 + b2, label


@pytest.mark.parametrize(
    ("kind", "seen", "loop"),
    [(Rotation, IMAGES, rotations), (RelativePosition, PATCHES, positions)],
)
def test_loss_and_accuracy_are_numpys(kind, seen, loop):
    model = made(kind)
    output = model(seen)
    losses, correct = [], []
    for logits, label in loop(model):
        losses.append(np.log(np.exp(logits - logits.max()).sum()) + logits.max() - logits[label])
        correct.append(logits.argmax() == label)
    assert float(output.loss) == pytest.approx(np.mean(losses), rel=1e-4)
    assert float(output.metrics["accuracy"]) == pytest.approx(np.mean(correct))
    if kind is Rotation:
        np.testing.assert_allclose(output.latents, model.encode(IMAGES), atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "seen", "classes"), [(Rotation, IMAGES, 4), (RelativePosition, PATCHES, 8)]
)
def test_chance_level_is_the_log_of_the_classes(kind, seen, classes):
    model = made(kind, "bfloat16")
    output = model(np.full_like(seen, 128), training=True)  # all alike: nothing to see
    assert output.loss.dtype == output.latents.dtype == tf.float32
    kernel, _ = model.head.trainable_variables
    kernel.assign(tf.zeros_like(kernel))
    assert float(model(seen).loss) == pytest.approx(np.log(classes), rel=1e-6)


@pytest.mark.parametrize(("rows", "columns"), [(3, 3), (4, 5)])
def test_pairs_are_patches_and_their_neighbours(rows, columns):
    # A latent that says where it is: image, row, column.
    where = np.stack(np.meshgrid(range(2), range(rows), range(columns), indexing="ij"), -1).astype(
        np.float32
    )
    flat, labels = (x.numpy() for x in pairs(tf.constant(where)))
    assert len(flat) == len(labels) == 8 * 2 * (rows - 2) * (columns - 2)
    for (image, row, column, other_image, other_row, other_column), label in zip(flat, labels):
        assert image == other_image
        assert (other_row - row, other_column - column) == NEIGHBOURS[label]
        assert 0 < row < rows - 1
        assert 0 < column < columns - 1
    assert len({tuple(pair) for pair in flat}) == len(flat)
