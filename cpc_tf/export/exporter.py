"""A run's directory -> a checked TF-Hub module, or nothing."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from cpc_tf.export.config import ExportConfig
from cpc_tf.export.detector import export_detector
from cpc_tf.export.efficient import export_efficient
from cpc_tf.export.output import written_aside
from cpc_tf.export.pretraining import export_pretraining
from cpc_tf.export.verify import NotVerified
from cpc_tf.settings import ConfigError
from cpc_tf.tasks import read_task
from cpc_tf.training.workdir import read_config

# Task -> what exports a run of it.
EXPORTERS = {"pretrain": export_pretraining, "efficient": export_efficient, "detect": export_detector}


def export(config: ExportConfig) -> dict[str, Any]:
    """Writes the module to `config.output`, and returns what is known of it; 'summary' in one line.

    Raises:
      ConfigError: if there is no such run or checkpoint, or the output cannot be written.
      NotVerified: if the module does not do what the checkpoint does; the output is not created.
    """
    if not config.workdir:
        raise ConfigError("--workdir= is empty: name the directory of a run of cpc_tf.pretrain, efficient or detect")
    task = read_task(config.workdir)
    if task.name not in EXPORTERS:
        exported = ", ".join(EXPORTERS)
        raise ConfigError(f"--workdir={config.workdir}: holds a run of {task.module}; only {exported} can be exported")
    run = read_config(config.workdir, task.config)
    with written_aside(config.output) as directory:
        return EXPORTERS[task.name](run, config, directory)


def main(config: ExportConfig) -> None:
    """The binary: exit status 3 if the module did not pass its check."""
    # A GPU would round differently from the process that checks, and take memory from it.
    tf.config.set_visible_devices([], "GPU")
    try:
        done = export(config)
    except NotVerified as error:
        raise NotVerified(f"--output={config.output}: not written, the module failed its check: {error}") from error
    print(f"done: {config.output} ({done['summary']})")
