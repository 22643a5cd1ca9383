"""Native code: the C++ operations, functions that XLA compiles, and products in full float32 on
every device.

The system's compiler builds our operations on first use, in `files.cache_folder()`. A library's
name holds TensorFlow's version and a hash of sources and flags: a change of any builds a new
library, and no stale one is loaded.
"""

from __future__ import annotations

import contextlib
import contextvars
import hashlib
import os
import pathlib
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator

import tensorflow as tf

from cpc_tf.core import native
from cpc_tf.core.files import cache_folder
from cpc_tf.core.progress import waiting_for

# No fused multiply-add, so that results round as in TensorFlow's separate operations and in PIL.
# The two -fno-... let the compiler vectorise comparisons, floor and roots; they do not change
# values.
FLAGS = (
    "-O3",
    "-shared",
    "-fPIC",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-DNDEBUG",
)

# Name of operations that call Python, and so run only in the process that made them. Their errors
# have it in the text.
IN_PYTHON = "in_python"

_SHARED = pathlib.Path(__file__).parent  # the folder of native.h

_LOADED: dict[str, str] = {}

_ALLOWED = contextvars.ContextVar("allowed", default=False)


@contextlib.contextmanager
def allowed(value: bool = True) -> Iterator[None]:
    """Enables the C++ operations in what this thread traces inside the context.

    They are not allowed elsewhere: an exported module must run without our libraries, and XLA
    cannot compile them.
    """
    token = _ALLOWED.set(value)
    try:
        yield
    finally:
        _ALLOWED.reset(token)


def is_allowed() -> bool:
    """Returns whether we are inside `allowed`."""
    return _ALLOWED.get()


def loaded() -> dict[str, str]:
    """Returns {name: file} of the libraries that this process has loaded; equal files compute the
    same.
    """
    return dict(_LOADED)


def runs_on_cpu() -> bool:
    """Returns whether TensorFlow has no accelerator here."""
    return not any(map(tf.config.list_logical_devices, ("GPU", "TPU")))


class BuildError(RuntimeError):
    """A library cannot be built or loaded here."""


class Library:
    """A shared library of TensorFlow operations: all C++ files of a folder."""

    def __init__(self, name: str, folder: pathlib.Path):
        self.name, self.sources = name, sorted(folder.glob("*.cc"))
        self._headers = [*sorted(folder.glob("*.h")), _SHARED / "native.h"]

    def path(self) -> pathlib.Path:
        """Returns the path of the library, built or not."""
        digest = hashlib.sha256("\0".join(self._flags()).encode())
        for source in (*self.sources, *self._headers):
            digest.update(source.read_bytes())
        file = f"{self.name}-tf{tf.__version__}-{platform.machine()}-{digest.hexdigest()[:16]}.so"
        return pathlib.Path(cache_folder(), file)

    def build(self) -> pathlib.Path:
        """Compiles the library unless it exists, and returns its path. Raises BuildError."""
        path = self.path()
        if path.exists():
            return path
        compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++")
        if not compiler:
            raise BuildError("no C++ compiler found (g++ or c++, or name one in CXX)")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=path.parent) as folder:
                library = pathlib.Path(folder, "library.so")
                command = [
                    compiler,
                    *map(str, self.sources),
                    "-o",
                    str(library),
                    f"-I{_SHARED}",
                    *self._flags(),
                ]
                with waiting_for(
                    f"compiling the C++ operations of {self.name}, once for this machine"
                ):
                    done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode:
                    raise BuildError(f"{compiler} failed:\n{done.stderr.strip()[-2000:]}")
                os.replace(library, path)  # other processes never see half a library
        except OSError as error:
            raise BuildError(
                f"cannot run {compiler} or write to {path.parent} (CPC_TF_CACHE names another"
                f" folder): {error}"
            ) from error
        return path

    def load(self):
        """Returns the module of the library's operations, built first if needed. Raises
        BuildError.
        """
        path = self.build()
        try:
            module = tf.load_op_library(str(path))
        except (tf.errors.OpError, OSError) as error:
            raise BuildError(f"cannot load {path}: {error}") from error
        _LOADED[self.name] = path.name
        return module

    def _flags(self) -> list[str]:
        return [*FLAGS, *tf.sysconfig.get_compile_flags(), *tf.sysconfig.get_link_flags()]


_COMPILED = contextvars.ContextVar("compiled", default=False)

# xla.PrecisionConfig: operand_precision HIGHEST of both operands.
_HIGHEST = bytes([0x0A, 2, 2, 2])


@contextlib.contextmanager
def tracing(compiled: bool) -> Iterator[None]:
    """Declares whether XLA compiles what this thread traces inside the context; `matmul` and
    `native` depend on it.
    """
    token = _COMPILED.set(compiled)
    try:
        with native.allowed(not compiled):
            yield
    finally:
        _COMPILED.reset(token)


def jit(function: Callable) -> Callable:
    """Returns the function, compiled by XLA."""

    def traced(*args):
        with tracing(compiled=True):
            return function(*args)

    return tf.function(traced, autograph=False, jit_compile=True)


def matmul(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    """Computes a times b transposed, and its gradients, in full float32 on every device.

    XLA multiplies float32 in TF32 on NVIDIA's GPUs from Ampere on, and in a single bfloat16 pass on
    TPUs, unless a product asks for more: this one asks for the precision HIGHEST. Without XLA, GPUs
    compute it in float64, since TensorFlow can turn TF32 off only for all products and
    convolutions.

    Args:
      a: float32 [G, n, D].
      b: float32 [G, m, D].

    Returns:
      float32 [G, n, m].
    """
    if _COMPILED.get():
        product = _dot
    elif tf.config.list_logical_devices("GPU"):
        product = _in_float64
    else:
        return tf.matmul(a, b, transpose_b=True)

    @tf.custom_gradient
    def run(a: tf.Tensor, b: tf.Tensor):
        return product(a, b, 2, 2), lambda upstream: (
            product(upstream, b, 2, 1),
            product(upstream, a, 1, 1),
        )

    return run(a, b)


def _dot(a: tf.Tensor, b: tf.Tensor, a_axis: int, b_axis: int) -> tf.Tensor:
    """The batched product that sums over these axes of a and b, [G, ..., ...] each."""
    # no public operation takes a precision
    from tensorflow.compiler.tf2xla.ops.gen_xla_ops import (
        xla_dot,
    )

    # xla.DotDimensionNumbers: contracting dimensions of a and b, batch dimensions of a and b.
    fields = enumerate((a_axis, b_axis, 0, 0), start=1)
    numbers = b"".join(bytes([field << 3 | 2, 1, axis]) for field, axis in fields)
    return xla_dot(a, b, dimension_numbers=numbers, precision_config=_HIGHEST)


def _in_float64(a: tf.Tensor, b: tf.Tensor, a_axis: int, b_axis: int) -> tf.Tensor:
    a = tf.cast(a, tf.float64)
    b = tf.cast(b, tf.float64)
    return tf.cast(tf.matmul(a, b, transpose_a=a_axis == 1, transpose_b=b_axis == 2), tf.float32)
