"""What checks of folders have found, remembered in files."""

from __future__ import annotations

import json
import os

import tensorflow as tf
from absl import logging

from cpc_tf import leftovers
from cpc_tf.files import reason

_CACHE = "~/.cache/cpc_tf"


def path(cache_dir: str, digest: str) -> str:
    """The file of the outcome for a folder with this digest; cache_dir may be empty: ~/.cache/cpc_tf."""
    return os.path.join(os.path.expanduser(cache_dir or _CACHE), "checked_folders", digest + ".json")


def recall(outcome: str, names: list[str], kinds: tuple[str, ...]) -> dict[str, list[str]] | None:
    """{kind: its files} of an earlier check of these files. None if there was none, or it cannot be of these."""
    try:
        with tf.io.gfile.GFile(outcome) as file:
            record = json.load(file)
        found = {kind: record[kind] for kind in kinds}
        known = set(names)
        sound = all(isinstance(some, list) and known.issuperset(some) for some in found.values())
    # TypeError: a list or a number instead of an object, or of a name.
    except (tf.errors.OpError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return found if sound and record.get("files") == len(names) else None


def remember(outcome: str, record: dict) -> None:
    """Writes aside and renames, so that nobody reads half a file; a cache that cannot be written is no error."""
    aside = f"{outcome}.{os.getpid()}"
    folder = os.path.dirname(outcome)
    try:
        tf.io.gfile.makedirs(folder)
        leftovers.remove(folder, r"[0-9a-f]{32}\.json\.\d+")
        with tf.io.gfile.GFile(aside, "w") as file:
            json.dump(record, file, indent=1)
        tf.io.gfile.rename(aside, outcome, overwrite=True)
    except (tf.errors.OpError, UnicodeError) as error:
        logging.warning("%s: cannot be written, the folder will be checked again: %s", outcome, reason(error))
