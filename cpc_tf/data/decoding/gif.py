"""The header of a GIF: its blocks up to the pixels, and from frame to frame."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np


def header(data: bytes) -> np.ndarray:
    """int64 [5]: height and width of the first frame, pixels, bits of a value (8), number of frames.

    The pixels are as many as TensorFlow needs memory for. It holds all frames while it decodes the first, with a byte
    for a pixel instead of three.

    Empty if there is no frame, or this is no GIF: TensorFlow would log an exception with its traceback.
    """
    frames = list(_frames(data)) if data.startswith(b"GIF8") else []
    if not frames:
        return np.zeros(0, np.int64)
    sizes = [height * width for height, width in frames]
    return np.array([*frames[0], max(sizes[0], sum(sizes) // 3), 8, len(frames)], np.int64)


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
