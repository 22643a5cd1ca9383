"""What of a stranger's SavedModel may be loaded, and from where."""

import hashlib

import numpy as np
import pytest
import tensorflow as tf
from absl import logging

from cpc_tf.core.settings import ConfigError
from cpc_tf.encoders import saved_model
from cpc_tf.encoders.load import load_patch_encoder
from tests.binaries import ROOT


def write(path, act=lambda: tf.no_op()):
    """A module that maps images to their mean colours, after what `act` does."""
    module = tf.Module()

    def call(images):
        with tf.control_dependencies([act()]):
            return tf.reduce_mean(images, [1, 2])

    module.__call__ = tf.function(call, input_signature=[tf.TensorSpec([None, None, None, 3])])
    tf.saved_model.save(module, str(path))
    return str(path)


def test_graph_with_file_access_is_refused_before_running(tmp_path, monkeypatch, caplog):
    acting = write(
        tmp_path / "acting",
        lambda: tf.io.write_file(f"{tmp_path}/written", tf.io.read_file("/etc/hostname")),
    )
    printing = write(
        tmp_path / "printing", lambda: tf.print("x", output_stream=f"file://{tmp_path}/printed")
    )
    for path, operations in {acting: "ReadFile, WriteFile", printing: "PrintV2"}.items():
        with pytest.raises(
            ConfigError,
            match=rf"can read or write files or run other code \({operations}\), which no",
        ):
            load_patch_encoder(f"0..1:{path}")
    assert not (tmp_path / "written").exists()
    monkeypatch.setenv(saved_model.TRUST, "1")
    with caplog.at_level(logging.WARNING):
        load_patch_encoder(f"0..1:{acting}")
    assert (tmp_path / "written").exists()
    assert "(ReadFile, WriteFile); CPC_TF_TRUST=1 allows it" in caplog.text


def test_lookup_tables_and_the_released_module_pass(tmp_path):
    (tmp_path / "names").write_text("cat\ndog\n")
    module = tf.Module()
    lines = (
        tf.int64,
        tf.lookup.TextFileIndex.LINE_NUMBER,
        tf.string,
        tf.lookup.TextFileIndex.WHOLE_LINE,
    )
    module.table = tf.lookup.StaticHashTable(
        tf.lookup.TextFileInitializer(str(tmp_path / "names"), *lines), ""
    )
    module.__call__ = tf.function(
        module.table.lookup, input_signature=[tf.TensorSpec([None], tf.int64)]
    )
    tf.saved_model.save(module, str(tmp_path / "table"))
    for directory in (tmp_path / "table", ROOT / "modules/imagenette_128px"):
        saved_model.check(str(directory), "--encoder")


def test_downloaded_modules_are_cached_in_a_private_folder(tmp_path, monkeypatch):
    handle = "https://tfhub.dev/google/nice/1"
    monkeypatch.setenv("CPC_TF_CACHE", str(tmp_path))
    monkeypatch.setenv("TFHUB_CACHE_DIR", "")
    monkeypatch.delenv("TFHUB_CACHE_DIR")  # and will be absent again
    write(tmp_path / "tfhub" / hashlib.sha1(handle.encode()).hexdigest())
    encoder = load_patch_encoder(handle)
    np.testing.assert_allclose(encoder.vectors(tf.ones([1, 8, 8, 3])), [[1, 1, 1]])
