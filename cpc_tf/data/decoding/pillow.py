"""WebP and TIFF, which TensorFlow cannot decode in all its versions: headers and pixels by Pillow.

TensorFlow calls these functions and would log an exception with its traceback. So whatever Pillow raises, they return
an empty array.
"""

from __future__ import annotations

import contextlib
import io

import numpy as np
from PIL import ImageOps, TiffImagePlugin, WebPImagePlugin

_BITS, _PHOTOMETRIC, _ORIENTATION, _PLANES = 258, 262, 274, 284  # tags of TIFF
_WHITE_IS_0, _SEPARATE = 0, 2


def header(data: bytes) -> np.ndarray:
    """int64 [5]: height and width as stored, pixels, bits of a value, number of frames or pages (2: 2 or more)."""
    with contextlib.suppress(Exception):
        image = _open(data)
        width, height = image.size
        if image.format == "TIFF" and orientation(data) >= 5:  # Pillow's size is that of the picture as shown
            width, height = height, width
        return np.array([height, width, height * width, _bits(image), 1 + image.is_animated], np.int64)
    return np.zeros(0, np.int64)


def orientation(data: bytes) -> np.ndarray:
    """int32 scalar: EXIF orientation, 1 to 8; 1 if there is none that can be read."""
    with contextlib.suppress(Exception):
        found = _open(data).getexif().get(_ORIENTATION)
        return np.int32(found if found in range(1, 9) else 1)
    return np.int32(1)


def pixels(data: bytes, levels: tuple[float, float] | None) -> np.ndarray:
    """uint8 [H, W, 3]: the first frame or page as it is shown; `levels` as of `decode.decode`."""
    with contextlib.suppress(Exception):
        image = _open(data)
        if _bits(image) <= 8:
            # What Pillow loads of a TIFF is turned already, and no longer says that it must be.
            image.load()
            return np.asarray(ImageOps.exif_transpose(image).convert("RGB"))
        if levels:
            low, high = np.float32(levels)
            found = np.round((values(data) - low) * (np.float32(255) / (high - low)))
        else:
            found = values(data) // 256
        return np.clip(np.nan_to_num(found), 0, 255).astype(np.uint8)
    return np.zeros(0, np.uint8)


def values(data: bytes) -> np.ndarray:
    """float32 [H, W, 3]: what is stored in a TIFF of more than 8 bits, as it is shown."""
    with contextlib.suppress(Exception):
        image = _open(data)
        if image.mode in ("RGB", "RGBA"):
            return _colours(data)
        image.load()
        grey = np.asarray(image).astype(np.float32)
        if image.tag_v2.get(_PHOTOMETRIC) == _WHITE_IS_0:  # Pillow sees to it in 8 bits only
            grey = (65535 if _bits(image) == 16 else 0) - grey
        return np.repeat(grey[..., None], 3, axis=-1) if image.mode[0] in "IF" else np.zeros(0, np.float32)
    return np.zeros(0, np.float32)


def _open(data):
    # Not Image.open: it warns of large pictures, and refuses larger ones. See DataConfig.max_megapixels.
    kind = WebPImagePlugin.WebPImageFile if data.startswith(b"RIFF") else TiffImagePlugin.TiffImageFile
    image = kind(io.BytesIO(data))
    image.info.pop("xmp", None)  # Pillow also takes the orientation from there, other viewers do not.
    return image


def _bits(image):
    return max(image.tag_v2.get(_BITS, (1,))) if image.format == "TIFF" else 8


def _colours(data):
    """As `values`. Pillow keeps one byte of two: the upper one, in the order of bytes that it is told."""
    found = {}
    for order in "LB":
        image = _open(data)
        modes = {tile.args[0][:-1] for tile in image.tile}
        if image.tag_v2.get(_PLANES) == _SEPARATE or not modes <= {"RGB;16", "RGBA;16", "RGBX;16"}:
            raise ValueError("a kind of TIFF of which Pillow reads 8 bits only")
        image.tile = [tile._replace(args=(tile.args[0][:-1] + order, *tile.args[1:])) for tile in image.tile]
        # Compressed files are unpacked in this machine's order.
        native = all(tile.codec_name == "libtiff" for tile in image.tile)
        little = native or data.startswith(b"II")
        image.load()
        found[(order == "L") == little] = np.asarray(image)[..., :3].astype(np.float32)
    return 256 * found[True] + found[False]
