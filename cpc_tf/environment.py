"""TensorFlow's environment variables, as our programs and functions want them; whoever has set one keeps it."""

from __future__ import annotations

import os
import platform


def prepare() -> None:
    """Sets them for this process and those that it starts, before TensorFlow looks at its devices."""
    # GPUs: memory is taken as it is needed, so that several processes can share one.
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    # oneDNN's convolutions on every x86 processor: TensorFlow takes them only where there is AVX-512; its own are
    # slower.
    if platform.machine() in ("x86_64", "AMD64"):
        os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
