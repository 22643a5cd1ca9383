"""Pre-training that begins with a module: its values, what is refused, and what is said of it
afterwards.
"""

import dataclasses
import json
import pathlib
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_hub as hub

from cpc_tf.core.settings import ConfigError, replace
from cpc_tf.encoders.config import EncoderConfig
from cpc_tf.encoders.network import make_encoder, restore_kernel_norms
from cpc_tf.export.run import ExportConfig, export
from cpc_tf.pretrain import run
from cpc_tf.pretrain.trainee import Pretraining, initialize
from tests import samples
from tests.conftest import make_tiny
from tests.modules import PRETRAINED, write_card, write_module
from tests.pretrain.tiny import TINY

pytestmark = pytest.mark.slow
MODULE = EncoderConfig(encoder="small")


@pytest.fixture(scope="module", autouse=True)
def _tiny_encoder():
    with pytest.MonkeyPatch.context() as patch:
        make_tiny(patch)
        yield


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    """(its directory, what an encoder begins as: its network, kernels before a norm at the norm of
    new ones).
    """
    path = tmp_path_factory.mktemp("module") / "hub"
    network = write_module(path, MODULE, growth=3.0)
    restore_kernel_norms(network)
    return str(path), network


def test_replicas_and_averages_start_from_the_initial_module(module, two_replicas):
    """Of one that was not recomputed, too: that makes no other network."""
    path, network = module
    images = tf.random.stateless_uniform([2, 16, 16, 3], [0, 0])
    np.testing.assert_allclose(network(images), hub.load(path)(images), atol=1e-4)
    training = Pretraining(
        replace(TINY, initial_encoder=path, seed=7, recompute=True), two_replicas, 10
    )
    averages = dict(
        zip((v.ref() for v in training.model.trainable_variables), training.average.averages)
    )
    assert len(training.model.encoder.variables) == len(network.variables)
    for variable, wanted in zip(training.model.encoder.variables, network.variables):
        begun = [variable, *([averages[variable.ref()]] if variable.trainable else [])]
        for value in (value for v in begun for value in two_replicas.experimental_local_results(v)):
            np.testing.assert_array_equal(value, wanted)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"encoder": "tiny"}, "it has --encoder=small, and this run has --encoder=tiny"),
        ({"norm": "channel"}, "it has --norm=layer, and this run has --norm=channel"),
    ],
)
def test_another_network_is_refused(module, changed, said):
    with pytest.raises(
        ConfigError, match=f"^--initial_encoder={re.escape(module[0])}: {said}; use the same$"
    ):
        initialize(make_encoder(replace(MODULE, **changed)), module[0])


def test_what_is_no_encoder_without_labels_is_refused(tmp_path):
    with pytest.raises(
        ConfigError,
        match=f"^--initial_encoder={tmp_path}/none: there is no such directory; released",
    ):
        initialize(make_encoder(MODULE), f"{tmp_path}/none")
    labels = dataclasses.replace(PRETRAINED, objective=None, num_train_labels=3, label_fraction=0.1)
    write_card(tmp_path, MODULE, training=labels)
    with pytest.raises(ConfigError, match=f"--initial_encoder={tmp_path}: it learned from labels"):
        initialize(make_encoder(MODULE), str(tmp_path))


@pytest.fixture(scope="module")
def whole(module, tmp_path_factory):
    """(settings, result) of a run on images without labels, which cannot be probed."""
    room = tmp_path_factory.mktemp("whole")
    shutil.copytree(module[0], room / "hub")
    samples.write_pictures(room, {"pictures": 4}, names=["birds"], side=24)
    data = {"dataset": f"folder:{room}/pictures/birds", "split": "train", "probe_every": 1}
    config = replace(TINY, initial_encoder=f"{room}/hub", workdir=f"{room}/run", **data)
    return config, run.pretrain(config)


def test_the_exporter_says_which_module_it_misses(whole, tmp_path):
    config, _ = whole
    shutil.copytree(config.workdir, tmp_path / "run")
    moved = pathlib.Path(config.initial_encoder)
    moved.rename(moved.with_name("away"))
    try:
        with pytest.raises(ConfigError) as error:
            export(ExportConfig(workdir=f"{tmp_path}/run", output=f"{tmp_path}/exported"))
    finally:
        moved.with_name("away").rename(moved)
    needed = f"--initial_encoder={moved}: there is no such directory"
    assert str(error.value).startswith(
        f"--workdir={tmp_path}/run: the module that this run began with is needed: {needed}"
    )
    assert not (tmp_path / "exported").exists()


def test_result_and_exported_module_name_the_initial_encoder(whole, tmp_path, monkeypatch):
    config, result = whole
    assert result["identity"]["began_with"] == "hub"
    assert "knn" not in result
    # The check in a process of its own is that of tests/export.
    monkeypatch.setattr("cpc_tf.export.run.verify", lambda *_: {"difference": 0, "variables": 0})
    export(ExportConfig(workdir=config.workdir, output=f"{tmp_path}/exported"))
    card = json.loads((tmp_path / "exported/encoder.json").read_text())
    assert (card["dataset"], card["step"]) == ("folder:birds", 2)
    assert card["began_as"] == {**PRETRAINED.to_json(), "module": "hub"}
    text = (tmp_path / "exported/README.md").read_text()
    assert (
        "| began with | `hub`: pre-trained on `photos` without labels (run `pretrain`, step 7) |"
        in text
    )
    assert "(`photos`, `folder:birds`) may extend" in text
