"""Fills the script that trains on a Cloud TPU, or the task for SkyPilot, from a template; prints, writes or runs it."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.metadata
import json
import os
import pathlib
import re
import shlex
import shutil
import sys
from collections.abc import Sequence

import jinja2

from cpc_tf.core import cli
from cpc_tf.core.commands import TASKS
from cpc_tf.core.settings import ConfigError, Settings, flatten, leaves, replace, to_flagfile
from cpc_tf.core.texts import shown
from cpc_tf.launch.config import LaunchConfig

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
      config: where it runs. The training gets the flags that its devices need.
      words: the task and its flags, as after `cpc-tf`.

    Raises:
      ConfigError: there is no such task, or its settings cannot work there.
    """
    config.check_complete()
    if not words or words[0] not in TASKS:
        problem = f"{shown(words[0])}: cannot be launched" if words else "nothing to train"
        raise ConfigError(
            f"{problem}; put one of {', '.join(TASKS)} after the flags of launch, e.g. {_EXAMPLE}"
        )
    settings = cli.parse(TASKS[words[0]].config, words[1:])
    inside = re.fullmatch(r"gs://[^/]+/+(.+)", settings.workdir.rstrip("/"))
    if not inside:
        raise ConfigError(
            "workdir",
            shown(settings.workdir),
            f"must be a folder in a bucket, since the disk of the machine is lost with it, e.g. {_EXAMPLE}",
        )
    if {"", ".", ".."} & {*inside[1].split("/")}:
        raise ConfigError(
            "workdir",
            shown(settings.workdir),
            "must be without '.', '..' and double slashes: the result comes to "
            "this path below the folder that you are in",
        )
    _refuse_local_paths(settings)
    if settings.training.batch_size % config.devices:
        raise ConfigError(
            "batch_size",
            settings.training.batch_size,
            f"cannot be divided among the {config.devices} devices of --accelerator_type={config.accelerator_type}",
        )
    name = (
        config.name
        or f"cpc-{hashlib.sha256(settings.workdir.rstrip('/').encode()).hexdigest()[:10]}"
    )
    if config.is_tpu:
        settings = replace(settings, strategy="tpu", tpu=name if config.is_pod else "local")
    native = flatten(settings).get("augment_engine", "reference") != "reference"
    return Training(words[0], settings, name, config.output or inside[1], native and config.is_pod)


def _refuse_local_paths(settings: Settings) -> None:
    """Raises ConfigError if a setting names a file or folder of this machine, maybe after a word such as 'folder:'."""
    values = flatten(settings)
    for _, field in leaves(type(settings)):
        value = values[field.name]
        if not isinstance(value, str):
            continue
        kind, colon, rest = value.partition(":")
        path = rest if colon and kind.isalpha() else value
        # 'photos' is a dataset even where a file or folder has that name.
        if (field.metadata["path"] or re.search("[./:]", value)) and os.path.exists(path):
            raise ConfigError(
                field.name,
                shown(value),
                "lies on this machine, which the other one does not see; copy it into "
                "the bucket with `gcloud storage cp -r` and name it there",
            )


FEED_PORT = 8480  # of the input server on each host of a pod
_TEMPLATES = {"gcloud": "tpu.sh.jinja", "skypilot": "skypilot.yaml.jinja"}
_PACKAGE = pathlib.Path(__file__).parent.parent


def main(config: LaunchConfig, *words: str) -> None:
    """The command `cpc-tf launch`; `words` are those after the `--`."""
    launch(config, read(config, words))


def launch(config: LaunchConfig, training: Training) -> None:
    """Prints or writes the script or task, or replaces this process by the script, which sets the exit status.

    Args:
      config: where it runs.
      training: what is trained.

    Raises:
      ConfigError: the file cannot be written, or there is no gcloud.
    """
    text = fill(config, training)
    if config.script:
        try:
            pathlib.Path(config.script).write_text(text)
        except OSError as error:
            raise ConfigError(
                "script", shown(config.script), f"cannot be written ({error.strerror})"
            ) from error
    elif config.dry_run or config.format != "gcloud":
        print(text, end="")
    elif shutil.which("gcloud"):
        sys.stdout.flush()
        os.execvp("bash", ["bash", "-c", text, "cpc-tf launch"])
    else:
        raise ConfigError("gcloud: not installed; see https://cloud.google.com/sdk")


def fill(config: LaunchConfig, training: Training) -> str:
    """Returns the script or the task."""
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(pathlib.Path(__file__).parent),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    templates.filters |= {"q": shlex.quote, "yaml": json.dumps}  # JSON is YAML
    where = [
        f"--zone={config.zone}",
        *([f"--project={config.project}"] if config.project else []),
        "--quiet",
    ]
    group, force = (
        ("queued-resources", ["--force"]) if config.queue else ("tpu-vm", [])
    )  # force: with its TPU
    return templates.get_template(_TEMPLATES[config.format]).render(
        config=config,
        training=training,
        name=training.name,
        where=shlex.join(where),
        bought=_more(["--spot"] * config.spot + shlex.split(config.create_flags)),
        ssh_flags=_more(shlex.split(config.ssh_flags)),
        delete=shlex.join(
            ["gcloud", "compute", "tpus", group, "delete", training.name, *where, *force]
        ),
        ready="ACTIVE" if config.queue else "READY",
        poll=f"{config.poll:g}",
        feed_port=FEED_PORT,
        variables=_more(_variables(config, training)),
        requirements=requirements(config),
        code=str(_PACKAGE.parent),
    )


def _variables(config: LaunchConfig, training: Training) -> list[str]:
    """Returns the variables of the training's environment.

    On one host its process loads the library of the TPU. On a pod servers on all hosts hold the TPU, and it finds them.
    """
    if not config.is_tpu:
        return []
    if not config.is_pod:
        return [
            "NEXT_PLUGGABLE_DEVICE_USE_C_API=true",
            "TF_PLUGGABLE_DEVICE_LIBRARY_PATH=/lib/libtpu.so",
        ]
    fed = [f"CPC_TF_FEED=:{FEED_PORT}", "CPC_TF_FEED_SECRET=feed.secret"] if training.is_fed else []
    return [f"TPU_NAME={training.name}", "TPU_LOAD_LIBRARY=0", *fed]


def requirements(config: LaunchConfig) -> str:
    """Returns the classic environment as pip reads it; on a TPU with the TensorFlow of its image, which is for TPUs."""
    if (_PACKAGE.parent / "requirements.txt").exists():
        names = ["requirements.txt", *([] if config.is_tpu else ["requirements-gpu.txt"])]
        lines = [
            line for name in names for line in (_PACKAGE.parent / name).read_text().splitlines()
        ]
    else:  # not a checkout: the wheel has the same lines as an extra
        extra = f'extra == "{"classic" if config.is_tpu else "classic-gpu"}"'
        lines = [line for line in importlib.metadata.requires("cpc_tf") if extra in line]
        lines = [re.sub(rf"( and|;) {extra}", "", line) for line in lines]
    if config.is_tpu:
        lines = [
            re.sub(r"^tensorflow==\S+", f"tensorflow=={config.tensorflow}", line) for line in lines
        ]
    if config.is_pod:
        lines.append("cloud-tpu-client")  # finds the hosts by the TPU's name
    return "\n".join(lines) + "\n"


def _more(words: list[str]) -> str:
    """Returns words that follow others in a line of a shell."""
    return "".join(f" {shlex.quote(word)}" for word in words)
