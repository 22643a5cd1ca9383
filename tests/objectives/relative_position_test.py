import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.encoders.config import EncoderConfig, make_encoder
from cpc_tf.objectives.base import NoSettings
from cpc_tf.objectives.relative_position import NEIGHBOURS, RelativePosition, pairs

pytestmark = pytest.mark.usefixtures("tiny_encoder")
PATCHES = np.random.default_rng(0).integers(0, 256, [2, 4, 4, 8, 8, 3], dtype=np.uint8)


@pytest.mark.parametrize(("rows", "columns"), [(3, 3), (4, 5)])
def test_pairs_are_patches_and_their_neighbours(rows, columns):
    # A latent that says where it is: image, row, column.
    where = np.stack(np.meshgrid(range(2), range(rows), range(columns), indexing="ij"), -1).astype(np.float32)
    flat, labels = (x.numpy() for x in pairs(tf.constant(where)))
    assert len(flat) == len(labels) == 8 * 2 * (rows - 2) * (columns - 2)
    for (image, row, column, other_image, other_row, other_column), label in zip(flat, labels):
        assert image == other_image
        assert (other_row - row, other_column - column) == NEIGHBOURS[label]
        assert 0 < row < rows - 1
        assert 0 < column < columns - 1
    assert len({tuple(pair) for pair in flat}) == len(flat)


def test_loss_and_accuracy_are_numpys():
    model = RelativePosition(make_encoder(EncoderConfig(encoder="small")), NoSettings())
    output = model(PATCHES)
    latents = model.encode(PATCHES).numpy()
    latents = (latents - latents.mean((0, 1, 2))) / np.sqrt(latents.var((0, 1, 2)) + 1e-5)
    layers = (model.patch, model.hidden, model.head)
    (w0, b0), (w1, b1), (w2, b2) = ([v.numpy() for v in layer.trainable_variables] for layer in layers)
    latents = np.maximum(latents @ w0 + b0, 0)
    losses, correct = [], []
    for grid in latents:
        for row in (1, 2):
            for column in (1, 2):
                for label, (down, right) in enumerate(NEIGHBOURS):
                    both = np.concatenate([grid[row, column], grid[row + down, column + right]])
                    logits = np.maximum(both @ w1 + b1, 0) @ w2 + b2
                    losses.append(np.log(np.exp(logits - logits.max()).sum()) + logits.max() - logits[label])
                    correct.append(logits.argmax() == label)
    assert float(output.loss) == pytest.approx(np.mean(losses), rel=1e-4)
    assert float(output.metrics["accuracy"]) == pytest.approx(np.mean(correct))


def test_chance_level_is_the_log_of_eight():
    model = RelativePosition(make_encoder(EncoderConfig(encoder="small"), "bfloat16"), NoSettings(), "bfloat16")
    output = model(np.full([2, 3, 3, 8, 8, 3], 128, np.uint8), training=True)  # all patches alike
    assert output.loss.dtype == tf.float32
    kernel, _ = model.head.trainable_variables
    kernel.assign(tf.zeros_like(kernel))
    assert float(model(PATCHES).loss) == pytest.approx(np.log(8), rel=1e-6)
