"""What the fuzzer attacks, and what a refusal looks like."""

from __future__ import annotations

import abc
import pathlib

import numpy as np

from cpc_tf.settings import ConfigError

LONGEST = 1000  # characters of a message


class Target(abc.ABC):
    """Something to attack.

    Args:
      room: an empty folder of its own.
    """

    def __init__(self, room: pathlib.Path):
        self.room = room

    @abc.abstractmethod
    def case(self, random: np.random.Generator) -> bytes:
        """An input."""

    @abc.abstractmethod
    def check(self, data: bytes) -> bool:
        """Whether the input was accepted; raises whatever is neither that nor the refusal that is promised."""


def refused(error: ConfigError) -> bool:
    """That a refusal is one readable line; False, for `check`."""
    text = str(error)
    assert "\n" not in text, "a refusal of several lines"
    assert len(text) <= LONGEST, f"a refusal of {len(text)} characters"
    assert text.isprintable() or not any(ord(letter) < 32 for letter in text), "a refusal with control characters"
    return False
