"""Networks of Keras Applications: the table against Keras, and features against Keras' own."""

import importlib

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.classify.config import ClassifyConfig
from cpc_tf.core.keras import keras
from cpc_tf.core.settings import ConfigError, unflatten
from cpc_tf.encoders.card import RANGES
from cpc_tf.encoders.features import Encoder
from cpc_tf.encoders.load import load_feature_maps, load_patch_encoder
from cpc_tf.encoders.networks import KERAS, NETWORKS, Entry
from cpc_tf.encoders.networks.keras_applications import KerasNetwork
from cpc_tf.use.classify import classify
from cpc_tf.use.model import Model
from tests import samples
from tests.keras_networks import draw, tiny

pytestmark = pytest.mark.slow

NAMES = [name.removeprefix(KERAS) for name in NETWORKS if name.startswith(KERAS)]
IMAGES = np.random.default_rng(0).integers(0, 256, [2, 64, 64, 3], np.uint8)


def preprocess_input(name):
    """The function of Keras that makes pixels in [0, 255] what a network takes."""
    applications = keras.applications
    if name.startswith("MobileNetV3"):
        return applications.mobilenet_v3.preprocess_input
    for module in vars(applications).values():
        if hasattr(module, name) and hasattr(module, "preprocess_input"):
            return module.preprocess_input
    raise AssertionError(name)


@pytest.fixture
def tiny_file(monkeypatch, tmp_path):
    """Replaces ResNet50 by a tiny network; returns its file of weights."""
    monkeypatch.setattr(keras.applications, "ResNet50", tiny)
    network = tiny(False, None, (64, 64, 3), "avg")
    draw(network)
    network.save_weights(str(tmp_path / "tiny.weights.h5"))
    return tmp_path / "tiny.weights.h5"


def features_by_keras(network, name, images=IMAGES):
    """Features as `Encoder` has them, the mean over an image and its mirror image."""
    both = np.float32(np.concatenate([images, images[:, :, ::-1]]))
    return network(preprocess_input(name)(both)).numpy().reshape(2, len(images), -1).mean(0)


def assert_alike(features, wanted):
    np.testing.assert_allclose(features, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())


def test_the_table_has_each_network_of_keras():
    assert sorted(NAMES) == sorted(name for name in dir(keras.applications) if name[0].isupper())


@pytest.mark.parametrize("name", NAMES)
def test_the_range_is_that_of_keras(name):
    by_keras = preprocess_input(name)(np.float32(IMAGES))
    pixels = RANGES[NETWORKS[KERAS + name].pixels](tf.constant(IMAGES / np.float32(255)))
    np.testing.assert_allclose(pixels, by_keras, atol=1e-4)


@pytest.mark.parametrize("name", ["ResNet50", "DenseNet121", "EfficientNetV2B0", "Xception"])
def test_features_are_those_of_keras(monkeypatch, tmp_path, name):
    monkeypatch.setattr(keras.applications, name, tiny)
    network = tiny(False, None, (64, 64, 3), "avg")
    draw(network)
    network.save_weights(str(tmp_path / "w.h5"))
    encoder = Encoder(f"keras:{name}:{tmp_path}/w.h5", image_size=64)
    assert_alike(encoder.features(IMAGES), features_by_keras(network, name))


@pytest.mark.parametrize("ending", [".h5", ".weights.h5"])
def test_a_file_may_have_the_classifier(tmp_path, ending):
    whole = keras.applications.MobileNetV2(weights=None)
    draw(whole)
    whole.save_weights(str(tmp_path / f"w{ending}"))
    encoder = Encoder(f"keras:MobileNetV2:{tmp_path}/w{ending}")
    assert encoder.geometry.image_size == 224
    images = np.random.default_rng(1).integers(0, 256, [2, 224, 224, 3], np.uint8)
    features = keras.Model(whole.input, whole.layers[-2].output)
    assert_alike(encoder.features(images), features_by_keras(features, "MobileNetV2", images))


def test_weights_of_keras_normalize_efficientnet_twice(monkeypatch, tmp_path):
    """Keras builds another network for its own weights than for none."""
    build = keras.applications.EfficientNetB0
    network = build(weights=None, include_top=False)
    draw(network)
    network.save_weights(str(tmp_path / "w.h5"))
    data_utils = importlib.import_module(build.__module__).data_utils
    monkeypatch.setattr(data_utils, "get_file", lambda *_, **__: str(tmp_path / "w.h5"))
    by_keras = features_by_keras(build(include_top=False, pooling="avg"), "EfficientNetB0")
    encoder = Encoder("keras:EfficientNetB0", image_size=64)
    assert_alike(encoder.features(IMAGES), by_keras)
    of_file = Encoder(f"keras:EfficientNetB0:{tmp_path}/w.h5", image_size=64)
    np.testing.assert_array_equal(of_file.features(IMAGES), encoder.features(IMAGES))


def test_weights_of_another_network_are_refused(tiny_file):
    with pytest.raises(ConfigError, match="^--encoder=keras:VGG16:.*another network.*block1_conv1"):
        Encoder(f"keras:VGG16:{tiny_file}")


def test_a_file_that_is_none_is_refused(tiny_file):
    tiny_file.write_bytes(b"no weights")
    with pytest.raises(ConfigError, match="^--encoder=keras:ResNet50:.*cannot be read"):
        Encoder(f"keras:ResNet50:{tiny_file}")


def test_without_a_connection_the_place_is_said(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    data_utils = importlib.import_module(keras.applications.VGG16.__module__).data_utils
    error = data_utils.urllib.error.URLError("no route to host")

    def refuse(*_, **__):
        raise error

    monkeypatch.setattr(data_utils, "urlretrieve", refuse)
    file = "vgg16_weights_tf_dim_ordering_tf_kernels_notop.h5"
    wanted = f"^--encoder=keras:VGG16: .*get https://.*/{file} .*~/.keras/models/{file}.*VGG16:"
    with pytest.raises(ConfigError, match=wanted):
        Encoder("keras:VGG16")


def test_the_file_belongs_to_the_digest(tiny_file):
    name = f"keras:ResNet50:{tiny_file}"
    before = Encoder(name, image_size=64).digest
    network = tiny(False, None, (64, 64, 3), "avg")
    network.save_weights(str(tiny_file))
    assert Encoder(name, image_size=64).digest != before


def test_a_classifier_holds_the_weights(tiny_file, tmp_path, monkeypatch):
    samples.write_pictures(tmp_path / "mine", {"": 8}, side=64)
    images = sorted(str(path) for path in (tmp_path / "mine").rglob("*.png"))
    settings = {
        "labelled": f"{tmp_path}/mine",
        "encoder": f"keras:ResNet50:{tiny_file}",
        "image_size": 64,
        "workdir": f"{tmp_path}/run",
        "pictures": f"{tmp_path}/mine",
        "output": f"{tmp_path}/predictions.csv",
    }
    _, records = classify(unflatten(ClassifyConfig, settings))
    tiny_file.unlink()
    monkeypatch.undo()
    again = Model(tmp_path / "run/classifier").predict(images)
    assert [record.label for record in again] == [record.label for record in records]


class Mine(KerasNetwork):
    """As docs/extending.md has it."""

    def build_model(self, weights, side):
        return tiny(False, weights, (side, side, 3), "avg")


def test_a_model_of_ones_own_is_an_entry(tiny_file, monkeypatch):
    entry = Entry(f"{__name__}:Mine", pixels="caffe", side=64)
    monkeypatch.setitem(NETWORKS, "keras:Mine", entry)
    features = Encoder(f"keras:Mine:{tiny_file}").features(IMAGES)
    by_keras = Encoder(f"keras:ResNet50:{tiny_file}", image_size=64).features(IMAGES)
    np.testing.assert_array_equal(features, by_keras)


def test_results_name_network_and_file(tiny_file):
    identity = Encoder(f"keras:ResNet50:{tiny_file}", image_size=64).identity
    named = (identity.trained_by, identity.architecture, identity.module, identity.parameters)
    assert named == ("unknown", "keras:ResNet50", "keras:ResNet50:tiny.weights.h5", 342)


def test_training_keeps_the_statistics_of_batch_norm(tiny_file):
    encoder = load_feature_maps(f"keras:ResNet50:{tiny_file}", "feature_map", 64, backbone="")
    images = tf.constant(IMAGES / np.float32(255))
    before = [variable.numpy() for variable in encoder.variables]
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(encoder(images, training=True))
    np.testing.assert_array_equal(encoder(images, training=True), encoder(images))
    assert all(x is not None for x in tape.gradient(loss, encoder.trainable_variables))
    np.testing.assert_equal([variable.numpy() for variable in encoder.variables], before)
    assert not encoder.has_batch_norm


def test_half_precision_is_near_float32(tiny_file):
    name = f"keras:ResNet50:{tiny_file}"
    images = tf.constant(IMAGES / np.float32(255))
    exact = load_patch_encoder(name, patch_size=64).vectors(images)
    half = load_patch_encoder(name, patch_size=64, precision="bfloat16").vectors(images)
    assert keras.mixed_precision.global_policy().name == "float32"
    assert 0 < np.abs(half - exact).max() < 0.05 * np.abs(exact).max()
