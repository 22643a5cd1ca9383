"""The encoder of a checkpoint, with its raw or its averaged weights, in float32."""

from __future__ import annotations

import tensorflow as tf

from cpc_tf import cli
from cpc_tf.config import PretrainConfig
from cpc_tf.models.cpc import CPC
from cpc_tf.models.resnet import Encoder
from cpc_tf.settings import ConfigError
from cpc_tf.training.checkpoint import Checkpoints, is_damaged
from cpc_tf.training.pretraining import build_model


def load_encoder(config: PretrainConfig, workdir: str, weights: str, step: int = 0) -> tuple[Encoder, int]:
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
    checkpoints = Checkpoints(workdir, tf.train.Checkpoint())
    candidates = _candidates(checkpoints, workdir, step)
    model = build_model(cli.replace(config, precision="float32", recompute=False))
    for candidate in candidates:
        try:
            _read(model, checkpoints.path(candidate), weights)
        except (tf.errors.OpError, IndexError) as error:
            if not is_damaged(error):
                raise
            reason = str(error).splitlines()[0]
            print(f"{checkpoints.path(candidate)}: damaged ({reason})", flush=True)
        else:
            return model.encoder, candidate
    raise ConfigError(f"--workdir={workdir}: no checkpoint that can be read among {_listed(candidates)}")


def _candidates(checkpoints: Checkpoints, workdir: str, step: int) -> list[int]:
    """The steps to try, best first."""
    steps = checkpoints.steps()
    if not steps:
        raise ConfigError(f"--workdir={workdir}: no checkpoint yet; let the run get to its first one")
    if step and step not in steps:
        raise ConfigError(f"--step={step}: no such checkpoint in --workdir={workdir}; there are {_listed(steps)}")
    return [step] if step else steps[::-1]


def _listed(steps: list[int]) -> str:
    return ", ".join(map(str, sorted(steps)))


def _read(model: CPC, path: str, weights: str) -> None:
    # The optimizer's state is left unread: expect_partial.
    tf.train.Checkpoint(model=model).read(path).assert_existing_objects_matched().expect_partial()
    if weights == "averaged":
        # The averages straight into the variables they are averages of. Statistics of batch norm have none.
        average = tf.train.Checkpoint(averages=model.trainable_variables)
        tf.train.Checkpoint(average=average).read(path).assert_existing_objects_matched().expect_partial()
