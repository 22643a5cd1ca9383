"""The check itself: passes what is right for every kind of encoder, and finds what is wrong."""

import os

import pytest
import tensorflow as tf

from cpc_tf.encoders.config import EncoderConfig, make_encoder
from cpc_tf.export import module, verify
from cpc_tf.export.check_module import Blocker
from tests.export.conftest import GEOMETRY, IMAGES


def _encoder(**settings):
    encoder = make_encoder(EncoderConfig(encoder="small", **settings))
    encoder(IMAGES)
    return encoder


@pytest.fixture
def encoder():
    return _encoder(output_stack=1)


@pytest.mark.parametrize(
    "settings",
    [
        {"norm": "layer", "block_order": "post", "output_stack": 2},
        {"norm": "channel", "output_stack": 2},
        {"norm": "batch", "block_order": "post", "output_stack": 2},
        {"norm": "none"},
    ],
    ids=str,
)
def test_passes_every_kind(settings, tmp_path):
    encoder = _encoder(**settings)
    module.save(module.HubEncoder(encoder, GEOMETRY), str(tmp_path))
    measured = verify.verify("encoder", str(tmp_path), verify.encoder_reference(encoder, GEOMETRY))
    assert measured["difference"] < 1e-5
    assert measured["variables"] == len(encoder.trainable_variables)


def test_finds_a_flipped_byte(encoder, tmp_path):
    module.save(module.HubEncoder(encoder, GEOMETRY), str(tmp_path))
    with open(os.path.join(tmp_path, "variables", "variables.data-00000-of-00001"), "r+b") as file:
        file.seek(1000)
        byte = file.read(1)[0]
        file.seek(1000)
        file.write(bytes([byte ^ 255]))
    with pytest.raises(verify.NotVerified):
        verify.verify("encoder", str(tmp_path), verify.encoder_reference(encoder, GEOMETRY))


def test_finds_missing_gradients(encoder, tmp_path, monkeypatch):
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
    monkeypatch.setattr(tf.saved_model, "SaveOptions", lambda **arguments: options)
    module.save(module.HubEncoder(encoder, GEOMETRY), str(tmp_path))
    with pytest.raises(verify.NotVerified, match="[Gg]radient"):
        verify.verify("encoder", str(tmp_path), verify.encoder_reference(encoder, GEOMETRY))


def test_finds_nothing_to_train(encoder, tmp_path):
    hub_encoder = module.HubEncoder(encoder, GEOMETRY)
    hub_encoder.weights, hub_encoder.trainable_variables = hub_encoder.trainable_variables, []
    module.save(hub_encoder, str(tmp_path))
    with pytest.raises(verify.NotVerified, match="0 variables can be trained"):
        verify.verify("encoder", str(tmp_path), verify.encoder_reference(encoder, GEOMETRY))


def test_finds_weights_that_are_not_numbers(encoder, tmp_path):
    encoder.trainable_variables[0].assign(encoder.trainable_variables[0] * float("nan"))
    module.save(module.HubEncoder(encoder, GEOMETRY), str(tmp_path))
    with pytest.raises(verify.NotVerified, match="is not finite in the checkpoint"):
        verify.verify("encoder", str(tmp_path), verify.encoder_reference(encoder, GEOMETRY))


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("import os; os.kill(os.getpid(), 9)", "killed by signal 9"),
        ("raise SystemExit('two\\nlines')", "^lines$"),
        ("raise SystemExit(1)", "without a message"),
    ],
)
def test_says_why_the_process_ended(encoder, tmp_path, monkeypatch, script, message):
    (tmp_path / "script.py").write_text(script)
    monkeypatch.setattr(verify, "SCRIPT", str(tmp_path / "script.py"))
    with pytest.raises(verify.NotVerified, match=message):
        verify.verify("encoder", "module", verify.encoder_reference(encoder, GEOMETRY))


def test_the_script_cannot_import_us():
    for name in ("cpc_tf", "cpc_tf.encoders.norm", "cpc_tf.export.module"):
        with pytest.raises(ImportError):
            Blocker().find_spec(name)
    assert Blocker().find_spec("cpc_tfx") is None
