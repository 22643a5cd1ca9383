"""Names the files behind an error over data that were sound when they were checked."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import tensorflow as tf

from cpc_tf.data.source import Examples
from cpc_tf.settings import ConfigError
from cpc_tf.texts import listed


@contextlib.contextmanager
def fetching(*sources: Examples) -> Iterator[None]:
    """Within it, whatever fails after files of these sources have changed or vanished becomes one line that names them.

    What has another cause is raised as it is, so that a whole training can stand in it.

    Raises:
      ConfigError: the run cannot go on: its order of examples is a function of the files that it found at its start.
    """
    try:
        yield
    # UnicodeDecodeError: an error of TensorFlow's whose text shows bytes of a file.
    except (tf.errors.OpError, UnicodeDecodeError) as error:
        changed = [path for source in sources for path in source.changed()]
        if not changed:
            raise
        raise ConfigError(
            f"{listed(changed)}: changed or gone since this run checked the folder of --dataset; put it back, or leave "
            "it so: the same command checks the folder again and goes on"
        ) from error
