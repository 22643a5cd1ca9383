"""Where a module is written: aside, until it is whole and checked."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator

import tensorflow as tf

from cpc_tf import leftovers
from cpc_tf.settings import ConfigError


@contextlib.contextmanager
def written_aside(output: str) -> Iterator[str]:
    """A directory beside `output` that becomes `output` if all goes well, and goes away if not.

    Raises:
      ConfigError: if `output` exists, or cannot be made.
    """
    output = output.rstrip("/")
    if not output:
        raise ConfigError("--output= is empty: name a directory for the module, e.g. --output=runs/first/hub")
    if tf.io.gfile.exists(output):
        raise ConfigError(f"--output={output}: exists already; remove it or take another name")
    folder, name = os.path.split(output)
    leftovers.remove(folder or ".", re.escape(name) + r"\.\d+\.tmp")
    aside = f"{output}.{os.getpid()}.tmp"
    with writing(output):
        tf.io.gfile.makedirs(aside)
    try:
        yield aside
        with writing(output):
            tf.io.gfile.rename(aside, output)
    finally:
        if tf.io.gfile.exists(aside):
            tf.io.gfile.rmtree(aside)


@contextlib.contextmanager
def writing(output: str) -> Iterator[None]:
    """Within it what TensorFlow cannot write is a ConfigError."""
    try:
        yield
    except (tf.errors.OpError, OSError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(f"--output={output}: cannot be written ({reason}); name a directory that can be") from error
