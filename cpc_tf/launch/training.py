"""What is launched: a task with its settings, checked on this machine before another one costs money."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re
from collections.abc import Sequence

from cpc_tf import cli
from cpc_tf.commands import COMMANDS, TASKS
from cpc_tf.launch.config import LaunchConfig
from cpc_tf.settings import ConfigError, Settings, flatten, leaves, replace, to_flagfile
from cpc_tf.texts import shown

_EXAMPLE = "-- pretrain --preset=imagenet/pretrain_resnet50 --workdir=gs://my-bucket/runs/imagenet/resnet50/pretrain"


@dataclasses.dataclass(frozen=True)
class Training:
    """A task with its settings."""

    task: str
    config: Settings
    name: str  # of the TPU
    local: str  # folder of this machine for the result
    is_fed: bool  # whether the hosts' TensorFlow servers need input servers, since they lack our C++ operations

    @property
    def workdir(self) -> str:
        """The run's directory, in a bucket."""
        return self.config.workdir.rstrip("/")

    @property
    def flags(self) -> str:
        """Flag file of all its settings."""
        return to_flagfile(self.config)


def read(config: LaunchConfig, words: Sequence[str]) -> Training:
    """Returns the training that the words after `--` describe.

    Args:
      config: on what. The training gets the flags that its devices need.
      words: the task and its flags, as after `cpc-tf`.

    Raises:
      ConfigError: there is no such task, or its settings cannot work there.
    """
    config.check_complete()
    if not words or words[0] not in TASKS:
        what = f"{shown(words[0])}: cannot be launched" if words else "nothing to train"
        raise ConfigError(f"{what}; put one of {', '.join(TASKS)} after the flags of launch, e.g. {_EXAMPLE}")
    settings = cli.parse(COMMANDS[words[0]].config, words[1:])
    inside = re.fullmatch(r"gs://[^/]+/+(.+)", settings.workdir.rstrip("/"))
    if not inside:
        raise ConfigError(
            f"--workdir={shown(settings.workdir)}: must be a folder in a bucket, since the disk of the machine is "
            f"lost with it, e.g. {_EXAMPLE}"
        )
    if {"", ".", ".."} & {*inside[1].split("/")}:
        raise ConfigError(
            f"--workdir={shown(settings.workdir)}: must be without '.', '..' and double slashes: the result comes to "
            "this path below the folder that you are in"
        )
    _refuse_local_paths(settings)
    if settings.training.batch_size % config.devices:
        raise ConfigError(
            f"--batch_size={settings.training.batch_size}: cannot be divided among the {config.devices} devices of "
            f"--accelerator_type={config.accelerator_type}"
        )
    name = config.name or f"cpc-{hashlib.sha256(settings.workdir.rstrip('/').encode()).hexdigest()[:10]}"
    if config.is_tpu:
        settings = replace(settings, strategy="tpu", tpu=name if config.is_pod else "local")
    native = flatten(settings).get("augment_engine", "reference") != "reference"
    return Training(words[0], settings, name, config.output or inside[1], native and config.is_pod)


def _refuse_local_paths(settings: Settings) -> None:
    """Raises ConfigError if a setting names a file or folder of this machine."""
    values = flatten(settings)
    for _, field in leaves(type(settings)):
        value = values[field.name]
        if isinstance(value, str) and _is_here(value, field.metadata["path"]):
            raise ConfigError(
                f"--{field.name}={shown(value)}: lies on this machine, which the other one does not see; copy it into "
                "the bucket with `gcloud storage cp -r` and name it there"
            )


def _is_here(value: str, is_path: bool) -> bool:
    """Returns whether a text names something on this machine, maybe after a word such as 'folder:'."""
    kind, colon, rest = value.partition(":")
    path = rest if colon and kind.isalpha() else value
    # 'photos' is a dataset even where a file or folder has that name.
    return (is_path or bool(re.search("[./:]", value))) and os.path.exists(path)
