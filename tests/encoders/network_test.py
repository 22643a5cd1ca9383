"""Networks: kernels are brought back to the norm that they were drawn with, and grids of patches
are cut.
"""

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.core.keras import keras
from cpc_tf.encoders.config import EncoderConfig
from cpc_tf.encoders.network import make_encoder, patch_grid, restore_kernel_norms

pytestmark = pytest.mark.usefixtures("tiny_encoder")
IMAGES = tf.constant(np.random.default_rng(0).uniform(size=[2, 16, 24, 3]), tf.float32)


def grown(norm, order):
    """(an encoder whose scale-free kernels have grown, kernel by kernel, to other norms; the norms
    of new ones).
    """
    keras.utils.set_random_seed(0)
    network = make_encoder(EncoderConfig(encoder="small", norm=norm, block_order=order))
    network(IMAGES)
    drawn = [tf.norm(layer.kernel) for layer, _ in network.normalized()]
    for index, (layer, after) in enumerate(network.normalized()):
        growth = 1.5 + 0.5 * index
        layer.kernel.assign(layer.kernel * growth)
        if norm == "batch":  # statistics that have grown along
            shape = after.moving_mean.shape
            after.moving_mean.assign(growth * tf.random.stateless_normal(shape, [index, 0]))
            after.moving_variance.assign(
                growth**2 * tf.random.stateless_uniform(shape, [index, 1], 1, 3)
            )
    return network, drawn


@pytest.mark.slow
@pytest.mark.parametrize(
    ("norm", "order"), [("layer", "pre"), ("channel", "post"), ("batch", "post")]
)
def test_restored_kernel_norms_keep_the_outputs(norm, order):
    network, drawn = grown(norm, order)
    before = {name: x.numpy() for name, x in network.endpoints(IMAGES).items()}
    restore_kernel_norms(network)
    for name, x in network.endpoints(IMAGES).items():
        np.testing.assert_allclose(
            x, before[name], rtol=1e-3, atol=1e-3 * np.abs(before[name]).max(), err_msg=name
        )
    # Two blocks of two kernels; or the stem, two blocks of three, and the shortcut of the second.
    assert len(drawn) == (4 if order == "pre" else 8)
    np.testing.assert_allclose(
        [tf.norm(layer.kernel) for layer, _ in network.normalized()], drawn, rtol=0.2
    )


@pytest.mark.slow
def test_without_norms_nothing_changes():
    network = make_encoder(EncoderConfig(encoder="small", norm="none"))
    network(IMAGES)
    before = [v.numpy() for v in network.variables]
    restore_kernel_norms(network)
    for variable, value in zip(network.variables, before):
        np.testing.assert_array_equal(variable, value)


@pytest.mark.slow
def test_a_shorter_kernel_stays_with_its_statistics():
    network, _ = grown("batch", "pre")
    shorter, (other, _) = network.normalized()[:2], network.normalized()[2]
    for length, (layer, _) in zip((0.0, 0.9), shorter):
        drawn = (2 * layer.filters) ** 0.5
        layer.kernel.assign(layer.kernel * length * drawn / tf.norm(layer.kernel))
    variables = [
        v for layer, norm in shorter for v in (layer.kernel, norm.moving_mean, norm.moving_variance)
    ]
    before = [v.numpy() for v in variables]
    restore_kernel_norms(network)
    for variable, value in zip(variables, before):
        np.testing.assert_array_equal(variable, value)
    np.testing.assert_allclose(tf.norm(other.kernel), (2 * other.filters) ** 0.5, rtol=1e-3)


@pytest.mark.parametrize(
    ("height", "width", "patch", "stride", "rows", "columns"),
    [(260, 260, 80, 36, 6, 6), (31, 23, 8, 4, 6, 4), (8, 9, 8, 4, 1, 1), (20, 20, 4, 6, 3, 3)],
)
def test_a_patch_grid_is_slices(height, width, patch, stride, rows, columns):
    images = np.random.default_rng(0).uniform(size=[2, height, width, 3]).astype(np.float32)
    assert patch_grid(images[:0], patch, stride).shape == [0, rows, columns, patch, patch, 3]
    grid = tf.function(
        lambda x: patch_grid(x, patch, stride), [tf.TensorSpec([None, None, None, 3])]
    )(images).numpy()
    assert grid.shape == (2, rows, columns, patch, patch, 3)
    for r in range(rows):
        for c in range(columns):
            y, x = r * stride, c * stride
            np.testing.assert_array_equal(grid[:, r, c], images[:, y : y + patch, x : x + patch])


def test_an_image_smaller_than_a_patch():
    with pytest.raises(tf.errors.InvalidArgumentError, match="smaller than a patch of 8 px"):
        patch_grid(tf.zeros([1, 32, 7, 3]), 8, 4)
