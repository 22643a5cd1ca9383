"""The exported encoder: what hub.KerasLayer needs, and of a run on labels its own network and where
it comes from.
"""

import contextlib
import json
import shutil

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_hub as hub

from cpc_tf.core import cli
from cpc_tf.core.files import write_file
from cpc_tf.core.keras import keras
from cpc_tf.core.settings import ConfigError, flatten
from cpc_tf.data.config import GeometryConfig
from cpc_tf.efficient import phases
from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.efficient.run import efficient, prepare
from cpc_tf.export.encoder import HubEncoder, save
from cpc_tf.training.phases import in_folder
from tests import modules
from tests.export.conftest import GEOMETRY, IMAGES, OURS, assert_close, made
from tests.export.runs import efficient_run, write_run
from tests.samples import write_pictures

FLAGS = (
    "--resize=18", "--image_size=16", "--crop_area=0.5", "--augment=none", "--backbone=small",
    "--head_blocks=0", "--batch_size=2", "--train_steps=2", "--finetune_steps=2",
    "--steps_per_loop=2", "--labels_per_class=1", "--encoder_rate=0.01",
    "--strategy=single", "--test_split=val",
)  # fmt: skip
PIXELS = np.random.default_rng(1).integers(0, 256, [2, 16, 16, 3], np.uint8)
PREPARED = tf.image.convert_image_dtype(PIXELS, tf.float32)


@pytest.fixture(scope="module")
def loaded(ours):
    """The module, for tests that do not change it."""
    return hub.load(ours.path)


@pytest.mark.slow
def test_endpoints_equal_the_network_and_its_patches(ours, loaded):
    whole, patches = (entry(IMAGES, return_endpoints=True) for entry in (loaded, loaded.patched))
    assert (
        set(whole)
        == set(patches)
        == set(ours.endpoints)
        == {"stack1", "stack2", "feature_map", "features"}
    )
    for name, wanted in ours.endpoints.items():
        np.testing.assert_allclose(whole[name], wanted, atol=1e-4)
        assert patches[name].shape == [2, 7, 5, *ours.patch[name].shape[1:]]
        np.testing.assert_allclose(patches[name][1:, 3, 1], ours.patch[name], atol=1e-4)


@pytest.mark.slow
def test_shapes_are_known_to_keras_and_to_signatures(loaded):
    images = keras.Input([None, None, 3])
    assert hub.KerasLayer(loaded)(images).shape.as_list() == [None, 16]
    assert hub.KerasLayer(loaded.patched)(images).shape.as_list() == [None, None, None, 16]
    served = loaded.signatures["serving_default"](images=tf.constant(IMAGES))
    assert {name: x.shape.as_list() for name, x in served.items()} == {
        "features": [2, 16],
        "feature_map": [2, 8, 6, 16],
    }
    assert loaded.signatures["patched"](images=tf.constant(IMAGES))["latents"].shape == [
        2,
        7,
        5,
        16,
    ]


@pytest.mark.slow
def test_invalid_pixels_are_refused_and_uint8_has_signature(ours, loaded, tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, [2, 9, 9, 3], np.uint8)
    wanted = loaded(tf.constant(pixels / 255, tf.float32))
    served = loaded.signatures["uint8"](images=tf.constant(pixels))
    np.testing.assert_allclose(served["features"], wanted, atol=1e-6)
    for wrong in (
        pixels.astype(np.float32),
        (pixels / 127.5 - 1).astype(np.float32),
        np.full([1, 9, 9, 3], np.nan),
    ):
        for entry in (loaded, loaded.patched):
            with pytest.raises(tf.errors.InvalidArgumentError, match="must be floats in"):
                entry(tf.constant(wrong, tf.float32), training=True)
    module = HubEncoder(ours.encoder, GEOMETRY)
    module.check_pixels(False)
    save(module, str(tmp_path))
    wide = tf.constant(pixels, tf.float32)
    np.testing.assert_allclose(
        hub.load(str(tmp_path))(wide), loaded.unchecked(wide)["features"], atol=1e-4
    )


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(3, 1, 5), (2, 16, 101)])
def test_any_image_size_is_accepted_above_one_patch(loaded, shape):
    features = loaded(tf.zeros([*shape, 3]))
    assert features.shape == [shape[0], 16]
    assert np.all(np.isfinite(features))
    with pytest.raises(tf.errors.InvalidArgumentError, match="smaller than a patch of 8 px"):
        loaded.patched(tf.zeros([1, 7, 40, 3]))


@pytest.mark.slow
def test_fine_tuning_updates_weights_and_statistics_in_keras(ours, tmp_path):
    """By way of the patches; verify_test.py trains on whole images."""
    loaded = hub.load(ours.path)
    layer = hub.KerasLayer(loaded.patched, trainable=True)
    model = keras.Sequential(
        [layer, keras.layers.Lambda(lambda x: tf.reshape(x, [tf.shape(x)[0], -1])[:, :8])]
    )
    before = [v.numpy() for v in loaded.variables]
    model.compile(keras.optimizers.SGD(0.1), "mse")
    model.fit(IMAGES, np.ones([2, 8]), verbose=0)
    assert all(np.any(old != new.numpy()) for old, new in zip(before, loaded.variables))
    wanted = model(IMAGES).numpy()
    model.save_weights(str(tmp_path / "tuned.weights.h5"))
    for variable in model.variables:
        variable.assign(variable * 0.5)
    model.load_weights(str(tmp_path / "tuned.weights.h5"))
    np.testing.assert_array_equal(model(IMAGES), wanted)


@pytest.mark.slow
def test_frozen_layer_changes_nothing(loaded):
    layer = hub.KerasLayer(loaded)
    before = [v.numpy() for v in layer.resolved_object.variables]
    layer(IMAGES, training=True)
    assert layer.trainable_weights == []
    assert all(
        np.array_equal(old, new.numpy())
        for old, new in zip(before, layer.resolved_object.variables)
    )


def settings(workdir, encoder, *more, folder="/home/someone/birds"):
    here = [
        f"--dataset=folder:{folder}",
        f"--encoder={encoder}",
        f"--workdir={workdir}",
        "--encoder_adam=keras",
    ]
    return cli.parse(EfficientConfig, [*FLAGS, *here, *more])


def maps_of(found, endpoint):
    """The feature maps of an export, as a run on labels sees them."""
    if endpoint == "latents":
        return found.module.patched(PREPARED)
    return found.module(PREPARED, return_endpoints=True)[endpoint]


@pytest.mark.slow
def test_a_real_run_becomes_a_module(tmp_path):
    folder = write_pictures(tmp_path / "birds", {"train": 2, "val": 2}, names=("dark", "bright"))
    config = settings(tmp_path / "run", "pixels", folder=folder)
    result = efficient(config)
    found = made(tmp_path / "run")
    assert (found.card["weights"], found.card["step"], found.card["phase"]) == (
        "raw",
        2,
        "supervised",
    )
    # The trained network as the run itself restores it.
    (_, trained), phase = prepare(config, tf.distribute.get_strategy()), phases.first_phase(config)
    network = trained.first(in_folder(config, phase), "chosen").encoder
    assert_close(maps_of(found, "feature_map"), network.encode(PIXELS))
    assert f"| top-1 | {result['right']} of 4 right (" in found.readme
    assert "| measured on split `val`, 2 classes, step 2 | |" in found.readme


@pytest.fixture(scope="module")
def fine_tuned(ours, tmp_path_factory):
    """(settings, what trained it) of a run that has averages."""
    workdir = tmp_path_factory.mktemp("runs") / "first"
    config = settings(workdir, ours.path, "--endpoint=latents", "--encoder_adam=paper")
    return config, efficient_run(config, "fine-tuned")


@pytest.mark.slow
def test_fine_tuned_module_has_the_tested_averages(fine_tuned):
    config, trainee = fine_tuned
    outputs = []
    for weights, chosen in (("averaged", trainee.averaged()), ("raw", contextlib.nullcontext())):
        with chosen:
            outputs.append(trainee.encoder.encode(PIXELS).numpy())
        found = made(config.workdir, weights=weights)
        assert_close(maps_of(found, "latents"), outputs[-1])
        assert found.card["weights"] == weights
    assert np.abs(outputs[0] - outputs[1]).max() > 1e-3


@pytest.mark.slow
def test_fine_tuned_graph_keeps_architecture_and_geometry(ours, tmp_path):
    """The variables of a graph are in another order."""
    trainee = efficient_run(
        settings(tmp_path / "run", f"graph:{ours.path}", "--endpoint=stack1"), "fine-tuned"
    )
    found = made(tmp_path / "run")
    assert_close(maps_of(found, "stack1"), trainee.encoder.encode(PIXELS))
    card = found.card
    assert (card["encoder"], card["geometry"]) == (flatten(OURS), flatten(modules.GEOMETRY))
    began = {
        name: getattr(modules.PRETRAINED, name)
        for name in ("objective", "dataset", "run", "step", "weights")
    }
    assert {"module": "ours", **began}.items() <= card["began_as"].items()
    assert (card["weights"], card["step"], card["phase"], card["num_train_labels"]) == (
        "raw",
        2,
        "fine-tuned",
        30,
    )


@pytest.mark.slow
def test_new_network_treats_whole_image_as_one_patch(ours, tmp_path):
    config = settings(tmp_path / "run", f"random:{ours.path}", "--precision=bfloat16")
    network = efficient_run(config, "fine-tuned", steps=(1, 2)).encoder.encoder
    write_file(f"{tmp_path}/run/levels.json", json.dumps({"levels": [3.0, 900.0]}))
    found = made(tmp_path / "run", step=1)
    assert found.card["levels"] == [3.0, 900.0]
    for saved, variable in zip(found.module.variables, network.variables):
        np.testing.assert_array_equal(saved, variable)
    assert found.module(PREPARED).dtype == tf.float32
    assert found.card["encoder"] == flatten(OURS)
    sides = {"resize": 18, "image_size": 16, "patch_size": 16, "patch_stride": 16}
    assert GeometryConfig(**found.card["geometry"]) == GeometryConfig(**sides, mirror=True)
    assert found.card["began_as"] is None
    assert (
        "It was trained from scratch on 30 labels (10 %) of `folder:birds` (run `run`, step 1).\n"
        in found.readme
    )
    assert "step 2, which is not the exported step" in found.readme
    assert "It saw whole images, 16 x 16 px: the grid is a single patch." in found.readme


@pytest.mark.slow
def test_card_of_a_module_fine_tuned_twice(ours, fine_tuned, tmp_path):
    first = made(fine_tuned[0].workdir)
    assert "it saw the patches of the grid on images of 16 x 16 px" in first.readme
    shutil.copytree(ours.path, tmp_path / "once")
    write_file(str(tmp_path / "once/encoder.json"), json.dumps(first.card))
    again = settings(
        tmp_path / "second", tmp_path / "once", "--dataset=flowers", "--split=train[:50%]"
    )
    efficient_run(again, "fine-tuned", steps=(4,))
    found = made(tmp_path / "second")
    text = found.readme
    assert (
        "It was pre-trained on `photos` without labels (run `pretrain`, step 7), then fine-tuned on"
        " 30 labels (10 %) of `folder:birds` (run `first`, step 2), then fine-tuned on 30 labels"
        " (10 %) of `flowers` (run `second`, step 4)." in text
    )
    # The batches are those of the phase, which the search chose.
    assert "| run | `second`, phase `fine-tuned`, step 4 of batches of 4, raw weights |" in text
    assert "while it was fine-tuned it saw whole images, 16 x 16 px." in text
    everything = text + json.dumps(found.card)
    assert not any(word in everything for word in ("$", "/home/someone", str(tmp_path)))


FROZEN, TUNED = {"frozen": {"steps": 2}}, {"fine-tuned": {"steps": 2}}


@pytest.mark.parametrize(
    ("encoder", "flags", "phases", "message"),
    [
        (
            "runs/hub",
            ["--finetune_steps=0"],
            FROZEN,
            r"\(--finetune_steps=0\); use --encoder=runs/hub",
        ),
        ("runs/hub", [], {**FROZEN, "fine-tuned": {"steps": 0}}, "0 steps of fine-tuning did best"),
        ("random", ["--finetune_steps=0"], FROZEN, "there is nothing to export"),
        ("https://else.where/hub", [], TUNED, "--encoder=https://else.where/hub: no enc"),
        ("/nowhere/theirs", [], TUNED, "--encoder=/nowhere/theirs: there is no such directory"),
        ("pixels", [], {"supervised": {"steps": 2}}, "supervised: holds no run"),
        ("pixels", [], None, "has no result.json; let `cpc-tf efficient` end"),
    ],
)
def test_what_cannot_be_exported_is_refused(encoder, flags, phases, message, tmp_path):
    write_run(
        settings(tmp_path / "run", encoder, *flags), "efficient", phases and {"phases": phases}
    )
    with pytest.raises(ConfigError, match=f"--workdir={tmp_path}/run.*{message}"):
        made(tmp_path / "run")


@pytest.mark.slow
def test_a_module_that_was_replaced(ours, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(ours.path, copy)
    efficient_run(settings(tmp_path / "run", copy), "fine-tuned")
    card = json.loads((copy / "encoder.json").read_text())
    (copy / "encoder.json").write_text(
        json.dumps({**card, "encoder": {**card["encoder"], "output_stack": 1}})
    )
    with pytest.raises(
        ConfigError, match="copy: its encoder.json is for another network: .* [0-9]+ in the module"
    ):
        made(tmp_path / "run")
    shutil.rmtree(copy / "variables")
    with pytest.raises(
        ConfigError, match="the module that this run began with is needed: .*copy.* cannot be read"
    ):
        made(tmp_path / "run")
