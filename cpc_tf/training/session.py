"""A session of a run: its directory is locked and its devices are set up, on all processes
alike.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import tensorflow as tf

from cpc_tf.core import devices
from cpc_tf.core.files import reason
from cpc_tf.core.locks import locked
from cpc_tf.core.settings import RunEnded, Settings, flatten
from cpc_tf.training import cluster
from cpc_tf.training.cluster import about_program, about_settings, agree
from cpc_tf.training.strategy import is_chief, strategy_of, wants_xla
from cpc_tf.training.workdir import Workdir, warn_once


class OutOfMemory(RunEnded):
    """The computer or its accelerator has no room for a step."""

    status = 5

    def __init__(self, why: str, accumulates: bool):
        same = ""
        if accumulates:
            same = "--accumulate=2, or more parts, needs less and resumes the run; else "
        super().__init__(
            f"out of memory ({why}); {same}a smaller --batch_size or smaller images need less, in"
            " another --workdir, since a run keeps its settings; what was saved before is intact"
        )


@contextlib.contextmanager
def open_run(config: Settings, task: str) -> Iterator[tuple[Workdir, tf.distribute.Strategy]]:
    """Locks the directory of a run with `config.training`, and sets up its devices.

    Of several processes only the chief prints to stdout meanwhile.

    Args:
      config: all settings of the run.
      task: the name of what is run, one of `cpc_tf.core.commands.TASKS`.

    Raises:
      ConfigError: see `Workdir`, `locked` and `strategy_of`.
      OutOfMemory: the run needs more memory than there is.
      LostWorker: another process of the run has ended.
    """
    workdir = Workdir(config, task, is_chief(config.training.strategy))
    # The lock comes before the strategy: connecting to a TPU takes it away from the run that uses
    # it.
    alone = locked(workdir.path) if workdir.chief else _without_stdout()
    kind = "tpu" if config.training.tpu else config.training.strategy
    with alone, cluster.lost_workers_explained(kind):
        try:
            strategy = strategy_of(config.training)
            precision = config.numerics.precision
            agree(strategy, lambda: about_program(task))
            agree(strategy, lambda: about_settings(config))
            xla = wants_xla(config.numerics.xla, strategy)
            print(devices.describe(strategy, precision, xla), flush=True)
            if workdir.chief and (warning := devices.slow_precision(strategy, precision)):
                warn_once(warning)
            if warning := devices.unused_gpu():
                warn_once(warning)
            yield workdir, strategy
            # None leaves before all are done: those that stay could not go on alone.
            cluster.leave(strategy)
        except (MemoryError, tf.errors.ResourceExhaustedError) as error:
            raise OutOfMemory(reason(error), "accumulate" in flatten(config)) from error


@contextlib.contextmanager
def _without_stdout() -> Iterator[None]:
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        yield
