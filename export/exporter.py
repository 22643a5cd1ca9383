"""A run's directory -> a checked TF-Hub module, or nothing."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from importlib import metadata
from typing import Any

import numpy as np
import tensorflow as tf

from cpc_tf.config import ExportConfig, PretrainConfig
from cpc_tf.models.resnet import Encoder
from cpc_tf.settings import ConfigError, flatten
from cpc_tf.training.workdir import read_config, read_json, write_file
from export import card
from export.module import HubEncoder, save
from export.verify import NotVerified, verify
from export.weights import load_encoder


def export(config: ExportConfig) -> dict[str, Any]:
    """Writes the module to `config.output`, and returns what its encoder.json says and what the check measured.

    Raises:
      ConfigError: if the run, the checkpoint or the output is not to be had.
      NotVerified: if the module does not do what the checkpoint does; the output is not created.
    """
    if not config.workdir:
        raise ConfigError("--workdir= is empty: name the directory of a pre-training run")
    run = read_config(config.workdir, PretrainConfig)
    with written_aside(config.output) as directory:
        encoder, step = load_encoder(run, config.workdir, config.weights, config.step)
        description = describe(run, encoder, config.workdir, config.weights, step)
        result_path = os.path.join(config.workdir, "result.json")
        result = read_json(result_path) if tf.io.gfile.exists(result_path) else {}
        with _writing(config.output):
            save(HubEncoder(encoder, run.geometry), directory)
            write_file(os.path.join(directory, "encoder.json"), json.dumps(description, indent=2) + "\n")
            write_file(os.path.join(directory, "README.md"), card.render(description, run, result))
        measured = verify(directory, encoder, run.geometry)
    return {**description, **measured}


def describe(run: PretrainConfig, encoder: Encoder, workdir: str, weights: str, step: int) -> dict[str, Any]:
    """The content of encoder.json: what the encoder is and where it comes from. Names, but no paths of this machine."""
    dataset = run.data.dataset
    if dataset.startswith("folder:"):
        dataset = "folder:" + os.path.basename(dataset.rstrip("/"))
    return {
        "encoder": flatten(run.encoder),
        "geometry": flatten(run.geometry),
        "feature_dim": encoder.feature_dim,
        "parameters": int(sum(np.prod(v.shape) for v in encoder.trainable_variables)),
        "dataset": dataset,
        "run": os.path.basename(workdir.rstrip("/")),
        "step": step,
        "weights": weights,
        "versions": {name: metadata.version(name) for name in ("tensorflow", "tensorflow-hub")},
    }


@contextlib.contextmanager
def written_aside(output: str) -> Iterator[str]:
    """A directory beside `output` that becomes `output` if all goes well, and goes away if not.

    Raises:
      ConfigError: if `output` exists, or cannot be made.
    """
    output = output.rstrip("/")
    if not output:
        raise ConfigError("--output= is empty: name a directory for the module, e.g. --output=runs/first/hub")
    if tf.io.gfile.exists(output):
        raise ConfigError(f"--output={output}: exists already; remove it or take another name")
    aside = f"{output}.{os.getpid()}.tmp"
    with _writing(output):
        tf.io.gfile.makedirs(aside)
    try:
        yield aside
        with _writing(output):
            tf.io.gfile.rename(aside, output)
    finally:
        if tf.io.gfile.exists(aside):
            tf.io.gfile.rmtree(aside)


@contextlib.contextmanager
def _writing(output: str) -> Iterator[None]:
    """Within it what TensorFlow cannot write is a ConfigError."""
    try:
        yield
    except (tf.errors.OpError, OSError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(f"--output={output}: cannot be written ({reason}); take a place that can") from error


def main(config: ExportConfig) -> None:
    """The binary: exit status 3 if the module did not pass its check."""
    # A GPU would round differently from the process that checks, and take memory from it.
    tf.config.set_visible_devices([], "GPU")
    try:
        done = export(config)
    except NotVerified as error:
        raise NotVerified(f"--output={config.output}: not written, the module failed its check: {error}") from error
    print(
        f"done: {config.output} ({done['encoder']['encoder']}, {done['weights']} weights of step {done['step']}; "
        f"in a fresh process: largest difference {done['difference']:.0e}, {done['variables']} variables trainable)"
    )
