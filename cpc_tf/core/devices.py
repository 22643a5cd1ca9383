"""The devices of a run: one line that names them, and what to do about a GPU that TensorFlow does
not use.

python -m cpc_tf.core.devices    # computes on each GPU, or says why there is none
"""

from __future__ import annotations

import glob
import importlib.metadata
import os
import platform
import subprocess
import sys

import tensorflow as tf

import cpc_tf

SIZE = 1024  # of the matrices that a GPU is tried with
_CPUINFO = "/proc/cpuinfo"


def describe(
    strategy: tf.distribute.Strategy, precision: str = "float32", xla: bool = False
) -> str:
    """Returns the first line of a run, e.g. "devices: 2 GPUs (NVIDIA L4); precision bfloat16; XLA
    on".

    Args:
      strategy: of the run.
      precision: of activations and convolutions.
      xla: whether XLA compiles the gradient; a TPU always does.
    """
    specs = [tf.DeviceSpec.from_string(name) for name in strategy.extended.worker_devices]
    kind = specs[0].device_type
    here = len(specs)
    if kind == "GPU":
        names = gpu_names()
        present = tf.config.get_visible_devices("GPU")
        used = ", ".join(sorted({names[spec.device_index] for spec in specs}))
        text = (
            f"{here} GPU{'s' * (here > 1)}{f' of {len(present)}' * (here < len(present))} ({used})"
        )
    elif kind == "TPU":
        text = f"{here} TPU core{'s' * (here > 1)}"
    else:
        vectors = {"avx512f": "AVX-512", "avx2": "AVX2", "avx": "AVX"}
        flags = _processor_flags()
        widest = next((name for flag, name in vectors.items() if flag in flags), platform.machine())
        count = len(cores())
        text = (
            f"{here} {'logical CPUs' if here > 1 else 'CPU'} ({widest}, {count}"
            f" core{'s' * (count > 1)})"
        )
    replicas = strategy.num_replicas_in_sync
    text += f" in this process, {replicas} in all" * (replicas > here)
    return f"devices: {text}; precision {precision}; XLA {'on' if xla or kind == 'TPU' else 'off'}"


def unused_gpu() -> str:
    """Returns a warning if there is an NVIDIA driver and TensorFlow finds no GPU; else an empty
    string.

    Whoever hides the GPUs with an empty CUDA_VISIBLE_DEVICES, or with -1, is not warned.
    """
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1")
    if hidden or tf.config.list_physical_devices("GPU") or not has_driver():
        return ""
    return (
        "this machine has an NVIDIA driver, but TensorFlow finds no GPU and computes on the CPU:"
        f" {_remedy()}"
    )


def slow_precision(strategy: tf.distribute.Strategy, precision: str) -> str:
    """Returns a warning if a run computes on a CPU that emulates its 16-bit precision; else an
    empty string.
    """
    specs = [tf.DeviceSpec.from_string(name) for name in strategy.extended.worker_devices]
    has = _processor_flags()
    on_cpu = all(spec.device_type == "CPU" for spec in specs)
    if precision == "float32" or not on_cpu or not has or "avx512f" in has:
        return ""
    return (
        f"--precision={precision}: this processor has no AVX-512 and emulates it; a run with"
        " --precision=float32 takes about a third of the time here, and rounds differently"
    )


def has_driver() -> bool:
    """Returns whether this process may use an NVIDIA driver; setup.sh asks the same."""
    if glob.glob("/dev/nvidia[0-9]*"):
        return True
    try:
        return not subprocess.run(["nvidia-smi", "-L"], capture_output=True, check=False).returncode
    except OSError:
        return False


def gpu_names() -> list[str]:
    """Returns the name of each GPU that TensorFlow may use."""
    details = map(tf.config.experimental.get_device_details, tf.config.get_visible_devices("GPU"))
    return [detail.get("device_name", "unknown") for detail in details]


def cores() -> list[int]:
    """Returns the cores that this process may use."""
    return (
        sorted(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else list(range(os.cpu_count() or 1))
    )


def compute_on(device: str) -> None:
    """Multiplies two matrices on a device, compiled by XLA as training is. Raises RuntimeError if
    that fails.
    """
    # exp, too: XLA needs CUDA's compiler and its library of functions for it.
    product = tf.function(lambda a, b: tf.exp(tf.matmul(a, b)), jit_compile=True, autograph=False)
    try:
        with tf.device(device):
            ones = tf.ones([SIZE, SIZE])
            made = product(ones, ones / SIZE)
        ran_on = tf.DeviceSpec.from_string(made.device)
        largest = float(tf.reduce_max(tf.abs(made - tf.exp(1.0))))
    except tf.errors.OpError as error:
        raise RuntimeError(
            f"{device} cannot multiply two matrices ({str(error).splitlines()[0]})"
        ) from error
    if ran_on.device_type != tf.DeviceSpec.from_string(device).device_type or not largest < 0.1:
        raise RuntimeError(
            f"{device} cannot multiply two matrices (on {made.device} the product is {largest} off)"
        )


def main() -> None:
    """Computes on each GPU and prints a line for each; exits with a line that says what to do if
    that fails.
    """
    names = gpu_names()
    if not names:
        sys.exit(
            f"error: TensorFlow {tf.__version__} finds no GPU: {_remedy()}; make GPU=0 sets up"
            " without"
        )
    for index, name in enumerate(names):
        try:
            compute_on(f"/device:GPU:{index}")
        except RuntimeError as error:
            sys.exit(f"error: {name}: {error}; see docs/scale.md; make GPU=0 sets up without a GPU")
        print(f"GPU: {name}, a test product of two matrices ran on it", flush=True)


def _remedy() -> str:
    """What to do where TensorFlow finds no GPU."""
    try:
        importlib.metadata.version("nvidia-cudnn-cu12")
    except importlib.metadata.PackageNotFoundError:
        return (
            f"CUDA's libraries are missing; install them with `make GPU=1` or pip install"
            f' "tensorflow[and-cuda]=='
            f'{tf.__version__}"'
        )
    return (
        "CUDA's libraries are installed; the driver must be 525.60 or newer (nvidia-smi shows it),"
        " and `TF_CPP_MIN_LOG_LEVEL=0 python -m cpc_tf.core.devices` shows TensorFlow's reason"
    )


def _processor_flags() -> list[str]:
    """What an x86 processor can do, as Linux names it; empty elsewhere."""
    try:
        with open(_CPUINFO) as file:
            return next((line.split() for line in file if line.startswith("flags")), [])
    except OSError:
        return []


if __name__ == "__main__":
    cpc_tf.prepare_environment()
    main()
