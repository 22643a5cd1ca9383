"""An encoder -> a checked TF-Hub module with encoder.json and card, whatever run it comes from."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

from cpc_tf.data.config import GeometryConfig
from cpc_tf.encoders.config import EncoderConfig
from cpc_tf.encoders.network import Network
from cpc_tf.settings import flatten
from cpc_tf.training.workdir import write_file
from export import card
from export.config import ExportConfig
from export.module import HubEncoder, save
from export.output import writing
from export.verify import verify


def write_encoder(
    encoder: Network, description: dict[str, Any], history: card.History, config: ExportConfig, directory: str
) -> dict[str, Any]:
    """Writes the module to a directory; returns what its encoder.json says and what the check measured.

    Args:
      encoder: computes in float32, has its variables.
      description: the content of encoder.json: `describe` and where the encoder comes from.
      history: what the card says of that.
      config: of the export.
      directory: aside of `config.output`.

    Raises:
      ConfigError: if the directory cannot be written.
      NotVerified: if the module does not do what the encoder does.
    """
    geometry = GeometryConfig(**description["geometry"])
    with writing(config.output):
        save(HubEncoder(encoder, geometry), directory)
        write_file(os.path.join(directory, "encoder.json"), json.dumps(description, indent=2) + "\n")
        write_file(os.path.join(directory, "README.md"), card.render(description, history))
    measured = verify(directory, encoder, geometry)
    told = (
        f"{encoder.config.encoder}, {description['weights']} weights of step {description['step']}; in a fresh "
        f"process: largest difference {measured['difference']:.0e}, {measured['variables']} variables trainable"
    )
    return {**description, **measured, "told": told}


def describe(settings: EncoderConfig, geometry: GeometryConfig, encoder: Network) -> dict[str, Any]:
    """What encoder.json says of the encoder itself."""
    return {
        "encoder": flatten(settings),
        "geometry": flatten(geometry),
        "feature_dim": encoder.feature_dim,
        "parameters": int(sum(np.prod(v.shape) for v in encoder.trainable_variables)),
    }
