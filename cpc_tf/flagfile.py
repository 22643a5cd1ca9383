"""Flag files, read as absl reads them; but what absl passes over or dies of is refused."""

from __future__ import annotations

import os
from collections.abc import Sequence

from cpc_tf.settings import ConfigError
from cpc_tf.texts import shown

_LARGEST = 2**20  # characters: what is larger is something else
_LONGEST_NAME = 100  # of a flag; absl would compare a longer one for minutes, to say what may have been meant


def expanded(words: Sequence[str], within: tuple[str, ...] = ()) -> list[str]:
    """The words of a command line with those of a file in place of each --flagfile=FILE.

    Args:
      words: of the command line, or lines of a file.
      within: the files that these are lines of, from the outermost on.

    Raises:
      ConfigError: a file cannot be read, or includes itself.
    """
    found, rest = [], list(words)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if name in ("--flagfile", "-flagfile"):
            if not equals and (within or not rest):
                raise ConfigError("--flagfile: name a file, e.g. --flagfile=flags/photos/pretrain.flags")
            path = os.path.expanduser(value.strip() if equals else rest.pop(0))
            found += expanded(_lines(path, within), (*within, os.path.realpath(path))) if path else []
        elif word.startswith("-") and len(name) > _LONGEST_NAME:
            raise ConfigError(f"{shown(name)}: no such flag, see --help")
        else:
            found.append(word)
    return found


def _lines(path: str, within: tuple[str, ...]) -> list[str]:
    """The lines of a flag file, without comments."""
    where = f"--flagfile={shown(path)}"
    if "\0" in path:
        raise ConfigError(f"{where}: no name of a file")
    if os.path.realpath(path) in within:
        raise ConfigError(f"{where}: includes itself; take that line out of {shown(within[-1])}")
    try:
        with open(path, encoding="utf-8-sig") as file:
            text = file.read(_LARGEST + 1)
    except OSError as error:
        raise ConfigError(f"{where}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{where}: no text; a flag file has lines such as --batch_size=64") from error
    if len(text) > _LARGEST:
        raise ConfigError(f"{where}: too large to be a flag file, which has lines such as --batch_size=64")
    lines = [line for line in text.split("\n") if not line.startswith(("#", "//"))]
    return [line.strip() for line in lines if line.strip()]
