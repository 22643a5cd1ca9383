"""One compiled, deterministic step of the encoder of every preset, as a TPU or a GPU runs it, at small size."""

import dataclasses
import pathlib

import pytest
import tensorflow as tf

from cpc_tf import cli
from cpc_tf.encoders.config import EncoderConfig, make_encoder
from cpc_tf.encoders.networks import NETWORKS, resnet
from cpc_tf.tasks import TASKS

ROOT = pathlib.Path(__file__).parent.parent


def _encoder(config):
    """What a preset's own flags build: (settings of a network, precision); None where it only loads a module."""
    if hasattr(config, "encoder"):
        return config.encoder, config.numerics.precision
    chosen = getattr(config, "classifier", None) or getattr(getattr(config, "detector", None), "backbone", None)
    if chosen is None:
        return None
    from_labels = NETWORKS[chosen.backbone].FROM_LABELS if hasattr(config, "classifier") else {}
    return EncoderConfig(encoder=chosen.backbone, **from_labels), config.numerics.precision


def _encoders():
    """{(settings, precision): the presets that have them}."""
    found = {}
    for path in sorted(ROOT.glob("flags/*/*.flags")):
        task = next(task for task in TASKS.values() if path.name.split(".")[0].split("_")[0] == task.name)
        encoder = _encoder(cli.parse(task.config, [f"--flagfile={path.relative_to(ROOT)}"]))
        if encoder:
            found.setdefault(encoder, []).append(f"{path.parent.name}/{path.stem}")
    return found


@pytest.fixture(scope="module", autouse=True)
def in_root():
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)  # nested flag files are found from there
        yield


def _small(architecture):
    """The stem, and one block of each stride."""
    stacks = (resnet.Stack(1, 4, 8, 1), resnet.Stack(1, 4, 16, 2))
    return dataclasses.replace(architecture, stacks=stacks, stem_width=8)


def test_a_step_of_every_presets_encoder_compiles(monkeypatch):
    tf.config.experimental.enable_op_determinism()
    for name, architecture in resnet.ARCHITECTURES.items():
        monkeypatch.setitem(resnet.ARCHITECTURES, name, _small(architecture))
    encoders = _encoders()
    assert {preset for presets in encoders.values() for preset in presets} >= {
        "imagenet/pretrain_resnet161",
        "voc/detect",
    }
    images = tf.random.stateless_uniform([2, 48, 48, 3], [1, 2])
    for (settings, precision), presets in encoders.items():
        encoder = make_encoder(settings, precision)
        encoder(images)

        def step(images, encoder=encoder):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(encoder(images, training=True)))
            return tape.gradient(loss, encoder.trainable_variables)

        gradients = tf.function(step, autograph=False, jit_compile=True)(images)
        assert all(bool(tf.reduce_all(tf.math.is_finite(gradient))) for gradient in gradients), presets
