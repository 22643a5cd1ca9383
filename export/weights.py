"""The encoder, with its raw or its averaged weights, or the detector of a checkpoint, in float32."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from cpc_tf.detect.config import DetectConfig
from cpc_tf.detect.faster_rcnn import FasterRCNN
from cpc_tf.detect.trainee import build_detector
from cpc_tf.encoders.network import Network
from cpc_tf.objectives.base import Objective
from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.pretrain.trainee import build_model
from cpc_tf.settings import ConfigError, replace
from cpc_tf.training.checkpoint import Checkpoints, is_damaged


def load_encoder(config: PretrainConfig, workdir: str, weights: str, step: int = 0) -> tuple[Network, int]:
    """Rebuilds the encoder of a run.

    Args:
      config: the run's settings.
      workdir: where its checkpoints are.
      weights: 'averaged' or 'raw'.
      step: which checkpoint; 0: the newest whole one.

    Returns:
      the encoder and the step. It computes in float32 and keeps its activations, whatever --precision and --recompute
      the run had.

    Raises:
      ConfigError: if there is no such checkpoint, or none that is whole.
    """
    candidates = candidates_of(workdir, step)
    model = build_model(replace(config, precision="float32", recompute=False))
    return model.encoder, read_first(candidates, workdir, lambda path: _read(model, path, weights))


def load_detector(config: DetectConfig, workdir: str, num_classes: int, step: int = 0) -> tuple[FasterRCNN, int]:
    """Rebuilds the detector of a run, from the encoder that the run began with: that must still be there.

    Args:
      config: the run's settings.
      workdir: where its checkpoints are.
      num_classes: without the background.
      step: which checkpoint; 0: the newest whole one.

    Returns:
      the detector, which computes in float32 (an encoder as it was exported), and the step.

    Raises:
      ConfigError: if there is no such encoder or checkpoint, or none that is whole.
    """
    candidates = candidates_of(workdir, step)
    try:
        model = build_detector(replace(config, precision="float32"), num_classes)
    except ConfigError as error:
        raise ConfigError(f"--workdir={workdir}: the encoder that this run began with is needed: {error}") from error
    return model, read_first(candidates, workdir, lambda path: restore(path, model=model))


def read_first(candidates: list[int], workdir: str, read: Callable[[str], None]) -> int:
    """Reads the first of these checkpoints that is whole, and returns its step."""
    checkpoints = Checkpoints(workdir, tf.train.Checkpoint())
    for candidate in candidates:
        try:
            read(checkpoints.path(candidate))
        except (tf.errors.OpError, IndexError) as error:
            if not is_damaged(error):
                raise
            reason = str(error).splitlines()[0]
            print(f"{checkpoints.path(candidate)}: damaged ({reason})", flush=True)
        else:
            return candidate
    raise ConfigError(f"--workdir={workdir}: no checkpoint that can be read among {_listed(candidates)}")


def candidates_of(workdir: str, step: int) -> list[int]:
    """The steps to try, best first."""
    steps = Checkpoints(workdir, tf.train.Checkpoint()).steps()
    if not steps:
        raise ConfigError(f"--workdir={workdir}: has no checkpoint; let the run get to its first one")
    if step and step not in steps:
        raise ConfigError(f"--step={step}: no such checkpoint in --workdir={workdir}; there are {_listed(steps)}")
    return [step] if step else steps[::-1]


def _listed(steps: list[int]) -> str:
    return ", ".join(map(str, sorted(steps)))


def restore(path: str, **objects: tf.Module | tf.train.Checkpoint) -> None:
    """Reads these parts of a checkpoint, with all their variables; the optimizer's state, for one, is left unread."""
    tf.train.Checkpoint(**objects).read(path).expect_partial().assert_existing_objects_matched()


def _read(model: Objective, path: str, weights: str) -> None:
    restore(path, model=model)
    if weights == "averaged":
        # The averages straight into the variables they are averages of. Statistics of batch norm have none.
        restore(path, average=tf.train.Checkpoint(averages=model.trainable_variables))
