"""The modules that are released with the code: whole, and the first one better than its untrained
copy on other images.
"""

import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_hub as hub

from cpc_tf.data import catalog, pipeline
from cpc_tf.data.config import DataConfig
from cpc_tf.encoders.card import read_card
from cpc_tf.encoders.load import load_patch_encoder
from cpc_tf.evaluation.inference import encode_dataset
from cpc_tf.evaluation.neighbours import nearest_neighbour_accuracy
from cpc_tf.export.encoder import export_again

pytestmark = pytest.mark.slow

MODULES = pathlib.Path(__file__).parent.parent / "modules"
MODULE = MODULES / "imagenette_128px"
NAMES = sorted(path.parent.name for path in MODULES.glob("*/encoder.json"))


@pytest.fixture(scope="module")
def layer():
    return hub.KerasLayer(str(MODULE), trainable=True)


@pytest.fixture(scope="module", params=NAMES)
def each(request):
    """A module of ours, and it as a layer."""
    module = MODULES / request.param
    return module, hub.KerasLayer(str(module), trainable=True)


def test_it_is_a_layer_that_can_be_trained(each):
    module, layer = each
    features = layer(tf.random.stateless_uniform([2, 128, 128, 3], [0, 0]))
    assert features.shape == (2, 1024)
    assert np.isfinite(features).all()
    assert (
        sum(np.prod(v.shape) for v in layer.trainable_variables)
        == read_card(str(module), "").parameters
    )


def test_it_is_as_the_exporter_writes_it_today(each):
    """It refuses other pixels than those in [0, 1], and its page says how it is used now."""
    module, layer = each
    again = export_again(str(module))
    assert (module / "README.md").read_text() == again.readme
    assert read_card(str(module)).to_json() == {
        **again.card,
        "versions": read_card(str(module)).versions,
    }
    for entry in (layer.resolved_object, layer.resolved_object.patched):
        with pytest.raises(tf.errors.InvalidArgumentError, match="must be floats in"):
            entry(tf.fill([1, 128, 128, 3], 255.0))


def test_neighbours_of_images_it_never_saw():
    """Crops of the embedded photographs: which photograph is each crop from?"""
    geometry, found = read_card(str(MODULE), "").geometry, {}
    source = catalog.open_labelled(DataConfig(dataset="photos"), "test", "split")
    for encoder in (str(MODULE), f"random:{MODULE}"):
        encode = load_patch_encoder(encoder, 0, geometry.patch_size).patch_latents
        features = encode_dataset(pipeline.plain_patches(source, geometry, 38), encode, count=76)
        found[encoder] = nearest_neighbour_accuracy(features.latents.mean((1, 2)), features.labels)
    assert found[str(MODULE)] > found[f"random:{MODULE}"] + 0.05


def test_conversions_match_this_module_and_its_outputs(layer):
    card = read_card(str(MODULE), "").to_json()
    found = {
        path.parent: json.loads(path.read_text()) for path in MODULE.parent.glob("*/runtime.json")
    }
    assert {each["format"] for each in found.values()} == {"tflite", "onnx", "keras3"}
    for folder, values in found.items():
        # the conversions were made before cards had levels
        assert {
            "levels": None,
            **values["card"],
        } == card
        assert {name: (folder / name).stat().st_size for name in values["bytes"]} == values["bytes"]
        assert values["similarity"] > 0.98
    images = np.random.default_rng(0).uniform(size=[1, 128, 128, 3]).astype(np.float32)
    wanted = layer.resolved_object(images).numpy()
    for folder in (folder for folder, values in found.items() if values["format"] == "tflite"):
        runner = tf.lite.Interpreter(str(folder / "encoder.tflite")).get_signature_runner("encoder")
        features = runner(images=images)["features"]
        least = 1 - 1e-6 if found[folder]["quantize"] == "none" else 0.9
        assert (
            float((features * wanted).sum() / np.linalg.norm(features) / np.linalg.norm(wanted))
            > least
        ), folder
