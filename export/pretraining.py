"""A pre-training run -> its encoder as a checked TF-Hub module."""

from __future__ import annotations

from typing import Any

from cpc_tf.pretrain.config import PretrainConfig
from export import pretraining_card
from export.config import ExportConfig
from export.description import origin, result_of
from export.encoder import describe, write_encoder
from export.weights import load_encoder


def export_pretraining(run: PretrainConfig, config: ExportConfig, directory: str) -> dict[str, Any]:
    """Writes the module to a directory; returns what its encoder.json says and what the check measured.

    Raises:
      ConfigError: if the checkpoint or the output is not to be had.
      NotVerified: if the module does not do what the checkpoint does.
    """
    encoder, step = load_encoder(run, config.workdir, config.weights, config.step)
    description = {
        **describe(run.encoder, run.geometry, encoder),
        "weights": config.weights,
        **origin(run.data.dataset, config.workdir, step),
    }
    history = pretraining_card.history(description, run, result_of(config.workdir))
    return write_encoder(encoder, description, history, config, directory)
