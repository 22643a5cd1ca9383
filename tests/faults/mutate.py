"""Random damage to bytes and to texts of flags, all of it a function of a numpy generator."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

TOKENS = (
    *(b"", b"\0", b"\xff", b"\r\n", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"../", b"%s", b"&amp;", b"<!DOCTYPE a>", b"<"),
    *(b"NaN", b"Infinity", b"-1", b"0", b"1e999", b"9" * 30, b"null", b"true", b"{}", b"[]", b'""', b'"', b"{", b"]"),
)
NUMBERS = ("nan", "inf", "-inf", "-1", "0", "1e-320", "1e30", "1e38", "1e400", str(2**31), str(2**63), "9" * 23, "")
WORDS = (
    "",
    " ",
    "\n",
    "\0",
    "\t",
    "\x1b[0m",
    "..",
    "/",
    "a" * 5000,
    "[x]",
    "*",
    "?",
    "\\",
    "=1",
    "é",
    "\udc80",
    "none",
)


def damaged(random: np.random.Generator, corpus: Sequence[bytes]) -> bytes:
    """One of some files with one to four mutations: bits, spans, tokens, its end, a part of another file."""
    data = bytearray(corpus[random.integers(len(corpus))])
    for _ in range(random.integers(1, 5)):
        start = int(random.integers(len(data) + 1))
        span = slice(start, start + int(random.integers(1, 64)))
        kind = random.integers(7)
        if kind == 0 and start < len(data):
            data[start] ^= 1 << int(random.integers(8))
        elif kind == 1:
            del data[span]
        elif kind == 2:
            data[start:start] = data[span]
        elif kind == 3:
            data[start:start] = TOKENS[random.integers(len(TOKENS))]
        elif kind == 4:
            del data[start:]
        elif kind == 5:
            data[span] = random.bytes(len(data[span]))
        else:
            other = corpus[random.integers(len(corpus))]
            data[start:] = other[int(random.integers(len(other) + 1)) :]
    return bytes(data)


def flag_values(random: np.random.Generator, names: Sequence[str]) -> list[str]:
    """One to three flags of some names, with values at and beyond the ends of what numbers and texts can be."""
    values = (*NUMBERS, *WORDS)
    chosen = random.choice(names, size=random.integers(1, 4))
    return [f"--{name}={values[random.integers(len(values))]}" for name in chosen]
