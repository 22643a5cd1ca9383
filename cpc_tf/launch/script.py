"""Fills the script that trains on a Cloud TPU, or the task for SkyPilot, from a template; prints, writes or runs it."""

from __future__ import annotations

import importlib.metadata
import json
import os
import pathlib
import re
import shlex
import shutil
import sys

import jinja2

from cpc_tf.launch.config import LaunchConfig
from cpc_tf.launch.training import Training, read
from cpc_tf.settings import ConfigError
from cpc_tf.texts import shown

FEED_PORT = 8480  # of the input server on each host of a pod
_TEMPLATES = {"gcloud": "tpu.sh.jinja", "skypilot": "skypilot.yaml.jinja"}
_PACKAGE = pathlib.Path(__file__).parent.parent


def main(config: LaunchConfig, *words: str) -> None:
    """The command `cpc-tf launch`; `words` are those after the `--`."""
    launch(config, read(config, words))


def launch(config: LaunchConfig, training: Training) -> None:
    """Prints or writes what trains, or becomes it: the script ends by itself, with its own exit status.

    Args:
      config: on what.
      training: what is trained.

    Raises:
      ConfigError: the file cannot be written, or there is no gcloud.
    """
    text = fill(config, training)
    if config.script:
        try:
            pathlib.Path(config.script).write_text(text)
        except OSError as error:
            raise ConfigError(f"--script={shown(config.script)}: cannot be written ({error.strerror})") from error
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
    where = [f"--zone={config.zone}", *([f"--project={config.project}"] if config.project else []), "--quiet"]
    group, force = ("queued-resources", ["--force"]) if config.queue else ("tpu-vm", [])  # force: with its TPU
    return templates.get_template(_TEMPLATES[config.format]).render(
        config=config,
        training=training,
        name=training.name,
        where=shlex.join(where),
        bought=_more(["--spot"] * config.spot + shlex.split(config.create_flags)),
        ssh_flags=_more(shlex.split(config.ssh_flags)),
        delete=shlex.join(["gcloud", "compute", "tpus", group, "delete", training.name, *where, *force]),
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
        return ["NEXT_PLUGGABLE_DEVICE_USE_C_API=true", "TF_PLUGGABLE_DEVICE_LIBRARY_PATH=/lib/libtpu.so"]
    fed = [f"CPC_TF_FEED=:{FEED_PORT}", "CPC_TF_FEED_SECRET=feed.secret"] if training.is_fed else []
    return [f"TPU_NAME={training.name}", "TPU_LOAD_LIBRARY=0", *fed]


def requirements(config: LaunchConfig) -> str:
    """Returns the classic environment as pip reads it; on a TPU with the TensorFlow of its image, which is for TPUs."""
    if (_PACKAGE.parent / "requirements.txt").exists():
        names = ["requirements.txt", *([] if config.is_tpu else ["requirements-gpu.txt"])]
        lines = [line for name in names for line in (_PACKAGE.parent / name).read_text().splitlines()]
    else:  # not a checkout: the wheel has the same lines as an extra
        extra = f'extra == "{"classic" if config.is_tpu else "classic-gpu"}"'
        lines = [line for line in importlib.metadata.requires("cpc_tf") if extra in line]
        lines = [re.sub(rf"( and|;) {extra}", "", line) for line in lines]
    if config.is_tpu:
        lines = [re.sub(r"^tensorflow==\S+", f"tensorflow=={config.tensorflow}", line) for line in lines]
    if config.is_pod:
        lines.append("cloud-tpu-client")  # finds the hosts by the TPU's name
    return "\n".join(lines) + "\n"


def _more(words: list[str]) -> str:
    """Returns words that follow others in a line of a shell."""
    return "".join(f" {shlex.quote(word)}" for word in words)
