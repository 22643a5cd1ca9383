"""A launch: create -> ship -> train and follow -> delete -> bring the result; from the start again after preemption."""

from __future__ import annotations

import os
import shutil
import sys

from cpc_tf.launch import commands, gcloud
from cpc_tf.launch.config import LaunchConfig
from cpc_tf.launch.host import Hosts, Lost
from cpc_tf.launch.signals import Signals
from cpc_tf.launch.tpu import Tpu
from cpc_tf.launch.training import Training, read
from cpc_tf.launch.waiting import Failed, say
from cpc_tf.settings import ConfigError, RunEnded
from cpc_tf.termination import Interrupted

_MEANING = {2: "a setting that cannot work", 3: "it diverged", 5: "out of memory", 8: "a feed was lost"}


class TrainingEnded(RunEnded):
    """The training ended by itself without a result."""

    def __init__(self, status: int):
        meaning = f" ({_MEANING[status]})" if status in _MEANING else ""
        super().__init__(f"the training ended with status {status}{meaning}; its last lines above say why")
        self.status = status


class NotDeleted(RunEnded):
    """The TPU may still be there."""

    status = 7


def main(config: LaunchConfig, *words: str) -> None:
    """The command `cpc-tf launch`; `words` are those after the `--`."""
    launch(config, read(config, words))


def launch(config: LaunchConfig, training: Training) -> None:
    """Trains on a TPU and brings the result; then there is no TPU any more, however it ends.

    Args:
      config: the TPU.
      training: what it trains.

    Raises:
      RunEnded: there is no result, or (NotDeleted) the TPU may still be there.
      Interrupted: a signal ended the launch.
    """
    if config.dry_run:
        print(commands.script(config, training))
        return
    if not shutil.which("gcloud"):
        raise ConfigError("gcloud: not installed; see https://cloud.google.com/sdk")
    with Signals() as signals:
        status = _Launch(config, training, signals).run()
        if status:
            raise TrainingEnded(status)
        _fetch(training)


class _Launch:
    """The time in which there is a TPU."""

    def __init__(self, config: LaunchConfig, training: Training, signals: Signals):
        self._config, self._signals = config, signals
        self._tpu = Tpu(config)
        self._hosts = Hosts(config, training, self._tpu)

    def run(self) -> int:
        """Returns the exit status of the training, once the TPU is deleted."""
        try:
            try:
                return self._train()
            finally:
                self._delete(sys.exc_info()[1])
        except Interrupted:
            # The signal may have come in the first moment of the deletion and ended it. There is no second one.
            self._delete(None)
            raise
        finally:
            self._signals.held = False

    def _train(self) -> int:
        """Returns the exit status of the training, with as many TPUs as that takes."""
        while True:
            self._tpu.obtain()
            try:
                return self._hosts.train()
            except Lost as lost:
                self._hosts.busy = False
                say(f"{lost}; the training will go on from its newest checkpoint")

    def _delete(self, ended_by: BaseException | None) -> None:
        """Deletes the TPU if it is ours; if that fails, or it is not, the last line says what to do.

        Raises:
          NotDeleted: it may still be there.
        """
        self._signals.held = True
        name, how = self._config.name, self._tpu.how_to_delete
        if isinstance(ended_by, Interrupted):
            say("stopped by a signal")
            self._hosts.stop()
        if self._tpu.ours and self._tpu.seen and not self._tpu.delete():
            if ended_by:
                say(str(ended_by) or repr(ended_by))
            raise NotDeleted(f"the TPU {name} could not be deleted and COSTS MONEY while it exists; run: {how}")
        if self._tpu.seen:
            say(f"the TPU {name} was there before, was not used, and goes on costing money; to delete it run: {how}")
            self._tpu.seen = False


def _fetch(training: Training) -> None:
    """Copies the result to this machine. Raises Failed."""
    os.makedirs(training.local, exist_ok=True)
    done = gcloud.call(commands.fetch(training))
    if done.status:
        raise Failed(
            f"the training is done, but its result could not be copied: {done.why}; it is in {training.workdir}"
        )
    say(f"done: {training.local}; checkpoints stay in {training.workdir}")
