"""--encoder=keras_hub:PRESET: a network of KerasHub, exported once as a SavedModel.

KerasHub needs Keras 3, and this process has Keras 2. So `keras_hub_export` runs in a process of its
own, which also keeps the network out of the memory and the distribution strategy of this one. The
SavedModel stays in the cache, where it is a third-party module like any other.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import pathlib
import subprocess
import sys

import tensorflow as tf

from cpc_tf.core.files import cache_folder, writing, written_aside
from cpc_tf.core.locks import LOCK, lock
from cpc_tf.core.settings import ConfigError
from cpc_tf.core.texts import shown
from cpc_tf.encoders.networks import KERAS_HUB

# What writes the SavedModel: python -m PROGRAM PRESET DIRECTORY.
PROGRAM = "cpc_tf.encoders.keras_hub_export"


def directory_of_preset(preset: str) -> str:
    """Returns the directory of the SavedModel of a preset, which is written at its first use.

    KerasHub downloads a preset that is not a directory, into its own cache.

    Args:
      preset: a name that KerasHub knows, a handle as hf://USER/MODEL, or a directory that its
        `save_to_preset` wrote.

    Raises:
      ConfigError: KerasHub is not installed, there is no such preset, it cannot be downloaded, or
        it is no encoder of images.
      NotWritten: the cache cannot be written to.
    """
    if not preset:
        raise ConfigError("encoder", KERAS_HUB, f"is empty: name a preset, {KERAS_HUB}dinov2_small")
    version = _installed_version(preset)
    if os.path.isdir(os.path.expanduser(preset)):
        preset = os.path.abspath(os.path.expanduser(preset))

    # Another preset, other files of it or another version: another SavedModel.
    lines = [version, tf.__version__, preset, *_files(preset)]
    digest = hashlib.sha256("\n".join(lines).encode(errors="surrogateescape")).hexdigest()
    name = os.path.basename(preset.rstrip("/"))
    directory = os.path.join(cache_folder(), "keras_hub", digest[:16], name)

    # One process writes it, others wait.
    folder = os.path.dirname(directory)
    with writing(directory):
        os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, LOCK), "w") as file:
        lock(file)
        if not os.path.exists(directory):
            with written_aside(directory, "encoder") as new:
                _export(preset, new)
    return directory


def _installed_version(preset: str) -> str:
    """Returns the version of KerasHub. Raises ConfigError if there is none."""
    try:
        return importlib.metadata.version("keras-hub")
    except importlib.metadata.PackageNotFoundError:
        pass
    if tuple(map(int, tf.__version__.split(".")[:2])) < (2, 16) or sys.version_info < (3, 11):
        reason = (
            "KerasHub needs the current environment (TensorFlow 2.21) with Python 3.11 or later:"
            " docs/install.md; the classic environment reads the SavedModel that it writes"
        )
    else:
        reason = 'KerasHub is not installed: pip install "cpc_tf[keras-hub]"'
    raise ConfigError("encoder", shown(KERAS_HUB + preset), reason)


def _files(preset: str) -> list[str]:
    """Returns paths, sizes and times of the files of a preset in a directory; of others nothing."""
    stamps = []
    for path in sorted(pathlib.Path(preset).rglob("*")):
        status = path.stat()
        stamps.append(f"{path} {status.st_size} {status.st_mtime_ns}")
    return stamps


def _export(preset: str, directory: str) -> None:
    """Writes the SavedModel. Raises ConfigError with the reason that the program prints."""
    root = str(pathlib.Path(__file__).parents[2])
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {
        **os.environ,
        "KERAS_BACKEND": "tensorflow",
        "CUDA_VISIBLE_DEVICES": "-1",
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "PYTHONPATH": os.pathsep.join(paths),
    }
    # The progress of a download goes to this process's error output.
    command = [sys.executable, "-m", PROGRAM, preset, directory]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        lines = done.stdout.strip().splitlines()
        reason = lines[-1] if lines else f"the export ended with status {done.returncode}"
        raise ConfigError("encoder", shown(KERAS_HUB + preset), reason)
