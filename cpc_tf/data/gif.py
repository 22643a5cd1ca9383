"""The header of a GIF: its blocks up to the pixels, and from frame to frame."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np


def header(data: bytes) -> np.ndarray:
    """int64 (height, width, pixels of all frames together); height and width are those of the first frame.

    Empty if there is no frame, or this is no GIF: TensorFlow would log an exception with its traceback.
    """
    frames = list(_frames(data)) if data.startswith(b"GIF8") else []
    return np.array([*frames[0], sum(height * width for height, width in frames)] if frames else [], np.int64)


def _frames(data: bytes) -> Iterator[tuple[int, int]]:
    """(height, width) of each frame, as far as the blocks are whole."""
    try:
        place = 13 + _colours(data[10])
        while data[place : place + 1] in (b",", b"!"):
            if data[place : place + 1] == b",":
                width, height, flags = struct.unpack_from("<HHB", data, place + 5)
                yield height, width
                place += 11 + _colours(flags)  # behind the least size of a code
            else:
                place += 2  # behind the kind of the extension
            while data[place]:
                place += data[place] + 1
            place += 1
    except (IndexError, struct.error):
        return


def _colours(flags):
    """Bytes of the table of colours that follows such flags."""
    return 3 << (flags % 8 + 1) if flags & 0x80 else 0
