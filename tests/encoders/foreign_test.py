"""Modules that are damaged, or that others made for something else: one line each."""

import re
import shutil

import pytest
import tensorflow as tf

from cpc_tf.encoders import third_party
from cpc_tf.encoders.load import load_feature_maps, load_patch_encoder
from cpc_tf.settings import ConfigError
from tests import modules
from tests.encoders.conftest import write_theirs

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_block")]


def maps(path):
    return load_feature_maps(str(path), "feature_map", 16, backbone="tiny")


def latents(path):
    return load_patch_encoder(str(path), patch_size=8)


def refusal(function, *arguments):
    """The message of the refusal, which is one line."""
    with pytest.raises(ConfigError, match="--encoder=") as caught:
        function(*arguments)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) <= 1000
    return str(caught.value)


@pytest.mark.usefixtures("loaded_once")
@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda x: (x, x), "a tuple|outputs named"),
        (lambda x: tf.cast(x, tf.int32), "int32"),
        (lambda x: tf.reduce_mean(x), r"\(\)"),
        (lambda x: x[:, None], r"\(None, 1, "),
        (lambda x: {"other": x}, "other"),
        (lambda x: {"default": tf.cast(x, tf.int32), "feature_map": tf.cast(x, tf.int32)}, "int32"),
        (lambda x: {"default": (x, x), "feature_map": {"a": x}}, "a tuple|a dict"),
        (lambda x: tf.strings.as_string(x), "string"),
        (lambda x: x[:1], r"makes \(1, "),
        (lambda x: x[:, :0], "makes .*0|not finite"),
        (lambda x: x / 0, "not finite"),
        (lambda x: tf.io.parse_tensor(tf.io.serialize_tensor(x), tf.float32), "unknown"),
        (lambda x: tf.reshape(x, [7, 7, 7, 3]), "does not take images .*evenly divisible"),
        (lambda x: tf.ensure_shape(x, [7, None, None, 3]), "cannot be run on images"),
        (None, "cannot be called with images"),
    ],
)
def test_modules_that_give_something_else(tmp_path, call, said):
    if call:
        write_theirs(tmp_path / "theirs", call)
    else:
        tf.saved_model.save(tf.Module(), str(tmp_path / "theirs"))
    for load in (maps, latents):
        assert re.search(said, refusal(load, tmp_path / "theirs"))


def test_whatever_loading_raises_is_one_line(monkeypatch):
    for error in (
        IndexError("Read less\nbytes"),
        KeyError("x"),
        AttributeError(),
        UnicodeDecodeError("a", b"", 0, 1, "x"),
    ):

        def load(handle, error=error):
            raise error

        monkeypatch.setattr(third_party.hub, "load", load)
        for function in (maps, latents):
            assert "cannot be loaded as a TF-Hub module (" in refusal(function, "/a/module")


def test_damaged_files_of_our_module(ours, tmp_path):
    """A card that is damaged, too, is found before the training, not when its result is written."""
    for name in ("saved_model.pb", "variables/variables.index", "variables/variables.data-00000-of-00001"):
        copied = shutil.copytree(ours[0], tmp_path / name.replace("/", "_"))
        (copied / name).write_bytes((copied / name).read_bytes()[:100])
        refusal(latents, f"graph:{copied}")
        if name != "saved_model.pb":  # the network needs only the values
            refusal(maps, copied)
    (copied / "encoder.json").write_text((copied / "encoder.json").read_text()[:50])
    for load in (maps, latents):
        assert "its encoder.json is damaged" in refusal(load, copied)


def test_a_module_that_xla_cannot_compile_is_found_at_loading(tmp_path, caplog, two_replicas):
    write_theirs(tmp_path / "fine", lambda x: tf.nn.avg_pool2d(x, 2, 2, "SAME"))
    tf.saved_model.save(modules.NotForXla(), str(tmp_path / "not"))
    with two_replicas.scope():
        for name, wanted in (("fine", True), ("not", False)):
            assert load_feature_maps(str(tmp_path / name), "", 16, backbone="tiny", xla=True).compiles is wanted
            assert load_patch_encoder(str(tmp_path / name), patch_size=16, xla=True).compiles is wanted
    messages = [record.getMessage() for record in caplog.records if "--xla" in record.getMessage()]
    begins = f"--xla: not used, since XLA cannot compile --encoder={tmp_path}/not (it has no AsString"
    assert [message.startswith(begins) for message in messages] == [True, True]
