"""The check itself: passes what is right for every kind of encoder, and finds what is wrong."""

import os
import shutil

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.encoders.config import EncoderConfig, make_encoder
from cpc_tf.export import check_module, module, verify
from tests.export.conftest import GEOMETRY, IMAGES

pytestmark = pytest.mark.slow


def _saved(path, **settings):
    """(an encoder with its module in a directory, what the module should compute)."""
    encoder = make_encoder(EncoderConfig(encoder="small", **settings))
    encoder(IMAGES)
    module.save(module.HubEncoder(encoder, GEOMETRY), str(path))
    return encoder, verify.encoder_reference(encoder, GEOMETRY)


@pytest.fixture(scope="module")
def right(tmp_path_factory):
    """(directory of a module, its encoder, what it should compute)."""
    path = tmp_path_factory.mktemp("module")
    return str(path), *_saved(path, output_stack=1)


@pytest.mark.parametrize(
    "settings",
    [{"norm": "batch", "block_order": "post"}, {"norm": "none"}],
    ids=str,
)
def test_passes_every_kind(settings, tmp_path, in_process):
    encoder, reference = _saved(tmp_path, **settings)
    measured = check_module.check_encoder(str(tmp_path), reference)
    assert measured["difference"] < 1e-5
    assert measured["variables"] == len(encoder.trainable_variables)


def test_passes_another_kind_in_a_fresh_process(tmp_path):
    encoder, reference = _saved(tmp_path, norm="channel")
    measured = verify.verify("encoder", str(tmp_path), reference)
    assert measured["difference"] < 1e-5
    assert measured["variables"] == len(encoder.trainable_variables)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("whole1/features", lambda x: x + 0.01, "the output for 1x29x31x3 differs from the checkpoint's"),
        ("whole0/stack1", lambda x: x[:1], "endpoint stack1 for 2x16x16x3 has shape"),
        ("whole2/features", lambda x: x * np.nan, "is not finite in the checkpoint"),
        ("patched/latents", lambda x: x[:, ::-1], "the patched output differs"),
        ("gradient/norms", lambda x: x[1:], "12 variables can be trained, not 11"),
        ("gradient/norms", lambda x: x * 1.01, "the gradient of .* has norm"),
    ],
)
def test_finds_what_is_different(right, in_process, name, change, message):
    path, _, reference = right
    with pytest.raises(check_module.NotTheSame, match=message):
        check_module.check_encoder(path, {**reference, name: change(reference[name])})


def test_finds_a_flipped_byte(right, tmp_path, in_process):
    shutil.copytree(right[0], tmp_path / "hub")
    with open(os.path.join(tmp_path, "hub", "variables", "variables.data-00000-of-00001"), "r+b") as file:
        file.seek(100)
        byte = file.read(1)[0]
        file.seek(100)
        file.write(bytes([byte ^ 255]))
    with pytest.raises((check_module.NotTheSame, tf.errors.OpError)):
        check_module.check_encoder(str(tmp_path / "hub"), right[2])


def test_finds_missing_gradients(right, tmp_path, monkeypatch):
    """In a fresh process: here the gradients are registered."""
    _, encoder, reference = right
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
    monkeypatch.setattr(tf.saved_model, "SaveOptions", lambda **arguments: options)
    module.save(module.HubEncoder(encoder, GEOMETRY), str(tmp_path))
    with pytest.raises(verify.NotVerified, match="[Gg]radient"):
        verify.verify("encoder", str(tmp_path), reference)


def test_finds_nothing_to_train(right, tmp_path, in_process):
    _, encoder, reference = right
    hub_encoder = module.HubEncoder(encoder, GEOMETRY)
    hub_encoder.weights, hub_encoder.trainable_variables = hub_encoder.trainable_variables, []
    module.save(hub_encoder, str(tmp_path))
    with pytest.raises(check_module.NotTheSame, match="0 variables can be trained"):
        check_module.check_encoder(str(tmp_path), reference)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("import os; os.kill(os.getpid(), 9)", "killed by signal 9"),
        ("raise SystemExit('two\\nlines')", "^lines$"),
        ("raise SystemExit(1)", "without a message"),
    ],
)
def test_says_why_the_process_ended(tmp_path, monkeypatch, script, message):
    (tmp_path / "script.py").write_text(script)
    monkeypatch.setattr(verify, "SCRIPT", str(tmp_path / "script.py"))
    with pytest.raises(verify.NotVerified, match=message):
        verify.verify("encoder", "module", {})


def test_the_script_cannot_import_us():
    for name in ("cpc_tf", "cpc_tf.encoders.norm", "cpc_tf.export.module"):
        with pytest.raises(ImportError):
            check_module.Blocker().find_spec(name)
    assert check_module.Blocker().find_spec("cpc_tfx") is None
