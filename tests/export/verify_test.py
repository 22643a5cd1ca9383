"""The check itself: passes what is right, and finds what is wrong."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_hub as hub

from cpc_tf.encoders.config import EncoderConfig
from cpc_tf.encoders.network import make_encoder
from cpc_tf.export import check_module, module, verify
from tests import modules
from tests.export.conftest import GEOMETRY, IMAGES


@pytest.fixture(scope="module")
def reference(ours):
    """What `ours` should compute."""
    before = [variable.numpy() for variable in ours.encoder.variables]
    found = verify.encoder_reference(ours.encoder, modules.GEOMETRY)
    for variable, value in zip(ours.encoder.variables, before):  # its statistics were moved
        variable.assign(value)
    return found


@pytest.fixture(scope="module")
def layer(ours):
    return hub.KerasLayer(ours.path)


@pytest.mark.slow
def test_passes_batch_norm(ours, reference, in_process):
    """run_test.py has layer norm, in a fresh process."""
    measured = check_module.check_encoder(ours.path, reference)
    assert measured["difference"] < 1e-5
    assert measured["variables"] == len(ours.encoder.trainable_variables)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("whole1/features", lambda x: x + 0.01, "the output for 1x21x31x3 differs from the checkpoint's"),
        ("whole0/stack1", lambda x: x[:1], "endpoint stack1 for 2x8x8x3 has shape"),
        ("whole0/features", lambda x: x * np.nan, "is not finite in the checkpoint"),
        ("patched/latents", lambda x: x[:, ::-1], "the patched output differs"),
    ],
)
def test_finds_what_is_different(layer, reference, in_process, name, change, message):
    with pytest.raises(check_module.NotTheSame, match=message):
        check_module.check_values(layer, {**reference, name: change(reference[name])})


@pytest.mark.slow
def test_finds_other_gradients(ours, reference, in_process):
    layer, norms = hub.KerasLayer(ours.path), reference["gradient/norms"]  # its own: training moves statistics
    for other, message in ((norms[1:], f"{len(norms)} variables can be trained, not"), (norms * 1.01, "has norm")):
        with pytest.raises(check_module.NotTheSame, match=message):
            check_module.check_training(layer, {**reference, "gradient/norms": other})


@pytest.mark.slow
def test_finds_missing_gradients(tmp_path, monkeypatch, forked):
    """In another process: here the gradients of layer norm are registered."""
    encoder = make_encoder(EncoderConfig(encoder="small", output_stack=1))
    encoder(IMAGES)
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
    monkeypatch.setattr(tf.saved_model, "SaveOptions", lambda **arguments: options)
    module.save(module.HubEncoder(encoder, GEOMETRY), str(tmp_path))
    with pytest.raises(verify.NotVerified, match="[Gg]radient"):
        verify.verify("encoder", str(tmp_path), verify.encoder_reference(encoder, GEOMETRY))


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("import os; os.kill(os.getpid(), 9)", "killed by signal 9"),
        ("raise SystemExit('two\\nlines')", "^lines$"),
        ("raise SystemExit(1)", "without a message"),
    ],
)
def test_says_why_the_process_ended(tmp_path, script, message):
    (tmp_path / "script.py").write_text(script)
    with pytest.raises(verify.NotVerified, match=message):
        verify.run_script(str(tmp_path / "script.py"))


def test_the_script_cannot_import_us():
    for name in ("cpc_tf", "cpc_tf.encoders.norm", "cpc_tf.export.module"):
        with pytest.raises(ImportError):
            check_module.Blocker().find_spec(name)
    assert check_module.Blocker().find_spec("cpc_tfx") is None
