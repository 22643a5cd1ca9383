"""A tiny encoder in all tests of the export, written once, and a pre-training run made without training."""

import json
import os
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_hub as hub

from cpc_tf import cli
from cpc_tf.data.config import GeometryConfig
from cpc_tf.encoders.config import EncoderConfig
from cpc_tf.export import check_module, run, verify
from cpc_tf.export.run import EXPORTERS, ExportConfig, export
from cpc_tf.files import write_file
from cpc_tf.keras import keras
from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.pretrain.trainee import Pretraining, build_model
from cpc_tf.settings import replace, to_flagfile
from cpc_tf.training.checkpoint import Checkpoints
from cpc_tf.training.workdir import read_config, read_task
from tests import modules, processes
from tests.conftest import make_tiny

FLAGS = (
    "--resize=32", "--image_size=32", "--patch_size=16", "--patch_stride=4", "--encoder=small", "--output_stack=1",
    "--batch_size=2", "--recompute", "--directions=1", "--context_blocks=1", "--context_dim=8",
    "--precision=bfloat16", "--split=unlabelled", "--dataset=folder:/home/someone/birds",
)  # fmt: skip
GEOMETRY = GeometryConfig(resize=32, image_size=32, patch_size=16, patch_stride=4)
IMAGES = np.random.default_rng(1).uniform(size=[2, 32, 24, 3]).astype(np.float32)
OURS = EncoderConfig(encoder="small", norm="batch", recompute=True)  # batch norm is what minds `training`


@pytest.fixture(scope="package", autouse=True)
def _tiny():
    with pytest.MonkeyPatch.context() as patch:
        make_tiny(patch)
        yield


@pytest.fixture
def in_process(monkeypatch):
    """The check runs here instead of in a fresh process, which imports what it needs."""
    for name, library in {"np": np, "tf": tf, "hub": hub, "keras": keras}.items():
        monkeypatch.setattr(check_module, name, library, raising=False)
    monkeypatch.setattr(run, "verify", lambda kind, *values: getattr(check_module, f"check_{kind}")(*values))


@pytest.fixture
def forked(monkeypatch):
    """A check in a process that has TensorFlow already, but has never traced anything of ours."""

    def start(command, env, **_):
        script = os.path.splitext(os.path.relpath(command[1], os.path.dirname(os.path.dirname(cli.__file__))))[0]
        return processes.run(script.replace(os.sep, "."), *command[2:], env=env)

    monkeypatch.setattr(verify, "subprocess", SimpleNamespace(run=start))


@pytest.fixture(scope="package")
def ours(tmp_path_factory):
    """A module of ours, for reading only: its `path`, and `endpoints` of IMAGES and of one `patch` of them."""
    path = tmp_path_factory.mktemp("modules") / "ours"
    encoder = modules.write_module(path, OURS)
    whole, patch = encoder.endpoints(tf.constant(IMAGES)), encoder.endpoints(tf.constant(IMAGES[1:, 12:20, 4:12]))
    return SimpleNamespace(path=str(path), encoder=encoder, endpoints=whole, patch=patch)  # row 3, column 1


@pytest.fixture(scope="package")
def pretrained(tmp_path_factory):
    """A run: `config`, `path`, and the float32 encoder's `features` of IMAGES {(weights, step): [2, D]}."""
    config = cli.parse(PretrainConfig, [*FLAGS])
    path = str(tmp_path_factory.mktemp("somewhere") / "first_run")
    training = Pretraining(config, tf.distribute.get_strategy(), train_steps=9)
    twin = build_model(replace(config, precision="float32"))
    features = {}
    for step in (7, 9):
        for i, average in enumerate(training.average.averages):
            average.assign(average * (1 + 0.1 * np.sin(i + step)))
        for i, variable in enumerate(training.model.trainable_variables):
            variable.assign(variable * (1 + 0.1 * np.cos(i + step)))
        Checkpoints(path, training.checkpoint).save(step)
        for weights, values in (("raw", training.model.variables), ("averaged", training.average.averages)):
            for variable, value in zip(twin.trainable_variables, values):
                variable.assign(value)
            features[weights, step] = twin.encoder(IMAGES).numpy()
    write_file(f"{path}/run.flags", to_flagfile(config))
    write_file(f"{path}/run.json", json.dumps({"task": "pretrain"}))
    write_file(f"{path}/result.json", json.dumps({"kind": "pretrain", "step": 9, "loss": 4.25, "knn": 0.5}))
    return SimpleNamespace(config=config, path=path, features=features)


@pytest.fixture(scope="package")
def hub_dir(pretrained, tmp_path_factory):
    """The run's newest checkpoint, exported and checked in a fresh process."""
    output = str(tmp_path_factory.mktemp("exported") / "hub")
    export(ExportConfig(workdir=pretrained.path, output=output))
    return output


def made(workdir, step=0, weights="averaged", part="encoder"):
    """What would be written for a run: neither saved nor checked."""
    task = read_task(str(workdir))
    return EXPORTERS[part][task.name](read_config(str(workdir), task.config), str(workdir), step, weights)


def read(*path):
    with open(os.path.join(*path)) as file:
        return file.read()


def assert_close(got, wanted):
    np.testing.assert_allclose(got, wanted, atol=1e-5 * np.abs(wanted).max(), rtol=0)
