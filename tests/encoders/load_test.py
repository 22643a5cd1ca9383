"""Any encoder, ours, others' or new: as patch latents and as feature maps that can be trained."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.core.keras import keras
from cpc_tf.core.settings import ConfigError
from cpc_tf.encoders import load, third_party
from cpc_tf.encoders.card import Identity
from cpc_tf.encoders.config import EncoderConfig
from cpc_tf.encoders.network import encode_grid, pixel_grid
from tests.encoders.conftest import GEOMETRY, write_theirs
from tests.modules import write_card

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_block")]

IMAGES = tf.random.stateless_uniform([2, 32, 32, 3], [0, 0])
PATCHES = tf.cast(tf.random.stateless_uniform([2, 3, 4, 16, 16, 3], [0, 0], maxval=256), tf.uint8)


def maps_of(name, endpoint="feature_map", **options):
    return load.load_feature_maps(str(name), endpoint, 32, backbone="small", **options)


def means(images):
    """What a third-party module may compute: the mean colour of each 4x4 pixels."""
    return tf.nn.avg_pool2d(images, 4, 4, "SAME")


def write_keras_model(path):
    layers = [
        keras.layers.Conv2D(3, 4, 4),
        keras.layers.BatchNormalization(),
        keras.layers.GlobalAveragePooling2D(),
    ]
    model = keras.Sequential(layers)
    model.build([None, None, None, 3])
    tf.saved_model.save(model, str(path))
    return model


# Patch latents.


@pytest.mark.parametrize(
    ("write", "output"),
    [
        (lambda path: write_theirs(path, means), [2, 8, 8, 3]),
        (
            lambda path: write_theirs(path, lambda images: tf.reduce_mean(means(images), [1, 2])),
            [2, 1, 1, 3],
        ),
        # as the first TF2
        (
            lambda path: write_theirs(path, lambda images: {"default": means(images)}),
            [2, 8, 8, 3],
        ),
        (write_keras_model, [2, 1, 1, 3]),
    ],
    ids=["maps", "vectors", "default", "keras"],
)
def test_third_party_modules_give_latents_vectors_and_maps(tmp_path, write, output):
    model = write(tmp_path / "theirs")

    def computed(images):
        found = model(images)
        return found["default"] if isinstance(found, dict) else found

    encoder = load.load_patch_encoder(str(tmp_path / "theirs"))
    wanted = computed(
        tf.reshape(tf.image.convert_image_dtype(PATCHES, tf.float32), [-1, 16, 16, 3])
    )
    wanted = tf.reduce_mean(wanted, [1, 2]) if wanted.shape.rank == 4 else wanted
    np.testing.assert_allclose(
        encoder.patch_latents(PATCHES), tf.reshape(wanted, [2, 3, 4, 3]), atol=1e-5
    )
    assert encoder.trainable_variables == []
    assert encoder.identity == Identity("unknown", module="theirs")

    named = isinstance(model(IMAGES), dict)
    maps = maps_of(tmp_path / "theirs", "default" if named else "feature_map")
    np.testing.assert_allclose(maps(IMAGES), tf.reshape(computed(IMAGES), output), atol=1e-5)
    assert (maps.identity.trained_by, maps.identity.module) == ("unknown", "theirs")
    said = "--endpoint=stack3: .* " + (
        "has the feature maps or vectors default"
        if named
        else "one output, without a name; use --endpoint=feature_map"
    )
    with pytest.raises(ConfigError, match=said):
        maps_of(tmp_path / "theirs", "stack3")


def test_pixels_are_all_patches_shrunk():
    latents = pixel_grid(PATCHES)
    assert latents.shape == [2, 1, 1, 12 * 8 * 8 * 3]
    flat = tf.reshape(latents, [2, 3, 4, 8, 8, 3])
    np.testing.assert_allclose(
        tf.reduce_mean(flat, [3, 4]),
        tf.reduce_mean(tf.cast(PATCHES, tf.float32), [3, 4]) / 255,
        atol=0.02,
    )
    encoder = load.load_patch_encoder("pixels")
    np.testing.assert_allclose(encoder.patch_latents(PATCHES), latents, atol=1e-6)
    assert encoder.identity == Identity("pixels")


def test_untrained_copy_is_seeded_and_keeps_module_shape(tmp_path):
    write_card(tmp_path, EncoderConfig(encoder="small", output_stack=1))
    kinds = ((1, "float32"), (1, "float32"), (2, "float32"), (1, "bfloat16"))
    encoders = [
        load.load_patch_encoder(f"random:{tmp_path}", seed, precision=precision)
        for seed, precision in kinds
    ]
    first, again, other, half = (encoder.patch_latents(PATCHES) for encoder in encoders)
    assert first.shape == [2, 3, 4, 16]
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 0.01
    assert half.dtype == tf.float32
    assert 0 < np.abs(first - half).max() < 0.05 * np.abs(first).max()
    assert encoders[2].identity == Identity("untrained", "small", "", 2, 648, tmp_path.name)


@pytest.mark.usefixtures("loaded_once")
def test_our_modules_latents_are_those_of_its_network(ours):
    path, network = ours
    encoder = load.load_patch_encoder(path)
    wanted = encode_grid(network, PATCHES)
    np.testing.assert_allclose(encoder.patch_latents(PATCHES), wanted, atol=1e-4)
    np.testing.assert_allclose(
        load.load_patch_encoder(f"graph:{path}").patch_latents(PATCHES), wanted, atol=1e-4
    )
    assert encoder.identity == Identity(
        "cpc", "small", "photos", 4, 5, path.split("/")[-1], steps=7
    )


# Feature maps.


@pytest.mark.usefixtures("loaded_once")
@pytest.mark.parametrize(
    ("kind", "endpoint"),
    [("", "features"), ("", "latents"), ("graph:", "stack1"), ("graph:", "latents")],
)
def test_endpoints_of_our_module(ours, endpoint, kind):
    path, network = ours
    maps = maps_of(kind + path, endpoint)(IMAGES)
    if endpoint == "latents":
        patches = [IMAGES[:, y : y + 16, x : x + 16] for y in (0, 8, 16) for x in (0, 8, 16)]
        wanted = tf.reshape(tf.stack([network(patch) for patch in patches], 1), [2, 3, 3, 16])
    else:
        wanted = network.endpoints(IMAGES)[endpoint]
    wanted = wanted[:, None, None] if endpoint == "features" else wanted
    np.testing.assert_allclose(maps, wanted, atol=1e-4)


@pytest.mark.parametrize(
    ("kind", "endpoint", "update"),
    [("", "latents", True), ("", "feature_map", False), ("graph:", "feature_map", True)],
)
def test_gradients_reach_every_variable_of_our_module(ours, endpoint, update, kind):
    maps = maps_of(kind + ours[0], endpoint, update_statistics=update)
    assert len(maps.trainable_variables) == len(ours[1].trainable_variables)
    before = [v.numpy() for v in maps.non_trainable_variables]
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(maps(IMAGES, training=True) ** 2)
    gradients = tape.gradient(loss, maps.trainable_variables)
    assert all(gradient is not None and np.abs(gradient).max() > 0 for gradient in gradients)
    moved = [np.any(old != new.numpy()) for old, new in zip(before, maps.non_trainable_variables)]
    assert len(moved) == len(ours[1].variables) - len(ours[1].trainable_variables)
    assert all(moved) if update else not any(moved)


def test_recompute_follows_the_flag_and_keeps_gradients(tmp_path):
    write_card(tmp_path, EncoderConfig(encoder="small", recompute=True), GEOMETRY)
    convolutions, gradients = [], []
    for recompute in (False, True):
        maps = maps_of(f"random:{tmp_path}", recompute=recompute)
        assert maps.encoder.config.recompute  # an export keeps the card's setting

        @tf.function(autograph=False)
        def gradient(maps=maps):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(maps(IMAGES, training=True) ** 2)
            return tape.gradient(loss, maps.trainable_variables)

        operations = gradient.get_concrete_function().graph.get_operations()
        convolutions.append(sum(operation.type == "Conv2D" for operation in operations))
        gradients.append(gradient())
    assert convolutions[1] > 1.5 * convolutions[0]
    for wanted, found in zip(*gradients):
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4 * np.abs(wanted).max())


@pytest.mark.usefixtures("loaded_once")
def test_unused_recompute_and_precision_are_reported(ours, caplog):
    load.load_patch_encoder(ours[0], precision="bfloat16")
    assert "not used" not in caplog.text
    maps_of(f"graph:{ours[0]}", recompute=True)
    load.load_patch_encoder(f"graph:{ours[0]}", precision="bfloat16")
    for flag in ("--recompute", "--precision=bfloat16"):
        assert (
            f"{flag}: not used by --encoder=graph:{ours[0]}, which computes as exported"
            in caplog.text
        )


def test_third_party_batch_norm_per_device_is_reported(ours, two_replicas, caplog, monkeypatch):
    said = "each device uses the statistics of its own images"
    monkeypatch.setattr(third_party.hub, "load", functools.cache(third_party.hub.load))
    with two_replicas.scope():
        maps_of(f"graph:{ours[0]}", update_statistics=False)
        assert said not in caplog.text
        maps_of(f"graph:{ours[0]}")
    assert f"--encoder=graph:{ours[0]}: if it has batch norm" in caplog.text
    assert said in caplog.text


@pytest.mark.usefixtures("loaded_once")
def test_our_module_computes_in_the_precision_asked_for(ours):
    path, network = ours
    exact, rough = maps_of(path), maps_of(path, precision="bfloat16")
    wanted = network.endpoints(IMAGES)["feature_map"]
    np.testing.assert_array_equal(exact(IMAGES), wanted)
    assert rough.encoder.dtype_policy.name == "mixed_bfloat16"
    assert {variable.dtype for variable in rough.variables} == {tf.float32}
    difference = np.abs(rough(IMAGES) - wanted).max() / np.abs(wanted).max()
    assert 1e-5 < difference < 0.05
    assert rough.identity == maps_of(f"graph:{path}").identity


def test_pixels_and_random_are_new_networks():
    pixels, random = maps_of("pixels", "stack1"), maps_of("random", seed=3)
    assert pixels(IMAGES).shape == random(IMAGES).shape == [2, 8, 8, 16]
    names = [{v.name.split("/")[-1] for v in maps.variables} for maps in (pixels, random)]
    assert any("moving_mean" in name for name in names[0])
    assert not any("moving_mean" in name for name in names[1])
    assert (pixels.identity.trained_by, pixels.identity.architecture) == ("pixels", "small")
    assert random.identity == Identity("untrained", "small", "", 3, 648)


@pytest.mark.usefixtures("loaded_once")
def test_what_cannot_be_is_said_by_flag(ours, tmp_path):
    with pytest.raises(
        ConfigError, match=r"--endpoint=stack9: --encoder=\S+ has .* feature_map, features, stack1"
    ):
        maps_of(ours[0], "stack9")
    for endpoint in ("stack9", "features"):
        with pytest.raises(
            ConfigError,
            match=f"--e={endpoint}: --encoder=.* has the feature maps feature_map, stack1",
        ):
            maps_of(ours[0], endpoint, flag="e", vectors=False)
    write_theirs(tmp_path / "theirs", means)
    with pytest.raises(ConfigError, match="is not a module of cpc-tf"):
        maps_of(tmp_path / "theirs", "latents")
    write_theirs(tmp_path / "grey", lambda images: images, [None, 28, 28, 1])
    with pytest.raises(ConfigError, match="takes images of 28 x 28 px, not of 32"):
        maps_of(tmp_path / "grey")


# Checkpoints.


@pytest.mark.parametrize("kind", ["", "graph:"])
def test_checkpoints_keep_the_names_of_earlier_versions(ours, tmp_path, kind):
    """Few labels: `encoder/layer/encoder` is a network, `encoder/layer` a graph; a detector:
    `backbone/encoder`.
    """
    loaded, path = maps_of(kind + ours[0]), str(tmp_path / "both")
    tf.train.Checkpoint(encoder=loaded.saved(), backbone=loaded).write(path)
    names = {key for key, _ in tf.train.list_variables(path) if "OBJECT_GRAPH" not in key}
    assert len(names) == len(loaded.variables)
    before = "encoder/layer/" if kind else "encoder/layer/encoder/"
    assert all(key.startswith((before, "backbone/encoder/")) for key in names)
    # Compiling must not add nodes that an old checkpoint does not have.
    loaded.encode(tf.zeros([1, 32, 32, 3], tf.uint8))
    tf.train.Checkpoint(encoder=loaded.saved(), backbone=loaded).read(
        path
    ).assert_existing_objects_matched()
