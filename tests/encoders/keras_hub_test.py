"""--encoder=keras_hub:PRESET: what is refused without KerasHub, and presets that KerasHub wrote."""

import importlib.metadata
import importlib.util
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from cpc_tf.core import cli
from cpc_tf.core.settings import ConfigError
from cpc_tf.encoders import keras_hub
from cpc_tf.encoders.card import EncoderName
from cpc_tf.encoders.load import load_feature_maps
from cpc_tf.use import embed
from tests.binaries import settings_of

needs_keras_hub = pytest.mark.skipif(
    not importlib.util.find_spec("keras_hub"), reason="KerasHub is not installed"
)


@pytest.fixture
def without_keras_hub(monkeypatch):
    def version(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", version)


@pytest.mark.parametrize(("version", "python", "said"), [
    ("2.15.1", (3, 11), "needs the current environment"),
    ("2.21.0", (3, 10), "Python 3.11 or later"),
    ("2.21.0", (3, 11), r"pip install .*keras-hub"),
])  # fmt: skip
def test_missing_keras_hub_names_what_to_install(
    without_keras_hub, monkeypatch, version, python, said
):
    monkeypatch.setattr(tf, "__version__", version)
    monkeypatch.setattr(sys, "version_info", python)
    with pytest.raises(ConfigError, match=f"^--encoder=keras_hub:dinov2_small: .*{said}"):
        EncoderName.parse("keras_hub:dinov2_small")


def test_a_failed_export_leaves_nothing(monkeypatch, tmp_path):
    """Neither a directory that would be taken for the SavedModel, nor more than a line."""
    monkeypatch.setenv("CPC_TF_CACHE", str(tmp_path))
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "1.0")
    monkeypatch.setattr(keras_hub, "PROGRAM", "tests.encoders.keras_hub.fails")
    with pytest.raises(ConfigError, match="^--encoder=keras_hub:some: the reason$"):
        EncoderName.parse("keras_hub:some")
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["lock"]


@pytest.fixture(scope="module")
def presets(tmp_path_factory):
    """Folder of presets and of what KerasHub computes; see keras_hub/write.py."""
    folder = tmp_path_factory.mktemp("presets")
    script = pathlib.Path(__file__).parent / "keras_hub/write.py"
    subprocess.run([sys.executable, script, folder], check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def images(presets, tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    for index, image in enumerate(np.load(presets / "reference.npz")["images"]):
        Image.fromarray(image).save(folder / f"{index}.png")
    return folder


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """A cache that the tests of this module share."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CPC_TF_CACHE", str(folder))
        yield folder


@needs_keras_hub
@pytest.mark.slow
@pytest.mark.parametrize("name", ["dinov2", "siglip", "resnet"])
def test_embed_gives_what_keras_hub_computes(presets, images, cache, tmp_path, name):
    arguments = [
        f"--encoder=keras_hub:{presets}/{name}",
        f"--pictures={images}",
        f"--output={tmp_path}/features.npz",
        "--image_size=28",
    ]
    embed.main(cli.parse(settings_of("cpc_tf.embed"), arguments))
    computed = np.load(tmp_path / "features.npz")["features"]
    expected = np.load(presets / "reference.npz")[name]
    np.testing.assert_allclose(computed, expected, rtol=1e-4, atol=1e-5)


@needs_keras_hub
@pytest.mark.slow
def test_a_preset_is_exported_once(presets, cache, monkeypatch):
    text = f"keras_hub:{presets}/resnet"
    first = EncoderName.parse(text)
    monkeypatch.setattr(keras_hub, "PROGRAM", "tests.encoders.keras_hub.fails")
    assert EncoderName.parse(text) == first
    os.utime(presets / "resnet/config.json", (0, 0))  # another file
    with pytest.raises(ConfigError, match="the reason"):
        EncoderName.parse(text)


@needs_keras_hub
@pytest.mark.slow
def test_a_preset_can_be_fine_tuned(presets, cache):
    loaded = load_feature_maps(
        f"keras_hub:{presets}/siglip", "", 28, backbone="", frozen_by="--finetune_steps=0"
    )
    with tf.GradientTape() as tape:
        output = tf.reduce_sum(loaded(tf.fill([2, 28, 28, 3], 0.5), training=True) ** 2)
    gradients = tape.gradient(output, loaded.trainable_variables)
    assert len(gradients) > 10
    assert all(gradient is not None for gradient in gradients)


@needs_keras_hub
@pytest.mark.slow
@pytest.mark.parametrize(("name", "side", "said"), [
    ("no_converter", 28, "it has no image_converter.json"),
    ("dinov2", 32, "takes images of 28 x 28 px, not of 32 x 32 px: set --image_size"),
])  # fmt: skip
def test_unsuitable_presets_are_refused(presets, cache, name, side, said):
    with pytest.raises(ConfigError, match=f"^--encoder=keras_hub:.*{name}: {said}"):
        load_feature_maps(f"keras_hub:{presets}/{name}", "", side, backbone="")


@needs_keras_hub
@pytest.mark.slow
@pytest.mark.parametrize(("preset", "said"), [
    ("dinov2_smal", "no such preset; near are dinov2_small"),
    ("dinov2_small", "cannot be downloaded .* https://www.kaggle.com/models/keras/dinov2/keras/dinov2_small/"),
])  # fmt: skip
def test_presets_without_a_network_are_refused(cache, monkeypatch, preset, said):
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("KAGGLEHUB_CACHE", str(cache / "kagglehub"))
    with pytest.raises(ConfigError, match=f"^--encoder=keras_hub:{preset}: .*{said}"):
        EncoderName.parse(f"keras_hub:{preset}")
