"""Inputs that strangers might send, as bytes."""

import struct
import zlib

_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def declared_png(width: int, height: int) -> bytes:
    """A PNG that says that it has this size, and has no pixels."""
    head = _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    return _SIGNATURE + head + _chunk(b"IDAT", zlib.compress(b"")) + _chunk(b"IEND", b"")


def lying_png(png: bytes) -> bytes:
    """The same PNG behind a chunk that decoders skip, and whose numbers are where those of the
    header should be.
    """
    return (
        _SIGNATURE
        + _chunk(b"teSt", struct.pack(">IIBBBBB", 4, 4, 8, 0, 0, 0, 0))
        + png[len(_SIGNATURE) :]
    )


def declared_gif(*sizes: tuple[int, int], screen: tuple[int, int] = (4, 4)) -> bytes:
    """A GIF of frames that say that they have these sizes (width, height), and have no pixels."""
    frames = [b"," + struct.pack("<HHHHB", 0, 0, *size, 0) + b"\x02\x01\x00\x00" for size in sizes]
    control = b"!\xf9\x04" + bytes(5)
    return b"GIF89a" + struct.pack("<HHBBB", *screen, 0, 0, 0) + control + b"".join(frames) + b";"


def _chunk(kind: bytes, content: bytes) -> bytes:
    return (
        struct.pack(">I", len(content))
        + kind
        + content
        + struct.pack(">I", zlib.crc32(kind + content))
    )
