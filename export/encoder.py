"""A pre-training run -> its encoder as a checked TF-Hub module."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

from cpc_tf.config import ExportConfig, PretrainConfig
from cpc_tf.models.resnet import Encoder
from cpc_tf.settings import flatten
from cpc_tf.training.workdir import write_file
from export import card
from export.description import origin, result_of
from export.module import HubEncoder, save
from export.output import writing
from export.verify import verify
from export.weights import load_encoder


def export_encoder(run: PretrainConfig, config: ExportConfig, directory: str) -> dict[str, Any]:
    """Writes the module to a directory; returns what its encoder.json says and what the check measured.

    Raises:
      ConfigError: if the checkpoint or the output is not to be had.
      NotVerified: if the module does not do what the checkpoint does.
    """
    encoder, step = load_encoder(run, config.workdir, config.weights, config.step)
    description = describe(run, encoder, config.workdir, config.weights, step)
    with writing(config.output):
        save(HubEncoder(encoder, run.geometry), directory)
        write_file(os.path.join(directory, "encoder.json"), json.dumps(description, indent=2) + "\n")
        write_file(os.path.join(directory, "README.md"), card.render(description, run, result_of(config.workdir)))
    measured = verify(directory, encoder, run.geometry)
    told = (
        f"{run.encoder.encoder}, {config.weights} weights of step {step}; in a fresh process: largest difference "
        f"{measured['difference']:.0e}, {measured['variables']} variables trainable"
    )
    return {**description, **measured, "told": told}


def describe(run: PretrainConfig, encoder: Encoder, workdir: str, weights: str, step: int) -> dict[str, Any]:
    """The content of encoder.json: what the encoder is and where it comes from."""
    return {
        "encoder": flatten(run.encoder),
        "geometry": flatten(run.geometry),
        "feature_dim": encoder.feature_dim,
        "parameters": int(sum(np.prod(v.shape) for v in encoder.trainable_variables)),
        "weights": weights,
        **origin(run.data.dataset, workdir, step),
    }
