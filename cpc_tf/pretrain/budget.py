"""`cpc-tf pretrain --minutes`: the number of steps that fits into a time on this machine."""

from __future__ import annotations

import tensorflow as tf

from cpc_tf.core.progress import waiting_for
from cpc_tf.core.settings import ConfigError, replace, to_flagfile
from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.training import pace
from cpc_tf.training.workdir import read_config


def with_steps(config: PretrainConfig) -> PretrainConfig:
    """Returns the settings with a length in steps in place of --minutes.

    A run that is resumed keeps the length with which it began. So the run is the same, whatever
    else the machine does, and its run.flags replay it.

    Raises:
      ConfigError: the training cannot be timed, or is one of several processes.
    """
    if not config.minutes:
        return config
    kind = config.training.strategy
    if kind == "multiworker":
        raise ConfigError(
            "minutes", config.minutes, f"--strategy={kind} cannot be timed; give --train_steps"
        )
    if tf.io.gfile.exists(f"{config.workdir}/run.flags"):
        length = read_config(config.workdir, PretrainConfig).training
        print(f"--minutes: the run in {config.workdir} keeps its length", flush=True)
        return replace(
            config,
            minutes=0.0,
            train_steps=length.train_steps,
            train_epochs=length.train_epochs,
        )
    trial = replace(config, minutes=0.0, probe_every=0)
    with waiting_for("timing a step"):
        seconds = pace.seconds_of_step("cpc_tf.pretrain", to_flagfile(trial).splitlines())
    steps = max(1, round(60 * config.minutes / seconds))
    print(f"--minutes={config.minutes:g}: {steps} steps of {seconds:.3g} s", flush=True)
    return replace(config, minutes=0.0, train_steps=steps)
