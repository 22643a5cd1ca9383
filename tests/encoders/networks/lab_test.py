"""Networks on lightness and colours: Lab as scikit-image has it, and endpoints that are those of
their networks.
"""

import numpy as np
import pytest
import skimage.color
import tensorflow as tf

from cpc_tf.encoders.config import EncoderConfig
from cpc_tf.encoders.load import load_feature_maps
from cpc_tf.encoders.network import make_encoder
from cpc_tf.encoders.networks.lab import to_lab
from tests.modules import write_module

IMAGES = np.random.default_rng(0).random([2, 16, 16, 3]).astype(np.float32)


def test_lab_is_that_of_scikit_image():
    images = np.concatenate([IMAGES, IMAGES / 30, np.zeros_like(IMAGES), np.ones_like(IMAGES)])
    np.testing.assert_allclose(to_lab(images), skimage.color.rgb2lab(images), atol=2e-3)
    with tf.GradientTape() as tape:
        tape.watch(images := tf.constant(images))
        lab = to_lab(images)
    assert np.isfinite(tape.gradient(lab, images)).all()


@pytest.mark.parametrize("name", ["small_lab", "small_grey"])
def test_its_networks_see_lightness_and_colours(name, tiny_encoder):
    encoder = make_encoder(EncoderConfig(encoder=name, norm="channel", recompute=True))
    found = {name: value.numpy() for name, value in encoder.endpoints(IMAGES).items()}
    lightness, *colours = np.split(skimage.color.rgb2lab(IMAGES).astype(np.float32), [1], axis=-1)
    seen = [lightness / 100, (colours[0] + [86.2, 107.9]) / [184.5, 202.4]][: len(encoder.networks)]
    for i, (network, channels) in enumerate(zip(encoder.networks, seen)):
        assert network.recompute
        for endpoint, value in network.endpoints(tf.constant(channels, tf.float32)).items():
            part = np.split(found[endpoint], len(seen), axis=-1)[i]
            np.testing.assert_allclose(part, value, rtol=1e-3, atol=1e-4, err_msg=endpoint)
    assert found["features"].shape == (2, encoder.feature_dim) == (2, 16 * len(seen))
    np.testing.assert_allclose(
        encoder.after("stack1")(found["stack1"]), found["feature_map"], rtol=1e-4, atol=1e-5
    )
    assert encoder.after("stack2") is None
    assert len(encoder.normalized()) == len(seen) * len(encoder.networks[0].normalized()) > 0
    # Colours are not rounded to half precision before they are computed.
    half = make_encoder(EncoderConfig(encoder=name, norm="channel"), "bfloat16")
    half(IMAGES)
    np.testing.assert_array_equal(half(IMAGES), half.endpoints(IMAGES)["features"])


def test_a_module_of_it_is_read_over(tiny_encoder, tmp_path):
    network = write_module(tmp_path, EncoderConfig(encoder="small_grey", norm="batch"))
    for text in (str(tmp_path), f"graph:{tmp_path}"):
        read = load_feature_maps(text, "feature_map", 16, backbone="small")
        np.testing.assert_allclose(
            read(IMAGES), network.endpoints(IMAGES)["feature_map"], rtol=1e-4, atol=1e-5
        )
        grey = np.repeat(
            skimage.color.lab2rgb(skimage.color.rgb2lab(IMAGES) * [1, 0, 0])[..., :1], 3, -1
        )
        np.testing.assert_allclose(
            read(grey.astype(np.float32)), read(IMAGES), rtol=0.02, atol=0.02
        )
