"""Pre-training that begins with a module: its values, what is refused, and what is said of it afterwards."""

import dataclasses
import json
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_hub as hub

from cpc_tf.encoders.config import EncoderConfig
from cpc_tf.encoders.network import restore_kernel_norms
from cpc_tf.export.run import ExportConfig, export
from cpc_tf.pretrain import run
from cpc_tf.pretrain.trainee import Pretraining
from cpc_tf.settings import ConfigError, replace
from cpc_tf.training.checkpoint import Checkpoints
from tests.modules import PRETRAINED, write_card, write_module
from tests.pretrain import tiny

pytestmark = pytest.mark.slow

TINY = replace(tiny.TINY, encoder="tiny")


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    """(its directory, what an encoder begins as: its network, kernels before a norm at the norm of new ones)."""
    path = tmp_path_factory.mktemp("module") / "hub"
    network = write_module(path, EncoderConfig(encoder="tiny"), growth=3.0)
    restore_kernel_norms(network)
    return str(path), network


@pytest.fixture(scope="module")
def whole(module, tmp_path_factory):
    """(settings, result, and what would be left, had it been killed after its first step) of a run."""
    room, save = tmp_path_factory.mktemp("whole"), Checkpoints.save
    shutil.copytree(module[0], room / "hub")
    began = {"initial_encoder": f"{room}/hub", "data_dir": f"{room}/data", "checkpoint_every": 1}
    config = replace(TINY, **began, workdir=f"{room}/run")

    def saving(checkpoints, *arguments, **options):
        save(checkpoints, *arguments, **options)
        if not (room / "killed").exists():
            shutil.copytree(room / "run", room / "killed")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Checkpoints, "save", saving)
        return config, run.pretrain(config), room / "killed"


def test_the_encoder_gives_the_modules_features(module):
    path, _ = module
    encoder = Pretraining(replace(TINY, initial_encoder=path), tf.distribute.get_strategy(), 10).model.encoder
    images = tf.random.stateless_uniform([2, 16, 16, 3], [0, 0])
    np.testing.assert_allclose(encoder(images), hub.load(path)(images), atol=1e-4)


def test_the_encoder_and_its_averages_begin_with_the_modules_values(module):
    path, network = module
    for config in (
        replace(TINY, initial_encoder=path, seed=7),
        replace(TINY, initial_encoder=path, precision="bfloat16"),
    ):
        training = Pretraining(config, tf.distribute.get_strategy(), 10)
        found = training.model.encoder.variables
        assert len(found) == len(network.variables)
        for variable, wanted in zip(found, network.variables):
            np.testing.assert_array_equal(variable, wanted)
        averages = dict(zip((v.ref() for v in training.model.trainable_variables), training.average.averages))
        for variable in training.model.encoder.trainable_variables:
            np.testing.assert_array_equal(averages[variable.ref()], variable)


def test_another_network_is_refused(module):
    path, _ = module
    for changed, said in (
        ({"encoder": "small"}, "it has --encoder=tiny, this run --encoder=small"),
        ({"norm": "channel"}, "it has --norm=layer, this run --norm=channel"),
    ):
        with pytest.raises(ConfigError) as error:
            Pretraining(replace(TINY, initial_encoder=path, **changed), tf.distribute.get_strategy(), 10)
        assert str(error.value) == f"--initial_encoder={path}: {said}"
    Pretraining(replace(TINY, initial_encoder=path, recompute=True), tf.distribute.get_strategy(), 10)


def test_what_is_no_encoder_without_labels_is_refused(tmp_path):
    with pytest.raises(ConfigError) as error:
        Pretraining(replace(TINY, initial_encoder=f"{tmp_path}/none"), tf.distribute.get_strategy(), 10)
    assert str(error.value) == f"--initial_encoder={tmp_path}/none: there is no such directory"
    labels = dataclasses.replace(PRETRAINED, objective=None, num_train_labels=3, label_fraction=0.1)
    write_card(tmp_path, EncoderConfig(encoder="tiny"), training=labels)
    with pytest.raises(ConfigError, match=f"--initial_encoder={tmp_path}: it learned from labels"):
        Pretraining(replace(TINY, initial_encoder=str(tmp_path)), tf.distribute.get_strategy(), 10)


def test_replicas_begin_with_the_same_values(module, two_replicas):
    path, network = module
    training = Pretraining(replace(TINY, initial_encoder=path), two_replicas, 10)
    for variable, wanted in zip(training.model.encoder.variables, network.variables):
        for value in two_replicas.experimental_local_results(variable):
            np.testing.assert_array_equal(value, wanted)


def test_a_resumed_run_goes_on_from_its_own_values(whole, tmp_path):
    config, result, killed = whole
    shutil.copytree(killed, tmp_path / "run")
    assert [path.name for path in tmp_path.glob("run/checkpoints/*.index")] == ["step_00000001.index"]
    assert run.pretrain(replace(config, workdir=f"{tmp_path}/run"))["loss"] == result["loss"]


def test_a_wrong_module_leaves_no_workdir(whole, tmp_path):
    config = replace(whole[0], initial_encoder=f"{tmp_path}/none", workdir=f"{tmp_path}/run")
    with pytest.raises(ConfigError, match=f"--initial_encoder={tmp_path}/none: there is no such directory"):
        run.pretrain(config)
    assert not (tmp_path / "run").exists()


def test_the_exporter_says_which_module_it_misses(whole, tmp_path):
    config, _, _ = whole
    shutil.copytree(config.workdir, tmp_path / "run")
    moved = pathlib.Path(config.initial_encoder)
    moved.rename(moved.with_name("away"))
    try:
        with pytest.raises(ConfigError) as error:
            export(ExportConfig(workdir=f"{tmp_path}/run", output=f"{tmp_path}/exported"))
    finally:
        moved.with_name("away").rename(moved)
    needed = f"--initial_encoder={moved}: there is no such directory"
    assert str(error.value) == f"--workdir={tmp_path}/run: the module that this run began with is needed: {needed}"
    assert not (tmp_path / "exported").exists()


def test_the_result_and_the_exported_module_say_what_it_began_with(whole, tmp_path, monkeypatch):
    config, result, _ = whole
    assert result["identity"]["began_with"] == "hub"
    # The check in a process of its own is that of tests/export.
    monkeypatch.setattr("cpc_tf.export.run.verify", lambda *_: {"difference": 0, "variables": 0})
    export(ExportConfig(workdir=config.workdir, output=f"{tmp_path}/exported"))
    card = json.loads((tmp_path / "exported/encoder.json").read_text())
    assert (card["dataset"], card["step"]) == ("photos/40", 2)
    assert card["began_as"] == {**PRETRAINED.to_json(), "module": "hub"}
    text = (tmp_path / "exported/README.md").read_text()
    assert "| began with | `hub`: pre-trained on `photos` without labels (run `pretrain`, step 7) |" in text
    assert "(`photos`, `photos/40`) may extend" in text
