"""The paper in one file: what examples/cpc.py computes equals what the package computes."""

import dataclasses
import importlib.util
import re
import sys

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_hub as hub

from cpc_tf.data.views import grid_of_patches
from cpc_tf.encoders import networks
from cpc_tf.encoders.config import EncoderConfig
from cpc_tf.encoders.network import encode_grid, make_encoder
from cpc_tf.objectives.cpc import CPC, CPCConfig
from tests.binaries import ROOT

spec = importlib.util.spec_from_file_location("cpc_example", ROOT / "examples/cpc.py")
example = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = example  # tf.function reads the source
spec.loader.exec_module(example)

STACKS = ((2, 4, 16), (1, 8, 32))
CONFIG = dataclasses.replace(
    example.PAPER,
    resize=40,
    crop=32,
    patch=12,
    stride=5,
    stacks=STACKS,
    context_dim=8,
    target_dim=6,
    steps_to_ignore=1,
    steps_to_predict=3,
    batch_size=3,
)


@pytest.fixture(scope="module")
def image():
    return np.random.default_rng(0).integers(0, 256, [CONFIG.crop, CONFIG.crop, 3], np.uint8)


@pytest.fixture(scope="module")
def patches():
    shape = [CONFIG.batch_size, CONFIG.grid, CONFIG.grid, CONFIG.patch, CONFIG.patch, 3]
    return tf.constant(np.random.default_rng(1).random(shape, np.float32))


@pytest.fixture(scope="module")
def models(patches):
    """The example's model and the package's, with the same weights."""
    example.keras.utils.set_random_seed(0)
    stacks = [networks.Stack(*stack, 2 if i else 1) for i, stack in enumerate(STACKS)]
    architecture = networks.Architecture(tuple(stacks))
    settings = CPCConfig(context_dim=8, target_dim=6, steps_to_ignore=1, steps_to_predict=3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(networks.ARCHITECTURES, "small", architecture)
        theirs = CPC(make_encoder(EncoderConfig(encoder="small")), settings)
        theirs(patches)
    ours = example.CPCv2(CONFIG)
    ours(patches)
    random = np.random.default_rng(2)
    ours.encoder.set_weights(
        [w + 0.1 * random.normal(size=w.shape) for w in ours.encoder.get_weights()]
    )
    theirs.encoder.set_weights(ours.encoder.get_weights())
    for name, direction in theirs.heads.items():
        direction.set_weights(ours.directions[name].get_weights())
    return ours, theirs


def test_it_needs_nothing_of_the_package():
    assert "cpc_tf" not in (ROOT / "examples/cpc.py").read_text()


def test_the_patches_are_those_of_the_package(image):
    grid = grid_of_patches(image, CONFIG.patch, CONFIG.stride)  # [H, W, P, P, 3]
    expected = np.reshape(grid, [-1, CONFIG.patch, CONFIG.patch, 3])
    np.testing.assert_array_equal(example.divide(image, CONFIG), expected)


def test_the_paper_has_a_6x6_grid_and_resnet161():
    assert example.PAPER.grid == 6
    architecture = networks.ARCHITECTURES["resnet161"]
    assert example.PAPER.stacks == tuple(
        (s.blocks, s.bottleneck, s.width) for s in architecture.stacks
    )
    assert CPCConfig() == CPCConfig(
        target_dim=example.PAPER.target_dim,
        emb_scale=example.PAPER.emb_scale,
        steps_to_ignore=example.PAPER.steps_to_ignore,
        steps_to_predict=example.PAPER.steps_to_predict,
        context_dim=example.PAPER.context_dim,
    )


def test_loss_and_gradients_equal_the_packages(models, patches):
    ours, theirs = models
    assert len(ours.trainable_variables) == len(theirs.trainable_variables)
    latents = ours.encode(patches)
    _equal(latents, encode_grid(theirs.encoder, patches))
    for name, direction in theirs.heads.items():
        _equal(ours.directions[name].pixelCNN(latents), direction.context(latents))

    with tf.GradientTape(persistent=True) as tape:
        our_loss = ours(patches)
        their_loss = theirs(patches).loss
    _equal(our_loss, their_loss)
    pairs = [(ours.encoder, theirs.encoder)]
    pairs += [(ours.directions[name], theirs.heads[name]) for name in theirs.heads]
    for our_part, their_part in pairs:
        our_gradient = tape.gradient(our_loss, our_part.trainable_variables)
        their_gradient = tape.gradient(their_loss, their_part.trainable_variables)
        # Each is up to 1.5e-6 from the gradient in float64: float32 rounds by so much.
        _equal(_as_vector(our_gradient), _as_vector(their_gradient), tolerance=2e-6)


def _as_vector(gradient):
    return np.concatenate([np.ravel(part) for part in gradient])


def _equal(ours, theirs, tolerance=1e-6):
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert ours.shape == theirs.shape
    assert np.linalg.norm(ours - theirs) < tolerance * np.linalg.norm(theirs)


def test_transformations_keep_shape_and_range(patches):
    patch = patches[0, 0, 0]  # [P, P, 3]
    more = [example.deform_and_shear, example.change_histogram, example.change_color]
    for transformation in [*example.AUTOAUGMENT, *more, example.to_grey]:
        transformed = transformation(patch)
        assert transformed.shape == patch.shape
        assert 0 <= np.min(transformed) <= np.max(transformed) <= 1


@pytest.mark.slow
def test_each_patch_is_augmented_by_itself(patches):
    patch = patches[0, 0, 0]
    alike = tf.data.Dataset.from_tensors(patch).repeat(4).map(example.augment)
    augmented = np.stack(list(alike))  # [4, P, P, 3]
    assert augmented.shape == (4, *patch.shape)
    assert len(np.unique(augmented, axis=0)) == 4
    assert 0 <= augmented.min() <= augmented.max() <= 1


@pytest.mark.slow
def test_it_learns_and_exports(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(example, "SMALL", dataclasses.replace(CONFIG, learning_rate=4e-3))
    monkeypatch.setattr(example, "augment", lambda patch: patch)  # from which so few steps learn
    example.main(["--steps=100", f"--export={tmp_path}/hub"])
    printed = capsys.readouterr().out
    [guessing] = map(float, re.findall(r"guessing: ([\d.]+)", printed))
    losses = [float(loss) for loss in re.findall(r"step \d+: loss ([\d.]+)", printed)]
    assert losses[0] == pytest.approx(guessing, rel=0.03)
    assert min(losses) < 0.95 * guessing
    images = np.random.default_rng(0).random([2, 40, 56, 3], np.float32)
    encoder = tf.saved_model.load(f"{tmp_path}/hub")
    layer = hub.KerasLayer(f"{tmp_path}/hub", trainable=True)
    assert layer(images).shape == [2, CONFIG.stacks[-1][-1]]
    assert len(layer.trainable_variables) == len(encoder.trainable_variables) > 0
    np.testing.assert_array_equal(layer(images), encoder(images))
