"""What Python reads, by Pillow: WebP, TIFF and BMP, EXIF orientation, and headers of GIF.
TensorFlow reads the rest.

TensorFlow calls these functions and would log an exception with its traceback. So whatever Pillow
raises, they return an empty array.
"""

from __future__ import annotations

import contextlib
import io
import logging
import struct
import warnings
from typing import BinaryIO

import numpy as np
from PIL import ImageFile, ImageOps
from PIL.BmpImagePlugin import BmpImageFile
from PIL.GifImagePlugin import GifImageFile
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile
from PIL.TiffImagePlugin import ImageFileDirectory_v2, TiffImageFile
from PIL.WebPImagePlugin import WebPImageFile

_BY_BEGIN = {
    b"\xff\xd8": JpegImageFile,
    b"\x89PNG": PngImageFile,
    b"RIFF": WebPImageFile,
    b"GIF8": GifImageFile,
    b"BM": BmpImageFile,
    b"II": TiffImageFile,
    b"MM": TiffImageFile,
}

# Damaged EXIF is no orientation; Pillow's warnings and its log do not name the file.
warnings.filterwarnings("ignore", category=UserWarning, module="PIL.TiffImagePlugin")
logging.getLogger("PIL.TiffImagePlugin").setLevel(logging.CRITICAL)

# tags of TIFF
_BITS = 258
_PHOTOMETRIC = 262
_ORIENTATION = 274
_BANDS = 277
_PLANES = 284
_WHITE_IS_0 = 0
_SEPARATE = 2
# how an extension and a frame begin
_GIF_PARTS = (b"!", b",")
_GIF_FRAME = 0x2C


def header(data: bytes) -> np.ndarray:
    """Returns int64 [5]: stored height and width, pixels, bits of a value, number of frames or
    pages (2: 2 or more).
    """
    with contextlib.suppress(Exception):
        if data.startswith(b"GIF8"):
            return np.array(_gif_header(data), np.int64)
        image = _open(data)
        width, height = image.size
        # Pillow's size is that of the image as shown.
        if image.format == "TIFF" and orientation(data) >= 5:
            width, height = height, width
        frames = 1 + getattr(image, "is_animated", False)
        return np.array([height, width, height * width, _bits(image), frames], np.int64)
    return np.zeros(0, np.int64)


def orientation(data: bytes) -> np.ndarray:
    """Returns the EXIF orientation, int32 scalar, 1 to 8; 1 if there is none that can be read."""
    with contextlib.suppress(Exception):
        tag = _open(data).getexif().get(_ORIENTATION)
        return np.int32(tag if tag in range(1, 9) else 1)
    return np.int32(1)


def pixels(data: bytes, intensity_range: tuple[float, float] | None) -> np.ndarray:
    """Decodes the first frame or page as it is shown, uint8 [H, W, 3]; `intensity_range` as in
    `decode.decode`.
    """
    with contextlib.suppress(Exception):
        image = _open(data)
        if _bits(image) <= 8:
            image.load()  # turns a TIFF, and then drops its orientation
            return np.asarray(ImageOps.exif_transpose(image).convert("RGB"))
        if intensity_range:
            low, high = np.float32(intensity_range)
            levels = np.round((values(data) - low) * (np.float32(255) / (high - low)))
        else:
            levels = values(data) // 256
        return np.clip(np.nan_to_num(levels), 0, 255).astype(np.uint8)
    return np.zeros(0, np.uint8)


def values(data: bytes) -> np.ndarray:
    """Returns the stored values of a TIFF of more than 8 bits, as it is shown: float32 [H, W,
    3].
    """
    with contextlib.suppress(Exception):
        image = _open(data)
        if image.mode in ("RGB", "RGBA"):
            return _sixteen_bit_colours(data)
        image.load()
        grey = np.asarray(image).astype(np.float32)
        if image.tag_v2.get(_PHOTOMETRIC) == _WHITE_IS_0:  # Pillow inverts only images of 8 bits
            grey = (65535 if _bits(image) == 16 else 0) - grey
        if image.mode[0] in "IF":
            return np.repeat(grey[..., None], 3, axis=-1)
        return np.zeros(0, np.float32)
    return np.zeros(0, np.float32)


def bands(file: BinaryIO) -> int:
    """Returns how many values a pixel of a TIFF has, 0 if its header cannot be read. Reads the
    header alone.
    """
    with contextlib.suppress(Exception):
        file.seek(0)
        head = file.read(16)
        is_large = b"+" in head[2:4]  # BigTIFF, whose header is longer
        tags = ImageFileDirectory_v2(head[: 16 if is_large else 8])
        file.seek(tags.next)
        tags.load(file)
        return int(tags.get(_BANDS, 1))
    return 0


def _gif_header(data: bytes) -> list[int]:
    """As `header`. The size of the whole, which Pillow also looks at, does not limit the sizes of
    the frames.

    TensorFlow decodes the size of the first frame. Meanwhile it holds all frames, with a byte for a
    pixel instead of three.
    """

    def palette(flags: int) -> int:
        return 3 * 2 ** (flags % 8 + 1) if flags >= 128 else 0

    first = []
    frames = 0
    held = 0
    largest = 0
    place = 13 + palette(data[10])
    while data[place : place + 1] in _GIF_PARTS:
        if data[place] == _GIF_FRAME:
            padded = data.ljust(place + 10, b"\0")
            width, height, flags = struct.unpack_from("<HHB", padded, place + 5)
            first = first or [height, width]
            frames = frames + 1
            held = held + height * width
            largest = max(largest, height * width)
            place += 11 + palette(flags)
        else:
            place += 2
        # Blocks of at most 255 bytes, each behind its length, up to one of length 0.
        while place < len(data) and data[place]:
            place += 1 + data[place]
        place += 1
    return [*first, max(held // 3, largest), 8, frames]


def _open(data: bytes) -> ImageFile.ImageFile:
    # Not Image.open: it warns of large images, and refuses larger ones. See
    # DataConfig.max_megapixels.
    image = next(kind for begin, kind in _BY_BEGIN.items() if data.startswith(begin))(
        io.BytesIO(data)
    )
    # Pillow also takes the orientation from there, other viewers do not.
    for name in ("xmp", "XML:com.adobe.xmp"):
        image.info.pop(name, None)
    return image


def _bits(image: ImageFile.ImageFile) -> int:
    return max(image.tag_v2.get(_BITS, (1,))) if image.format == "TIFF" else 8


def _sixteen_bit_colours(data: bytes) -> np.ndarray:
    """As `values`. Pillow keeps one byte of two: the upper one, in the byte order that it is
    told.
    """
    planes = {}
    for order in "LB":
        image = _open(data)
        modes = {tile.args[0][:-1] for tile in image.tile}
        if image.tag_v2.get(_PLANES) == _SEPARATE or not modes <= {"RGB;16", "RGBA;16", "RGBX;16"}:
            raise ValueError("a kind of TIFF of which Pillow reads 8 bits only")
        image.tile = [
            tile._replace(args=(tile.args[0][:-1] + order, *tile.args[1:])) for tile in image.tile
        ]
        # Compressed files are unpacked in this machine's byte order.
        native = all(tile.codec_name == "libtiff" for tile in image.tile)
        little = native or data.startswith(b"II")
        image.load()
        planes[(order == "L") == little] = np.asarray(image)[..., :3].astype(np.float32)
    return 256 * planes[True] + planes[False]
