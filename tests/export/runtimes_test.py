"""Modules as TFLite, ONNX and Keras 3: they compute the same, their pages' code runs, and every way to fail."""

import importlib.util
import json
import os

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.data.config import ImageConfig
from cpc_tf.export import classifier_module, run
from cpc_tf.export.classifier_module import Classifying, HubClassifier
from cpc_tf.export.run import ExportConfig, export
from cpc_tf.export.runtimes import compare, convert, subject, tflite
from cpc_tf.export.runtimes.config import RuntimeConfig, check_installed
from cpc_tf.export.runtimes.subject import Subject
from cpc_tf.export.verify import NotVerified
from cpc_tf.files import write_file
from cpc_tf.keras import keras
from cpc_tf.settings import ConfigError
from tests.export.conftest import read
from tests.samples import write_pictures
from tests.snippets import python_of

HAS_ONNX = all(importlib.util.find_spec(name) for name in ("tf2onnx", "onnxruntime"))
HAS_KERAS3 = keras.__name__.startswith("tf_keras")
needs_onnx = pytest.mark.skipif(not HAS_ONNX, reason="tf2onnx and onnxruntime are not installed")
needs_keras3 = pytest.mark.skipif(not HAS_KERAS3, reason="this TensorFlow has Keras 2")


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    return write_pictures(tmp_path_factory.mktemp("pictures") / "colours", {"train": 8, "val": 12})


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    """The directory of a classifier that knows the colours of `pictures`, and one more."""
    names, path = ["blue", "green", "red", "yellow"], str(tmp_path_factory.mktemp("modules") / "colours")
    colours = tf.Variable([[0, 0, 1], [0, 1, 0], [1, 0, 0], [-1, -1, -1]], dtype=tf.float32)

    def logits(images):  # uint8 [N, 16, 16, 3]
        means = tf.reduce_mean(tf.cast(images, tf.float32), [1, 2])
        return tf.matmul(means, colours, transpose_b=True) / 50

    geometry = ImageConfig(resize=20, image_size=16)
    classifier_module.save(HubClassifier(Classifying(logits, [colours], geometry, names, temperature=2.0)), path)
    card = {"class_names": names, "several_labels": False, "image_size": 16, "resize": 20, "geometry": None}
    write_file(f"{path}/classifier.json", json.dumps(card))
    return path


def converted(module, output, workdir="", step=0, **settings):
    """Exports a module or a run; returns the content of runtime.json."""
    runtime = RuntimeConfig(module=module, **settings)
    export(ExportConfig(workdir=workdir, output=str(output), step=step, runtime=runtime))
    return json.loads(read(output, "runtime.json"))


def names_of_page(output):
    """What the code on the page of a converted module leaves."""
    page, names = read(output, "README.md"), {}
    assert "$" not in page
    exec(python_of(page).replace("path/to/this/directory", str(output)), names)
    return names


@pytest.mark.slow
@pytest.mark.parametrize(
    ("format", "files", "shape"),
    [
        ("tflite", {"encoder.tflite"}, (1, 8)),
        pytest.param("onnx", {"encoder.onnx", "patched.onnx"}, (4, 8), marks=needs_onnx),
        pytest.param("keras3", {"encoder.keras"}, (4, 8), marks=needs_keras3),
    ],
)
def test_each_format_computes_the_same_and_its_page_shows_how(hub_dir, tmp_path, format, files, shape):
    found = converted(hub_dir, tmp_path / "other", format=format)
    assert found["difference"] < 1e-4
    assert (found["kind"], found["module"], found["image_size"]) == ("encoder", "hub", 32)
    assert found["card"] == json.loads(read(hub_dir, "encoder.json"))
    assert set(found["bytes"]) == files
    assert set(os.listdir(tmp_path / "other")) == files | {"runtime.json", "README.md"}
    assert os.listdir(tmp_path) == ["other"]
    assert names_of_page(tmp_path / "other")["features"].shape == shape


@pytest.mark.slow
def test_int8_of_a_run_states_accuracy_before_and_after(pretrained, pictures, tmp_path, monkeypatch, forked):
    """The run is exported first."""
    monkeypatch.setattr(run, "verify", lambda *_: {"difference": 0, "variables": 0})  # shown elsewhere
    int8 = {"format": "tflite", "quantize": "int8", "representative": pictures, "labelled": pictures}
    found = converted("", tmp_path / "int8", workdir=pretrained.path, step=7, **int8)
    assert (found["module"], found["card"]["step"], found["image_size"]) == ("first_run", 7, 32)
    assert os.listdir(tmp_path) == ["int8"]
    assert found["pictures"] == "24 representative pictures"
    assert 0.9 < found["similarity"] < 0.99999
    accuracy = found["accuracy"]
    assert (accuracy["pictures"], accuracy["measure"]) == (36, "10 nearest neighbours, leave-one-out")
    assert accuracy["savedmodel"] == accuracy["converted"] == 1  # colours are easy
    assert "on 36 pictures: 100.0 % -> 100.0 %" in read(tmp_path / "int8", "README.md")


@pytest.mark.slow
@pytest.mark.parametrize("format", ["tflite", pytest.param("onnx", marks=needs_onnx)])
def test_classifiers_are_converted_with_their_names(classifier, pictures, tmp_path, forked, format):
    int8 = {"quantize": "int8", "representative": pictures} if format == "tflite" else {}
    found = converted(classifier, tmp_path / "other", format=format, labelled=pictures, **int8)
    assert set(found["bytes"]) == {f"classifier.{format}"}
    accuracy = {"measure": "top-1", "same_prediction": 1, "pictures": 36, "savedmodel": 1, "converted": 1}
    assert found["accuracy"] == accuracy
    assert read(tmp_path / "other", "labels.txt").split() == ["blue", "green", "red", "yellow"]
    names = names_of_page(tmp_path / "other")
    assert (names["images"].dtype, names["logits"].shape[1:]) == (np.uint8, (4,))


@pytest.mark.slow
def test_weights_of_8_bits_make_a_smaller_file_with_nearly_the_same_outputs(tmp_path):
    module = tf.Module()
    module.kernel = tf.Variable(tf.random.stateless_normal([3, 3, 3, 512], [1, 2]))

    def encoder(images):
        return {"features": tf.reduce_mean(tf.nn.relu(tf.nn.conv2d(images, module.kernel, 2, "SAME")), [1, 2])}

    made = Subject("encoder", "", {}, module, 16, True, tf.float32, {"encoder": encoder}, "features", (), tf.identity)
    images = np.random.default_rng(0).integers(0, 256, [1, 16, 16, 3], np.uint8)
    path = tmp_path / tflite.write(made, str(tmp_path), "weights")
    assert path.stat().st_size < 2 * tf.size(module.kernel)  # of 4 bytes each
    got = tf.lite.Interpreter(str(path)).get_signature_runner("encoder")(images=made.shown(images))["features"]
    wanted = made.outputs("encoder", images)["features"]
    assert 0 < np.abs(got - wanted).max() < 0.1 * np.abs(wanted).max()


@pytest.mark.slow
def test_what_differs_is_not_written(hub_dir, tmp_path, monkeypatch):
    made = subject.load(hub_dir)

    def outputs(format, dtype, directory, cases):
        found = {}
        for key, images in cases.items():
            found.update({f"{key}/{name}": x for name, x in made.outputs(key.partition("/")[0], images).items()})
        found["patched/photographs/latents"] *= 1.001
        return found

    monkeypatch.setattr(convert, "_write", lambda *_: [])
    monkeypatch.setattr(compare, "_run", outputs)
    with pytest.raises(NotVerified, match="patched/photographs/latents differs from the SavedModel's by 1.0e-03"):
        converted(hub_dir, tmp_path / "other", format="tflite")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("got", [{}, {"encoder/x": np.ones([2, 4])}, {"encoder/x": np.full([2, 3], np.nan)}])
def test_outputs_that_are_not_there_or_not_finite(got):
    with pytest.raises(NotVerified, match="^encoder/x (has shape|differs)"):
        compare._difference(got, {"encoder/x": np.ones([2, 3])}, exact=False)


@pytest.mark.slow
def test_modules_that_cannot_be_converted(hub_dir, classifier, pictures, tmp_path, tmp_path_factory, monkeypatch):
    monkeypatch.setattr(run, "check_installed", lambda format: None)
    trees = write_pictures(tmp_path_factory.mktemp("pictures") / "trees", {"val": 1}, names=("oak", "red"))

    def refused(match, module, format="tflite", **settings):
        with pytest.raises(ConfigError, match=match):
            converted(str(module), tmp_path / "output", format=format, **settings)

    (tmp_path / "detector.json").write_text("{}")
    refused("is a detector, which can be exported with --format=savedmodel alone", tmp_path)
    refused("has a folder oak, which is no class of colours; its classes are blue", classifier, labelled=trees)
    refused("colours is a classifier, and only encoders are made models", classifier, format="keras3")
    refused("--representative=/nowhere: no such folder", classifier, quantize="int8", representative="/nowhere")
    refused("no labels there in --labelled=.*/red", hub_dir, labelled=f"{pictures}/train/red")
    assert sorted(os.listdir(tmp_path)) == ["detector.json"]


@pytest.mark.skipif(HAS_ONNX, reason="tf2onnx and onnxruntime are installed")
def test_missing_packages_are_named():
    with pytest.raises(ConfigError, match="--format=onnx: needs tf2onnx and onnxruntime, .* pip install"):
        check_installed("onnx")


@pytest.mark.skipif(HAS_KERAS3, reason="this TensorFlow has Keras 3")
def test_keras_3_needs_the_other_environment():
    with pytest.raises(ConfigError, match="--format=keras3: needs Keras 3, .* ENVIRONMENT=current"):
        check_installed("keras3")
