"""The code as one file for the hosts of a TPU, with the settings of the run and what pip installs."""

from __future__ import annotations

import importlib.metadata
import io
import pathlib
import re
import tarfile

from cpc_tf.launch.config import LaunchConfig
from cpc_tf.launch.training import Training

PACKAGE = pathlib.Path(__file__).parent.parent


def write(path: str, config: LaunchConfig, training: Training) -> None:
    """Writes a tar.gz with cpc_tf, run.flags and requirements.txt.

    Args:
      path: of the file.
      config, training: what is launched.
    """
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        archive.add(PACKAGE, "cpc_tf", filter=_source)
        _add(archive, "run.flags", training.flags)
        _add(archive, "requirements.txt", requirements(config))


def requirements(config: LaunchConfig) -> str:
    """Returns the classic environment as pip reads it, with the image's TensorFlow, which is built for TPUs."""
    path = PACKAGE.parent / "requirements.txt"
    if path.exists():
        lines = path.read_text().splitlines()
    else:  # not a checkout: the wheel has the same lines as an extra
        lines = [line for line in importlib.metadata.requires("cpc_tf") if 'extra == "classic"' in line]
    lines = [re.sub(r'( and|;) extra == "classic"', "", line) for line in lines]
    lines = [re.sub(r"^tensorflow==\S+", f"tensorflow=={config.tensorflow}", line) for line in lines]
    if config.is_pod:
        lines.append("cloud-tpu-client")  # finds the hosts by the TPU's name
    return "\n".join(lines) + "\n"


def _source(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if info.name.endswith(("__pycache__", ".pyc", ".so")) else info


def _add(archive: tarfile.TarFile, name: str, text: str) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(text.encode())
    archive.addfile(info, io.BytesIO(text.encode()))
