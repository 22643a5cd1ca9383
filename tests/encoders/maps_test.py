"""Any encoder as feature maps: ours, others', new ones."""

import json

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.data.config import GeometryConfig
from cpc_tf.efficient.config import ClassifierConfig
from cpc_tf.encoders.config import EncoderConfig, make_encoder
from cpc_tf.encoders.maps import load_feature_maps
from cpc_tf.keras import keras
from cpc_tf.settings import ConfigError
from export.module import HubEncoder, save

IMAGES = tf.random.stateless_uniform([2, 32, 32, 3], [0, 0])


def load(name, endpoint="feature_map", **options):
    return load_feature_maps(ClassifierConfig(encoder=str(name), endpoint=endpoint, backbone="small"), 32, 0, **options)


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    """(directory, encoder) of a module as `python -m export` writes it."""
    encoder = make_encoder(EncoderConfig(encoder="tiny"))
    encoder(IMAGES)
    path = str(tmp_path_factory.mktemp("hub"))
    save(HubEncoder(encoder, GeometryConfig(resize=32, image_size=32, patch_size=16, patch_stride=8)), path)
    return path, encoder


@pytest.mark.parametrize("endpoint", ["feature_map", "stack2", "features", "latents"])
def test_endpoints_of_our_module(ours, endpoint):
    path, encoder = ours
    maps = load(path, endpoint)(IMAGES)
    if endpoint == "latents":
        patches = [IMAGES[:, y : y + 16, x : x + 16] for y in (0, 8, 16) for x in (0, 8, 16)]
        wanted = tf.reshape(tf.stack([encoder(patch) for patch in patches], 1), [2, 3, 3, 128])
    else:
        wanted = encoder.endpoints(IMAGES)[endpoint]
    wanted = wanted[:, None, None] if endpoint == "features" else wanted
    np.testing.assert_allclose(maps, wanted, atol=1e-4)


@pytest.mark.parametrize("endpoint", ["feature_map", "latents"])
def test_gradients_reach_every_variable_of_our_module(ours, endpoint):
    maps = load(ours[0], endpoint)
    assert len(maps.trainable_variables) == len(ours[1].trainable_variables)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(maps(IMAGES, training=True) ** 2)
    gradients = tape.gradient(loss, maps.trainable_variables)
    assert all(gradient is not None and np.abs(gradient).max() > 0 for gradient in gradients)


class Stranger(tf.Module):
    """A module of images by nobody we know: no endpoints, batch norm, vectors or maps."""

    def __init__(self, pooled):
        super().__init__()
        self.kernel = tf.Variable(tf.random.stateless_normal([4, 4, 3, 6], [1, 1]))
        self.trainable_variables_ = [self.kernel]
        self.pooled = pooled

    @tf.function(input_signature=[tf.TensorSpec([None, None, None, 3], tf.float32)])
    def __call__(self, images):
        maps = tf.nn.conv2d(images, self.kernel, 4, "SAME")
        return tf.reduce_mean(maps, [1, 2]) if self.pooled else maps


def keras_model(pooled):
    layers = [keras.layers.Conv2D(6, 4, 4), keras.layers.BatchNormalization()]
    model = keras.Sequential([*layers, *([keras.layers.GlobalAveragePooling2D()] if pooled else [])])
    model.build([None, None, None, 3])
    return model


@pytest.mark.parametrize("pooled", [True, False])
@pytest.mark.parametrize("make", [Stranger, keras_model])
def test_modules_of_others_give_vectors_or_maps(tmp_path, make, pooled):
    model = make(pooled)
    tf.saved_model.save(model, str(tmp_path / "theirs"))
    maps = load(tmp_path / "theirs")(IMAGES)
    assert maps.shape == ([2, 1, 1, 6] if pooled else [2, 8, 8, 6])
    wanted = model(IMAGES)
    np.testing.assert_allclose(tf.reshape(maps, wanted.shape), wanted, atol=1e-5)


def test_pixels_and_random_are_new_networks(tmp_path):
    pixels, random = load("pixels"), load("random")
    assert pixels(IMAGES).shape == random(IMAGES).shape == [2, 4, 4, 256]
    names = [{v.name.split("/")[-1] for v in maps.variables} for maps in (pixels, random)]
    assert any("moving_mean" in name for name in names[0])
    assert not any("moving_mean" in name for name in names[1])
    (tmp_path / "encoder.json").write_text(json.dumps({"encoder": {"encoder": "tiny"}}))
    assert load(f"random:{tmp_path}")(IMAGES).shape == [2, 4, 4, 128]


def test_what_cannot_be_is_said_by_flag(ours, tmp_path):
    with pytest.raises(ConfigError, match=r"--endpoint=stack9: --encoder=\S+ has feature_map, features, stack1"):
        load(ours[0], "stack9")
    with pytest.raises(ConfigError, match=f"--encoder={tmp_path}: cannot be loaded"):
        load(tmp_path)
    with pytest.raises(ConfigError, match="--encoder= is empty"):
        load("")
    tf.saved_model.save(Stranger(True), str(tmp_path / "theirs"))
    with pytest.raises(ConfigError, match="no module of ours"):
        load(tmp_path / "theirs", "latents")
    grey = tf.Module()
    grey.__call__ = tf.function(lambda x: x, input_signature=[tf.TensorSpec([None, 28, 28, 1])])
    tf.saved_model.save(grey, str(tmp_path / "grey"))
    with pytest.raises(ConfigError, match=r"does not take images \[B, 32, 32, 3\]"):
        load(tmp_path / "grey")
