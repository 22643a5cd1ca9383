import dataclasses
import re

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.core.keras import keras
from cpc_tf.encoders.config import EncoderConfig
from cpc_tf.encoders.network import make_encoder

SMALL = EncoderConfig(encoder="small")


def _images(count, height=16, width=16, seed=0):
    return tf.random.stateless_uniform([count, height, width, 3], [seed, 0])


def _layers(block):
    """What decides the weights of a block."""
    return [(each.filters, each.kernel_size, each.strides) for each in block.convs], block.shortcut


def _weights(layer):
    return sum(np.prod(v.shape) for v in layer.trainable_variables if v.shape.rank == 4)


# Convolution weights only, in millions: counted by hand from the architectures, not by our code.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "millions", "feature_dim"),
    [
        ("resnet161", 303.2, 4096),
        ("resnet50", 23.5, 2048),
        ("resnet101_v1", 27.5, 1024),
        ("resnet101_v2", 42.4, 2048),
        ("resnet152_v2", 58.0, 2048),
        ("resnet200_v2", 62.4, 2048),
        ("resnet50_x2", 93.8, 4096),
        ("resnet50_x4", 375.2, 8192),
        ("resnet152_x2", 231.95, 4096),
        ("small", 0.215, 256),
        ("medium", 3.422, 1024),
        ("base", 0.895, 1024),
        ("base_512", 0.632, 512),
    ],
)
def test_convolution_weights(name, millions, feature_dim):
    with tf.Graph().as_default():  # nothing is computed, no weight is drawn
        encoder = make_encoder(EncoderConfig(encoder=name, norm="none"))
        stacks = [list(blocks) for blocks in encoder.stacks]
        # The blocks after the second of a stack are as the second, which alone is traced.
        assert all(
            _layers(block) == _layers(blocks[1]) for blocks in stacks for block in blocks[2:]
        )
        encoder.stacks = [blocks[:2] for blocks in stacks]
        shapes = {
            key: value.shape for key, value in encoder.endpoints(tf.zeros([1, 80, 80, 3])).items()
        }
    weights = _weights(encoder) + sum(len(blocks[2:]) * _weights(blocks[1]) for blocks in stacks)
    assert weights / 1e6 == pytest.approx(millions, abs=0.05)
    assert shapes["features"] == [1, feature_dim]
    # "we convert the third residual stack": stride 16, a patch of 80 px keeps 5x5 positions there.
    assert shapes["stack3"][1:3] == ([10, 10] if name in ("small", "medium") else [5, 5])


@pytest.mark.parametrize(
    ("norm", "order"), [("layer", "pre"), ("channel", "post"), ("batch", "post"), ("none", "pre")]
)
def test_patches_and_whole_images_share_weights(order, norm, tiny_encoder):
    settings = EncoderConfig(encoder="small", norm=norm, block_order=order)
    assert make_encoder(dataclasses.replace(settings, output_stack=1))(_images(1)).shape == [1, 8]
    encoder = make_encoder(settings)
    features = encoder(_images(3))
    count = len(encoder.variables)
    maps = encoder.endpoints(_images(2, 40, 27))
    assert features.shape == [3, 16]
    assert maps["feature_map"].shape == [2, 10, 7, 16]
    assert [maps[f"stack{i}"].shape[-1] for i in (1, 2)] == [8, 16]
    assert len(encoder.variables) == count
    np.testing.assert_allclose(
        maps["features"], tf.reduce_mean(maps["feature_map"], [1, 2]), atol=1e-6
    )


@pytest.mark.parametrize("norm", ["layer", "channel", "batch"])
def test_latents_depend_on_own_patch_without_batch_norm(norm, tiny_encoder):
    encoder = make_encoder(EncoderConfig(encoder="small", norm=norm))
    first = _images(1)
    one, other = (tf.concat([first, _images(3, seed=seed)], 0) for seed in (1, 2))
    difference = np.abs(encoder(one, training=True)[0] - encoder(other, training=True)[0]).max()
    assert difference > 1e-3 if norm == "batch" else difference < 1e-5
    for training in (False,) if norm == "batch" else (False, True):
        np.testing.assert_allclose(
            encoder(one, training=training)[0], encoder(first, training=training)[0], atol=1e-5
        )


@pytest.mark.slow
def test_recomputation_is_still_there_after_xlas_optimizations(one_block):
    """XLA may merge equal computations, which would keep all activations in memory."""

    def convolutions(recompute):
        encoder = make_encoder(dataclasses.replace(SMALL, recompute=recompute))
        encoder(_images(1))

        @tf.function(jit_compile=True, autograph=False)
        def gradients(images):
            with tf.GradientTape() as tape:
                value = tf.reduce_sum(tf.square(encoder(images, training=True)))
            return tape.gradient(value, encoder.trainable_variables)

        program = gradients.experimental_get_compiler_ir(_images(2))(stage="optimized_hlo")
        blocks = sum(map(len, encoder.stacks))
        return blocks, len(re.findall(r" (?:convolution|dot)\(", program))

    (blocks, recomputed), (_, plain) = convolutions(True), convolutions(False)
    # The gradient needs what is between the three convolutions of a block, not its output.
    assert recomputed == plain + 2 * blocks


@pytest.mark.slow
def test_recomputed_batch_norm_gives_equal_weights_and_statistics(one_block):
    """The running statistics follow those of the batch in the first pass alone."""
    values, convolutions = [], []
    for recompute in (False, True):
        keras.utils.set_random_seed(0)
        encoder = make_encoder(dataclasses.replace(SMALL, norm="batch", recompute=recompute))
        encoder(_images(2))

        @tf.function
        def step(images, encoder=encoder):
            with tf.GradientTape() as tape:
                value = tf.reduce_sum(tf.square(encoder(images, training=True)))
            for variable, gradient in zip(
                encoder.trainable_variables, tape.gradient(value, encoder.trainable_variables)
            ):
                variable.assign_sub(0.01 * gradient)

        for seed in range(3):
            step(_images(4, seed=seed))
        values.append(encoder.get_weights())
        operations = step.get_concrete_function(_images(4)).graph.get_operations()
        convolutions.append(sum(operation.type in ("Conv2D", "MatMul") for operation in operations))
    assert convolutions[1] > convolutions[0]
    for found, wanted in zip(values[1], values[0]):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
