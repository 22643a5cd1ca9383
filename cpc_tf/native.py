"""Our operations in C++: built with the system's compiler when first needed, and where a step may use them.

A library lands in a cache outside the repository (CPC_TF_CACHE, or ~/.cache/cpc_tf) under a name made of TensorFlow's
version and a hash of the sources, flags and generated headers: a change of any builds anew, and nothing stale is ever
loaded.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import hashlib
import os
import pathlib
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterator

import tensorflow as tf

from cpc_tf import cache

# No fused multiply-add: what is computed rounds like TensorFlow's separate operations and like PIL. The two
# -fno-... let the compiler vectorise comparisons, floor and roots; they do not change values.
FLAGS = ("-O3", "-shared", "-fPIC", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-DNDEBUG")

SHARED = pathlib.Path(__file__).parent  # where native.h is

_ALLOWED = contextvars.ContextVar("allowed", default=False)


@contextlib.contextmanager
def allowed(value: bool = True) -> Iterator[None]:
    """Within it, what is traced by this thread may use our operations in place of TensorFlow's.

    Elsewhere it may not: a module that is exported must run without our libraries, and XLA compiles none of them.
    """
    token = _ALLOWED.set(value)
    try:
        yield
    finally:
        _ALLOWED.reset(token)


def is_allowed() -> bool:
    """Whether `allowed` holds here."""
    return _ALLOWED.get()


def runs_on_cpu() -> bool:
    """Whether TensorFlow has no accelerator here."""
    return not any(map(tf.config.list_logical_devices, ("GPU", "TPU")))


class BuildError(RuntimeError):
    """A library cannot be built or loaded here."""


@dataclasses.dataclass(frozen=True)
class Library:
    """A shared library of TensorFlow operations.

    Args:
      name: the beginning of the file's name.
      sources: the files that are compiled.
      headers: the files that they include.
      flags: of the compiler, beside TensorFlow's.
      generated: headers that are written for the compiler to include: name -> text.
    """

    name: str
    sources: tuple[pathlib.Path, ...]
    headers: tuple[pathlib.Path, ...]
    flags: tuple[str, ...] = FLAGS
    generated: dict[str, str] = dataclasses.field(default_factory=dict)

    def path(self) -> pathlib.Path:
        """Where the library belongs."""
        digest = hashlib.sha256("\0".join([*self._all_flags(), *self.generated.values()]).encode())
        for source in (*self.sources, *self.headers, SHARED / "native.h"):
            digest.update(source.read_bytes())
        return pathlib.Path(
            cache.folder(), f"{self.name}-tf{tf.__version__}-{platform.machine()}-{digest.hexdigest()[:16]}.so"
        )

    def build(self) -> pathlib.Path:
        """Compiles the library unless it is there already, and says where it is. Raises BuildError."""
        path = self.path()
        if path.exists():
            return path
        compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++")
        if not compiler:
            raise BuildError("no C++ compiler found (g++ or c++, or name one in CXX)")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            folder = tempfile.TemporaryDirectory(dir=path.parent)
        except OSError as error:
            raise BuildError(f"cannot write to {path.parent} (CPC_TF_CACHE names another folder): {error}") from error
        with folder:
            library = pathlib.Path(folder.name, "library.so")
            for header, text in self.generated.items():
                pathlib.Path(folder.name, header).write_text(text)
            include = [f"-I{folder.name}", f"-I{SHARED}"]
            command = [compiler, *map(str, self.sources), "-o", str(library), *include, *self._all_flags()]
            try:
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode:
                    raise BuildError(f"{compiler} failed:\n{done.stderr.strip()[-2000:]}")
                os.replace(library, path)  # Others building at the same time never see half a library.
            except OSError as error:
                raise BuildError(f"cannot run {compiler}: {error}") from error
        return path

    def load(self):
        """The module of the library's operations; the library is built first if need be. Raises BuildError."""
        path = self.build()
        try:
            return tf.load_op_library(str(path))
        except (tf.errors.OpError, OSError) as error:
            raise BuildError(f"cannot load {path}: {error}") from error

    def _all_flags(self) -> list[str]:
        return [*self.flags, *tf.sysconfig.get_compile_flags(), *tf.sysconfig.get_link_flags()]
