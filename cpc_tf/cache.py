"""The folder of what is made once and kept between runs, and findings about files that are remembered there."""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from collections.abc import Callable, Iterable

import numpy as np
import tensorflow as tf
from absl import logging

from cpc_tf.files import NotWritten, reason, remove_leftovers, write_file

Findings = dict[str, np.ndarray]


def folder() -> str:
    """Returns CPC_TF_CACHE, or the folder cpc_tf of XDG_CACHE_HOME, or ~/.cache/cpc_tf. It need not exist."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.environ.get("CPC_TF_CACHE") or os.path.join(home, "cpc_tf")


def remember(
    kind: str,
    key: Iterable[str],
    make: Callable[[], Findings],
    is_sound: Callable[..., bool],
    *,
    place: str = "",
    again: str = "the folder will be checked again",
) -> Findings:
    """Returns `make()`, or what it returned before for the same key.

    Args:
      kind: of the findings; a folder has its name.
      key: lines of all that the findings depend on, such as names, sizes and times of files.
      make: finds them out: {name: array}.
      is_sound: called with the arrays that are remembered, by their names: whether they can be what `make` returns.
      place: where findings are kept; empty: `folder()`.
      again: what follows if they cannot be kept, for a warning.
    """
    digest = hashlib.sha256()
    for line in key:
        digest.update(f"{line}\n".encode())
    here = os.path.join(os.path.expanduser(place) or folder(), kind)
    path = os.path.join(here, digest.hexdigest()[:32] + ".npz")
    try:
        with tf.io.gfile.GFile(path, "rb") as file, np.load(io.BytesIO(file.read()), allow_pickle=False) as arrays:
            found = {name: arrays[name] for name in arrays.files}
        if is_sound(**found):
            return found
    # No file, or a damaged one.
    except (tf.errors.OpError, OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile):
        pass
    found = make()
    remove_leftovers(here, r"[0-9a-f]{32}\.npz\.\d+\.tmp")
    stream = io.BytesIO()
    np.savez(stream, **found)
    try:
        write_file(path, stream.getvalue())
    except (NotWritten, UnicodeError) as error:  # only a cache
        logging.warning("%s: cannot be written, %s: %s", path, again, reason(error.__cause__ or error))
    return found
