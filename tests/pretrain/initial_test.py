"""Pre-training that begins with a module: its values, what is refused, and what is said of it afterwards."""

import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.encoders.config import EncoderConfig
from cpc_tf.export.config import ExportConfig
from cpc_tf.export.exporter import export
from cpc_tf.pretrain import run
from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.pretrain.trainee import Pretraining
from cpc_tf.settings import ConfigError, replace
from tests.modules import PRETRAINED, write_card, write_module

TINY = replace(
    PretrainConfig(),
    dataset="photos/40",
    split="unlabelled",
    encoder="tiny",
    resize=24,
    image_size=24,
    patch_size=8,
    patch_stride=4,
    context_blocks=1,
    context_dim=8,
    batch_size=4,
    train_steps=1,
    steps_per_loop=1,
)


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    """(its directory, its network)."""
    path = tmp_path_factory.mktemp("module") / "hub"
    return str(path), write_module(path, EncoderConfig(encoder="tiny"))


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


def test_the_result_and_the_exported_module_say_what_it_began_with(module, tmp_path):
    path, _ = module
    config = replace(TINY, initial_encoder=path, data_dir=f"{tmp_path}/data", workdir=f"{tmp_path}/run")
    assert run.pretrain(config)["identity"]["began_with"] == "hub"
    export(ExportConfig(workdir=config.workdir, output=f"{tmp_path}/exported"))
    card = json.loads((tmp_path / "exported/encoder.json").read_text())
    assert (card["dataset"], card["step"]) == ("photos/40", 1)
    assert card["began_as"] == {**PRETRAINED.to_json(), "module": "hub"}
    text = (tmp_path / "exported/README.md").read_text()
    assert "| began with | `hub`: pre-trained on `photos` without labels (run `pretrain`, step 7) |" in text
    assert "(`photos`, `photos/40`) may extend" in text
