"""A run keeps to the values that its first start found for black and white in pictures of more than 8 bits."""

from __future__ import annotations

import tensorflow as tf

from cpc_tf.files import read_json, to_json
from cpc_tf.settings import ConfigError
from cpc_tf.training.workdir import Workdir

_FILE = "levels.json"


def keep(workdir: Workdir, levels: tuple[float, float] | None) -> None:
    """Notes the levels of a run's pictures when it begins.

    Raises:
      ConfigError: the run began with others. Without a note, a run that has begun used the upper 8 bits.
    """
    path = workdir.file(_FILE)
    there = tf.io.gfile.exists(path)
    if not tf.io.gfile.exists(workdir.file("run.flags")):
        if levels or there:  # of a start that was refused
            workdir.write(_FILE, to_json({"levels": levels}))
        return
    noted = read_json(path).get("levels") if there else None
    noted = tuple(noted) if noted else None
    if noted != levels:
        before, now = ("{:g} to {:g}".format(*some) if some else "the upper 8 bits" for some in (noted, levels))
        raise ConfigError(
            f"--workdir={workdir.path}: the run began with {before} as the values of 16-bit pictures, and the files "
            f"of --dataset now give {now}; put the files back as they were, or take another --workdir"
        )
