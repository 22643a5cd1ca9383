"""The code as one file for the hosts of a TPU, with the settings of the run and what pip installs."""

from __future__ import annotations

import importlib.metadata
import io
import os
import pathlib
import re
import secrets
import shlex
import tarfile

from cpc_tf.launch.config import LaunchConfig
from cpc_tf.launch.training import Training

SECRET = "feed.secret"  # the file with what the feeds and the training know
PACKAGE = pathlib.Path(__file__).parent.parent


def write(path: str, config: LaunchConfig, training: Training) -> None:
    """Writes a tar.gz with cpc_tf, run.flags, requirements.txt and, if there are feeds, a secret for them.

    Args:
      path: of the file, which nobody else can read.
      config, training: what is launched.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "wb") as file, tarfile.open(fileobj=file, mode="w:gz", compresslevel=1) as archive:
        archive.add(PACKAGE, "cpc_tf", filter=_source)
        _add(archive, "run.flags", training.flags)
        _add(archive, "requirements.txt", requirements(config))
        if training.is_fed:
            _add(archive, SECRET, secrets.token_hex(32), mode=0o600)


def script(config: LaunchConfig, training: Training) -> list[str]:
    """Returns commands of a shell that do what `write` does, into "$folder/cpc_tf.tar.gz"."""
    names = ["run.flags", "requirements.txt", *[SECRET] * training.is_fed]
    lines = ["folder=$(mktemp -d)"]
    for name, text in zip(names, (training.flags, requirements(config))):
        lines += [f"cat > \"$folder/{name}\" << 'END'", text.rstrip("\n"), "END"]
    if training.is_fed:
        lines.append(f'(umask 077 && od -An -N32 -tx1 /dev/urandom > "$folder/{SECRET}")')
    excluded = " ".join(shlex.quote(f"--exclude={pattern}") for pattern in ("__pycache__", "*.pyc", "*.so"))
    code = shlex.quote(str(PACKAGE.parent))
    pack = f'tar -czf "$folder/cpc_tf.tar.gz" {excluded} -C {code} cpc_tf -C "$folder" {" ".join(names)}'
    return [*lines, f"(umask 077 && {pack})"]


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


def _add(archive: tarfile.TarFile, name: str, text: str, mode: int = 0o644) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(text.encode()), mode
    archive.addfile(info, io.BytesIO(text.encode()))
