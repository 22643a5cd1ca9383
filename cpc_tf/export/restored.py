"""Networks with the values of a run's checkpoint, in float32: an encoder, or a detector.

The functions take the run's settings, its directory and a step (0: that of the newest whole checkpoint), and return the
network and the step. They raise ConfigError if there is no such checkpoint or none that is whole, or if a module that
the run began with no longer exists.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from cpc_tf.detect.config import DetectConfig
from cpc_tf.detect.faster_rcnn import FasterRCNN
from cpc_tf.detect.trainee import build_detector
from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.encoders.card import EncoderCard
from cpc_tf.encoders.load import LoadedEncoder, load_feature_maps, with_values
from cpc_tf.encoders.network import Network
from cpc_tf.export.verify import NotVerified
from cpc_tf.files import read_json
from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.pretrain.trainee import build_model
from cpc_tf.settings import ConfigError, replace
from cpc_tf.training.checkpoint import Checkpoints

TOLERANCE = 1e-4  # of features, relative to the largest of them


def load_pretrained(config: PretrainConfig, workdir: str, weights: str, step: int = 0) -> tuple[Network, int]:
    """The encoder of a pre-training run, with 'averaged' or 'raw' weights; it keeps its activations."""
    candidates = candidates_of(workdir, step)
    model = build_model(replace(config, precision="float32"))
    model.encoder.recompute = False

    def read(path: str) -> None:
        restore(path, model=model)
        if weights == "averaged":
            # The averages straight into the variables they are averages of. Statistics of batch norm have none.
            restore(path, average=tf.train.Checkpoint(averages=model.trainable_variables))

    return model.encoder, read_first(candidates, workdir, read)


def load_trained(
    run: EfficientConfig, before: EncoderCard | None, folder: str, step: int = 0, averaged: bool = False
) -> tuple[Network, int]:
    """The encoder of a phase, in `folder`, of a run on labels.

    `before` is the card of the module that the run began with, None for a new network; `averaged`: the phase has
    averages of the encoder, and these are wanted. Raises NotVerified if the encoder does not do what the network of
    the phase does.
    """
    candidates, chosen, side = candidates_of(folder, step), run.classifier, run.images.image_size
    new = {"backbone": chosen.backbone, "seed": run.training.seed}
    try:
        maps = load_feature_maps(chosen.encoder, chosen.endpoint, side, **new)
    except ConfigError as error:
        raise ConfigError(f"--workdir={folder}: the encoder that this run began with is needed: {error}") from error

    def read(path: str) -> None:
        try:
            restore(path, encoder=maps.saved())
            if averaged:
                restore(path, average=tf.train.Checkpoint(averages=maps.trainable_variables))
        except (AssertionError, ValueError) as error:
            raise ConfigError(
                f"--encoder={chosen.encoder}: no longer what {path} was trained from: other variables; bring it back"
            ) from error

    step = read_first(candidates, folder, read)
    encoder = maps.encoder
    if not isinstance(encoder, Network):
        # The layer lists trainable variables first, the SavedModel lists them in the order of `Network.variables`.
        encoder = with_values(before.encoder, encoder.resolved_object.variables, chosen.encoder)
        _compare(encoder, maps, before.geometry.patch_size)
    encoder.recompute = False
    return encoder, step


def load_detector(config: DetectConfig, workdir: str, num_classes: int, step: int = 0) -> tuple[FasterRCNN, int]:
    """The detector of a run; `num_classes` is without the background."""
    candidates = candidates_of(workdir, step)
    try:
        model = build_detector(replace(config, precision="float32"), num_classes)
    except ConfigError as error:
        raise ConfigError(f"--workdir={workdir}: the encoder that this run began with is needed: {error}") from error
    return model, read_first(candidates, workdir, lambda path: restore(path, model=model))


def result_of(workdir: str) -> dict[str, Any]:
    """The run's result.json; empty if it has not ended."""
    path = os.path.join(workdir, "result.json")
    return read_json(path) if tf.io.gfile.exists(path) else {}


def candidates_of(workdir: str, step: int) -> list[int]:
    """The steps to try, best first."""
    steps = Checkpoints(workdir).steps()
    if not steps:
        raise ConfigError(f"--workdir={workdir}: has no checkpoint; let the run get to its first one")
    if step and step not in steps:
        raise ConfigError(f"--step={step}: no such checkpoint in --workdir={workdir}; there are {_listed(steps)}")
    return [step] if step else steps[::-1]


def read_first(candidates: list[int], workdir: str, read: Callable[[str], None]) -> int:
    """Reads, by its path, the first of these checkpoints that is whole, and returns its step."""
    checkpoints = Checkpoints(workdir)
    found = checkpoints.read_first(candidates, lambda step: read(checkpoints.path(step)))
    if found is None:
        raise ConfigError(f"--workdir={workdir}: no checkpoint that can be read among {_listed(candidates)}")
    return found


def restore(path: str, **objects: tf.Module | tf.train.Checkpoint) -> None:
    """Reads these parts of a checkpoint, with all their variables; the optimizer's state, for one, is left unread."""
    tf.train.Checkpoint(**objects).read(path).expect_partial().assert_existing_objects_matched()


def _listed(steps: list[int]) -> str:
    return ", ".join(map(str, sorted(steps)))


def _compare(encoder: Network, maps: LoadedEncoder, side: int) -> None:
    """NotVerified if the encoder is not the network: variables of equal shapes could have been mixed up."""
    images = tf.constant(np.random.default_rng(0).uniform(size=[2, side, side, 3]).astype(np.float32))
    wanted = maps.outputs(images)
    wanted = wanted["features"] if isinstance(wanted, dict) else wanted[:, 0, 0]  # [2, D]; of the only patch
    difference = float(np.abs(encoder(images) - wanted).max() / max(np.abs(wanted).max(), 1e-30))
    if not difference <= TOLERANCE:
        raise NotVerified(f"features of the rebuilt encoder differ from the run's by {difference:.1e} of their scale")
