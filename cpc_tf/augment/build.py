"""Builds the native engine with the system's C++ compiler: `python -m cpc_tf.augment.build`.

The library lands in a cache outside the repository (CPC_TF_CACHE, or ~/.cache/cpc_tf) under a name made of TensorFlow's
version and a hash of the sources and flags: a change of either builds anew, and nothing stale is ever loaded.
"""

from __future__ import annotations

import hashlib
import os
import pathlib
import platform
import shutil
import subprocess
import tempfile

import tensorflow as tf

SOURCES = tuple(pathlib.Path(__file__).parent / name for name in ("op.cc", "patch.h", "pixel.h", "recipe.h"))
# No fused multiply-add: the native engine must round like TensorFlow's separate operations and like PIL. The two
# -fno-... let the compiler vectorise comparisons and floor; they do not change values.
FLAGS = ("-O3", "-shared", "-fPIC", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-DNDEBUG", "-w")


class BuildError(RuntimeError):
    """The native engine cannot be built or loaded here."""


def library_path() -> pathlib.Path:
    """Where the library belongs."""
    cache = os.environ.get("CPC_TF_CACHE") or pathlib.Path(
        os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache", "cpc_tf"
    )
    digest = hashlib.sha256("\0".join(_flags()).encode())
    for source in SOURCES:
        digest.update(source.read_bytes())
    return pathlib.Path(cache, f"augment-tf{tf.__version__}-{platform.machine()}-{digest.hexdigest()[:16]}.so")


def build() -> pathlib.Path:
    """Compiles the library unless it is there already, and says where it is."""
    path = library_path()
    if path.exists():
        return path
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++")
    if not compiler:
        raise BuildError("no C++ compiler found (g++ or c++, or name one in CXX)")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".part")
        os.close(handle)
    except OSError as error:
        raise BuildError(f"cannot write to {path.parent} (CPC_TF_CACHE names another place): {error}") from error
    try:
        command = [compiler, str(SOURCES[0]), "-o", temporary, *_flags()]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BuildError(f"{compiler} failed:\n{done.stderr.strip()[-2000:]}")
        os.replace(temporary, path)  # Others building at the same time never see half a library.
    except OSError as error:
        raise BuildError(f"cannot run {compiler}: {error}") from error
    finally:
        pathlib.Path(temporary).unlink(missing_ok=True)
    return path


def _flags() -> list[str]:
    return [*FLAGS, *tf.sysconfig.get_compile_flags(), *tf.sysconfig.get_link_flags()]


if __name__ == "__main__":
    try:
        print(build())
    except BuildError as failure:
        raise SystemExit(f"error: {failure}") from None
