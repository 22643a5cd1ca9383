"""A pre-training run with two checkpoints, made without training and without data."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf import cli
from cpc_tf.data.config import GeometryConfig
from cpc_tf.export.config import ExportConfig
from cpc_tf.export.exporter import export
from cpc_tf.files import write_file
from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.pretrain.trainee import Pretraining
from cpc_tf.settings import replace, to_flagfile
from cpc_tf.training.checkpoint import Checkpoints

SMALL = (
    "--resize=32", "--image_size=32", "--patch_size=16", "--patch_stride=4", "--encoder=small", "--output_stack=1",
    "--batch_size=2", "--recompute",
)  # fmt: skip
CONTEXT = ("--directions=1", "--context_blocks=1", "--context_dim=8", "--target_dim=8")
GEOMETRY = GeometryConfig(resize=32, image_size=32, patch_size=16, patch_stride=4)
IMAGES = np.random.default_rng(1).uniform(size=[2, 32, 24, 3]).astype(np.float32)


@pytest.fixture(scope="session")
def small_config():
    return cli.parse(PretrainConfig, [*SMALL, *CONTEXT, "--precision=bfloat16", "--dataset=folder:/home/someone/birds"])


@pytest.fixture(scope="session")
def run(small_config, tmp_path_factory):
    """Its `path`, and the features of IMAGES {(weights, step): [2, D]} as the float32 encoder computes them."""
    path = str(tmp_path_factory.mktemp("somewhere") / "first_run")
    training = Pretraining(small_config, tf.distribute.get_strategy(), train_steps=9)
    twin = Pretraining(replace(small_config, precision="float32"), tf.distribute.get_strategy(), train_steps=9)
    features = {}
    for step in (7, 9):
        for i, average in enumerate(training.average.averages):
            average.assign(average * (1 + 0.1 * np.sin(i + step)))
        for i, variable in enumerate(training.model.trainable_variables):
            variable.assign(variable * (1 + 0.1 * np.cos(i + step)))
        Checkpoints(path, training.checkpoint).save(step)
        for weights, values in (("raw", training.model.variables), ("averaged", training.average.averages)):
            for variable, value in zip(twin.model.trainable_variables, values):
                variable.assign(value)
            features[weights, step] = twin.model.encoder(IMAGES).numpy()
    write_file(f"{path}/run.flags", to_flagfile(small_config))
    write_file(f"{path}/run.json", json.dumps({"task": "pretrain"}))
    write_file(f"{path}/result.json", json.dumps({"kind": "pretrain", "step": 9, "loss": 4.25, "knn": 0.5}))
    return SimpleNamespace(path=path, features=features)


@pytest.fixture(scope="session")
def hub_dir(run, tmp_path_factory):
    """The run's newest checkpoint, exported."""
    output = str(tmp_path_factory.mktemp("exported") / "hub")
    export(ExportConfig(workdir=run.path, output=output))
    return output
