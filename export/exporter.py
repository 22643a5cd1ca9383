"""A run's directory -> a checked TF-Hub module, or nothing."""

from __future__ import annotations

import os
from typing import Any

import tensorflow as tf

from cpc_tf.detect.config import DetectConfig
from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.settings import ConfigError, leaves
from cpc_tf.training.workdir import read_config
from export.config import ExportConfig
from export.detector import export_detector
from export.efficient import export_efficient
from export.output import written_aside
from export.pretraining import export_pretraining
from export.verify import NotVerified

# Settings of a run -> what exports such a run.
EXPORTERS = {PretrainConfig: export_pretraining, EfficientConfig: export_efficient, DetectConfig: export_detector}


def export(config: ExportConfig) -> dict[str, Any]:
    """Writes the module to `config.output`, and returns what is known of it; 'told' in one line.

    Raises:
      ConfigError: if the run, the checkpoint or the output is not to be had.
      NotVerified: if the module does not do what the checkpoint does; the output is not created.
    """
    if not config.workdir:
        raise ConfigError("--workdir= is empty: name the directory of a run of cpc_tf.pretrain, efficient or detect")
    run = read_run(config.workdir)
    with written_aside(config.output) as directory:
        return EXPORTERS[type(run)](run, config, directory)


def read_run(workdir: str) -> PretrainConfig | EfficientConfig | DetectConfig:
    """The settings of a run that can be exported. Raises ConfigError if this is none."""
    path, flags = os.path.join(workdir, "run.flags"), set()
    if tf.io.gfile.exists(path):
        with tf.io.gfile.GFile(path) as file:
            flags = {line.partition("=")[0].lstrip("-") for line in file.read().splitlines()}
    for config_class in EXPORTERS:
        if flags <= {field.name for _, field in leaves(config_class)}:
            return read_config(workdir, config_class)
    raise ConfigError(
        f"--workdir={workdir}: neither a pre-training run, nor one of cpc_tf.efficient, nor a detector's; nothing else "
        "can be exported"
    )


def main(config: ExportConfig) -> None:
    """The binary: exit status 3 if the module did not pass its check."""
    # A GPU would round differently from the process that checks, and take memory from it.
    tf.config.set_visible_devices([], "GPU")
    try:
        done = export(config)
    except NotVerified as error:
        raise NotVerified(f"--output={config.output}: not written, the module failed its check: {error}") from error
    print(f"done: {config.output} ({done['told']})")
