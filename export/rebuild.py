"""The encoder that a run on labels trained, as one that can be exported: a hub.KerasLayer becomes a network again."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_hub as hub

from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.encoders.config import EncoderConfig
from cpc_tf.encoders.load import load_feature_maps, with_values
from cpc_tf.encoders.loaded import LoadedEncoder
from cpc_tf.encoders.network import Network
from cpc_tf.settings import ConfigError, replace
from export.verify import NotVerified
from export.weights import candidates_of, read_first, restore

TOLERANCE = 1e-4  # of features, relative to the largest of them


def load_trained_encoder(
    run: EfficientConfig, module: dict[str, Any], folder: str, step: int = 0
) -> tuple[Network, int]:
    """Rebuilds the encoder of a run's phase from what the run began with: a module must still be there.

    Args:
      run: the run's settings.
      module: the encoder.json of the module it began with; empty for a new network.
      folder: of the phase: where its checkpoints are.
      step: which checkpoint; 0: the newest whole one.

    Returns:
      the encoder and the step. It computes in float32 and keeps its activations.

    Raises:
      ConfigError: if there is no such module or checkpoint, or none that is whole, or they do not belong together.
      NotVerified: if it does not do what the network of the phase does.
    """
    candidates = candidates_of(folder, step)
    try:
        chosen = run.classifier
        maps = load_feature_maps(
            chosen.encoder, chosen.endpoint, run.images.image_size, backbone=chosen.backbone, seed=run.training.seed
        )
    except ConfigError as error:
        raise ConfigError(f"--workdir={folder}: the encoder that this run began with is needed: {error}") from error
    name = run.classifier.encoder
    step = read_first(candidates, folder, lambda path: _read(maps, path, name))
    if isinstance(maps.encoder, hub.KerasLayer):
        # The layer lists trainable variables first, what was saved lists them in the order of `Network.variables`.
        settings, variables = EncoderConfig(**module["encoder"]), maps.encoder.resolved_object.variables
    else:
        settings, variables = maps.encoder.config, maps.encoder.variables
    encoder = with_values(replace(settings, recompute=False), variables, name)
    _compare(encoder, maps, module["geometry"]["patch_size"] if module else run.images.image_size)
    return encoder, step


def _read(maps: LoadedEncoder, path: str, name: str) -> None:
    try:
        restore(path, encoder=maps.saved())
    except (AssertionError, ValueError) as error:
        raise ConfigError(
            f"--encoder={name}: is no longer what {path} was trained from: other variables; bring it back"
        ) from error


def _compare(encoder: Network, maps: LoadedEncoder, side: int) -> None:
    """NotVerified if the encoder is not the network: variables of equal shapes could have been mixed up."""
    images = tf.constant(np.random.default_rng(0).uniform(size=[2, side, side, 3]).astype(np.float32))
    wanted = maps.outputs(images)
    wanted = wanted["features"] if isinstance(wanted, dict) else wanted[:, 0, 0]  # [2, D]; of the only patch
    difference = float(np.abs(encoder(images) - wanted).max() / max(np.abs(wanted).max(), 1e-30))
    if not difference <= TOLERANCE:
        raise NotVerified(f"features of the rebuilt encoder differ from the run's by {difference:.1e} of their scale")
