"""Names the files behind an error in reading data: files changed since they were checked, or damaged records."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import tensorflow as tf

from cpc_tf.data.source import Examples
from cpc_tf.settings import ConfigError
from cpc_tf.texts import listed


@contextlib.contextmanager
def fetching(*sources: Examples) -> Iterator[None]:
    """Turns errors of changed files or damaged records of these sources into a ConfigError that names the files.

    A run with changed files cannot go on: its order of examples is a function of the files at its start. Errors of any
    other cause are raised unchanged, so a whole training may run inside.
    """
    try:
        yield
    # UnicodeDecodeError: raised for an error of TensorFlow's whose text shows bytes of a file.
    except (tf.errors.OpError, UnicodeDecodeError) as error:
        if changed := [path for source in sources for path in source.changed()]:
            raise ConfigError(
                f"{listed(changed)}: changed or gone since this run checked the folder of --dataset; put it back, "
                "and the same command goes on; a training on the files as they are now needs another --workdir"
            ) from error
        if not isinstance(error, (tf.errors.DataLossError, tf.errors.NotFoundError)):
            raise
        if damaged := [path for source in sources for path in source.damaged()]:
            raise ConfigError(
                f"{listed(damaged)}: cannot be read to the end; move the folder away, and the same command prepares "
                "--dataset again and goes on"
            ) from error
        raise
