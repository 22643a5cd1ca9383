"""Modules as TFLite, ONNX and Keras 3: they compute the same, their pages' code runs, and every way
to fail.
"""

import importlib.util
import json
import os
import types

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.core import cli
from cpc_tf.core.files import write_file
from cpc_tf.core.keras import keras
from cpc_tf.core.settings import ConfigError, to_flagfile
from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.encoders.config import EncoderConfig
from cpc_tf.encoders.network import make_encoder
from cpc_tf.export import convert, formats, run
from cpc_tf.export.config import ExportConfig, RuntimeConfig
from cpc_tf.export.formats import Subject, check_installed
from cpc_tf.export.run import export
from cpc_tf.export.verify import NotVerified
from tests.export.conftest import read
from tests.samples import write_pictures
from tests.snippets import python_of

HAS_ONNX = all(importlib.util.find_spec(name) for name in ("tf2onnx", "onnxruntime"))
HAS_KERAS3 = keras.__name__.startswith("tf_keras")
needs_onnx = pytest.mark.skipif(not HAS_ONNX, reason="tf2onnx and onnxruntime are not installed")
needs_keras3 = pytest.mark.skipif(not HAS_KERAS3, reason="this TensorFlow has Keras 2")


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


# kind of the module, format, more settings, files, and the shape of what the code on the page
# computes
CONVERTED = [
    ("encoder", "tflite", {}, {"encoder.tflite"}, (1, 8)),
    pytest.param("encoder", "onnx", {}, {"encoder.onnx", "patched.onnx"}, (4, 8), marks=needs_onnx),
    pytest.param("encoder", "keras3", {}, {"encoder.keras"}, (4, 8), marks=needs_keras3),
    ("classifier", "tflite", {"quantize": "int8"}, {"classifier.tflite", "labels.txt"}, (1, 4)),
    pytest.param(
        "classifier", "onnx", {}, {"classifier.onnx", "labels.txt"}, (4, 4), marks=needs_onnx
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "format", "settings", "files", "shape"), CONVERTED)
def test_each_format_computes_the_same_as_its_page(
    hub_dir, colours_module, pictures, tmp_path, forked, kind, format, settings, files, shape
):
    module = hub_dir if kind == "encoder" else colours_module
    settings = {
        **settings,
        "labelled": pictures,
        **({"representative": pictures} if settings else {}),
    }
    found = converted(module, tmp_path / "other", format=format, **settings)
    assert found["difference"] < 1e-4 or settings["quantize"] == "int8"
    assert (found["kind"], found["module"]) == (kind, os.path.basename(module))
    assert found["card"] == json.loads(read(module, f"{kind}.json"))
    assert set(found["bytes"]) == files - {"labels.txt"}
    assert set(os.listdir(tmp_path / "other")) == files | {"runtime.json", "README.md"}
    assert os.listdir(tmp_path) == ["other"]
    accuracy = found["accuracy"]
    assert accuracy["pictures"] == 36
    assert accuracy["savedmodel"] == accuracy["converted"] > 0.9  # colours are easy
    names = names_of_page(tmp_path / "other")
    assert names["features" if kind == "encoder" else "logits"].shape == shape
    assert names["images"].dtype == (np.float32 if kind == "encoder" else np.uint8)
    if kind == "classifier":
        assert (accuracy["measure"], accuracy["same_prediction"]) == ("top-1", 1)
        assert read(tmp_path / "other", "labels.txt").split() == ["blue", "green", "red", "yellow"]


@pytest.mark.slow
def test_int8_export_reports_accuracy_before_and_after(
    pretrained, pictures, tmp_path, monkeypatch, forked
):
    """The run is exported first."""
    # shown elsewhere
    monkeypatch.setattr(run, "verify", lambda *_: {"difference": 0, "variables": 0})
    int8 = {
        "format": "tflite",
        "quantize": "int8",
        "representative": pictures,
        "labelled": pictures,
    }
    found = converted("", tmp_path / "int8", workdir=pretrained.path, step=7, **int8)
    assert (found["module"], found["card"]["step"], found["image_size"]) == ("first_run", 7, 32)
    assert os.listdir(tmp_path) == ["int8"]
    assert found["pictures"] == "24 representative images"
    assert 0.9 < found["similarity"] < 0.99999
    accuracy = found["accuracy"]
    assert (accuracy["pictures"], accuracy["measure"]) == (
        36,
        "10 nearest neighbours, leave-one-out",
    )
    assert accuracy["savedmodel"] == accuracy["converted"] == 1  # colours are easy
    assert "on 36 images: 100.0 % -> 100.0 %" in read(tmp_path / "int8", "README.md")


@pytest.mark.slow
def test_quantized_run_is_tested_on_its_own_test(tmp_path):
    """Without folders: ranges from what it learned from, accuracy on its test."""
    pictures = write_pictures(tmp_path / "colours", {"train": 2, "val": 3})
    flags = [f"--labelled={pictures}", "--test_split=val", "--encoder=pixels"]
    write_file(str(tmp_path / "run/run.flags"), to_flagfile(cli.parse(EfficientConfig, flags)))
    write_file(str(tmp_path / "run/run.json"), '{"task": "efficient"}')
    own = convert.pictures_of_run(str(tmp_path / "run"))
    assert (own.learned.num_examples, own.tested.num_examples) == (6, 9)
    made = types.SimpleNamespace(
        class_names=("green", "blue", "red"),
        prepare=lambda image: image[:8, :8],
        name="colours",
        card={},
    )
    images, labels = convert._with_labels(made, own.tested, "--workdir")
    means = images.mean((1, 2))
    assert [("red", "green", "blue")[i] for i in means.argmax(1)] == [
        made.class_names[label] for label in labels
    ]


@pytest.mark.slow
def test_8_bit_weights_shrink_file_with_similar_outputs(tmp_path):
    module = tf.Module()
    module.kernel = tf.Variable(tf.random.stateless_normal([3, 3, 3, 512], [1, 2]))

    def encoder(images):
        return {
            "features": tf.reduce_mean(
                tf.nn.relu(tf.nn.conv2d(images, module.kernel, 2, "SAME")), [1, 2]
            )
        }

    made = Subject(
        "encoder",
        "",
        {},
        module,
        16,
        True,
        tf.float32,
        {"encoder": encoder},
        "features",
        (),
        tf.identity,
    )
    images = np.random.default_rng(0).integers(0, 256, [1, 16, 16, 3], np.uint8)
    (name,) = formats.write(made, str(tmp_path), "tflite", "weights")
    path = tmp_path / name
    assert path.stat().st_size < 2 * tf.size(module.kernel)  # of 4 bytes each
    got = tf.lite.Interpreter(str(path)).get_signature_runner("encoder")(
        images=made.as_input(images)
    )["features"]
    wanted = made.outputs("encoder", images)["features"]
    assert 0 < np.abs(got - wanted).max() < 0.1 * np.abs(wanted).max()


@pytest.mark.slow
def test_what_differs_is_not_written(hub_dir, tmp_path, monkeypatch):
    made = formats.load(hub_dir)

    def outputs(format, directory, inputs):
        assert str(inputs.pop("dtype")) == "float32"
        found = {}
        for key, images in inputs.items():
            found.update(
                {
                    f"{key}/{name}": x
                    for name, x in made.outputs(key.partition("/")[0], images).items()
                }
            )
        found["patched/photographs/latents"] *= 1.001
        return found

    monkeypatch.setattr(convert, "write", lambda *_: [])
    monkeypatch.setattr(convert, "computed", outputs)
    with pytest.raises(
        NotVerified, match="patched/photographs/latents differs from the SavedModel's by 1.0e-03"
    ):
        converted(hub_dir, tmp_path / "other", format="tflite")
    assert os.listdir(tmp_path) == []


@pytest.mark.slow
def test_modules_that_cannot_be_converted(
    hub_dir, colours_module, pictures, tmp_path, tmp_path_factory, monkeypatch
):
    monkeypatch.setattr(formats, "check_installed", lambda format: None)
    trees = write_pictures(
        tmp_path_factory.mktemp("pictures") / "trees", {"val": 1}, names=("oak", "red")
    )

    def refused(match, module, format="tflite", **settings):
        with pytest.raises(ConfigError, match=match):
            converted(str(module), tmp_path / "output", format=format, **settings)

    (tmp_path / "detector.json").write_text("{}")
    refused("is a detector, which can be exported with --format=savedmodel alone", tmp_path)
    refused(
        "has a folder oak, which is not a class of colours; its classes are blue",
        colours_module,
        labelled=trees,
    )
    refused(
        "colours is a classifier, and only encoders can become models",
        colours_module,
        format="keras3",
    )
    refused(
        "--representative=/nowhere: no such folder",
        colours_module,
        quantize="int8",
        representative="/nowhere",
    )
    refused("no labels in it, in --labelled=.*/red", hub_dir, labelled=f"{pictures}/train/red")
    assert sorted(os.listdir(tmp_path)) == ["detector.json"]


@pytest.mark.skipif(HAS_ONNX, reason="tf2onnx and onnxruntime are installed")
def test_missing_packages_are_named():
    with pytest.raises(
        ConfigError, match="--format=onnx: needs tf2onnx and onnxruntime, .* pip install"
    ):
        check_installed("onnx")


@pytest.mark.skipif(HAS_KERAS3, reason="this TensorFlow has Keras 3")
def test_keras_3_needs_the_other_environment():
    with pytest.raises(ConfigError, match="--format=keras3: needs Keras 3, .* ENVIRONMENT=current"):
        check_installed("keras3")


# Networks of ours as models of Keras 3, which can be trained.


def network(**settings):
    """A network whose variables, those of the norms and their statistics too, are not as new."""
    keras.utils.set_random_seed(0)
    made = make_encoder(EncoderConfig(**settings))
    made(tf.zeros([1, 32, 32, 3]))
    for i, variable in enumerate(made.variables):
        variable.assign(
            variable * (1.3 + 0.2 * np.sin(i)) + (0.1 if variable.shape.rank == 1 else 0)
        )
    return made


@needs_keras3
@pytest.mark.parametrize(
    ("norm", "order"),
    [("layer", "pre"), ("channel", "post"), ("batch", "pre"), ("batch", "post"), ("none", "pre")],
)
def test_all_endpoints_are_those_of_the_network(norm, order):
    import keras as keras3

    ours = network(encoder="tiny", norm=norm, block_order=order)
    model = formats.keras3_model(ours)
    assert model.count_params() == sum(np.prod(v.shape) for v in ours.variables)
    names = ["features", "feature_map", "stack1", "stack2", "stack3"]
    endpoints = keras3.Model(model.inputs, {name: model.get_layer(name).output for name in names})
    for height, width in ((32, 32), (29, 51)):
        images = np.random.default_rng(0).uniform(size=[2, height, width, 3]).astype(np.float32)
        wanted = ours.endpoints(images)
        assert set(wanted) == set(names)
        for name, values in endpoints(images).items():
            np.testing.assert_allclose(
                values, wanted[name], atol=2e-5 * np.abs(wanted[name]).max(), err_msg=name
            )


@needs_keras3
@pytest.mark.slow
def test_the_stem_of_the_large_networks():
    ours = network(encoder="resnet50", output_stack=1)
    images = np.random.default_rng(0).uniform(size=[1, 45, 32, 3]).astype(np.float32)
    wanted = ours(images).numpy()
    np.testing.assert_allclose(
        formats.keras3_model(ours)(images), wanted, atol=2e-5 * np.abs(wanted).max()
    )


@needs_keras3
@pytest.mark.slow
def test_saved_keras_model_can_be_fine_tuned(tmp_path):
    import keras as keras3

    formats.keras3_model(network(encoder="tiny")).save(tmp_path / "encoder.keras")
    encoder = keras3.saving.load_model(tmp_path / "encoder.keras")
    classifier = keras3.Sequential([encoder, keras3.layers.Dense(2)])
    labels = np.arange(8) % 2
    images = np.random.default_rng(0).uniform(size=[8, 16, 16, 3]).astype(np.float32) * (
        0.3 + labels[:, None, None, None]
    )
    before = [variable.numpy() for variable in encoder.trainable_variables]
    classifier.compile(
        keras3.optimizers.Adam(1e-3), keras3.losses.SparseCategoricalCrossentropy(from_logits=True)
    )
    losses = classifier.fit(images, labels, epochs=10, verbose=0).history["loss"]
    assert losses[-1] < 0.7 * losses[0]
    assert len(before) == len(encoder.variables)
    assert all(np.any(new.numpy() != old) for new, old in zip(encoder.trainable_variables, before))
