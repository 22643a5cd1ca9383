"""WebP and TIFF, which TensorFlow cannot decode in all its versions: headers and pixels by Pillow."""

from __future__ import annotations

import io

import numpy as np
from PIL import ImageOps, TiffImagePlugin, WebPImagePlugin

_ORIENTATION = 0x0112  # a tag of EXIF and of TIFF


def header(data: bytes) -> np.ndarray:
    """int64 [3]: height and width as stored, and EXIF orientation, 1 to 8. Empty if there is no such picture."""
    try:
        image = _open(data)
        orientation = image.getexif().get(_ORIENTATION, 1)
        orientation = orientation if orientation in range(1, 9) else 1
        width, height = image.size
        if image.format == "TIFF" and orientation >= 5:  # Pillow's size is that of the picture as shown
            width, height = height, width
        return np.array([height, width, orientation], np.int64)
    except Exception:  # whatever Pillow meets in the file: TensorFlow would log it with its traceback
        return np.zeros(0, np.int64)


def pixels(data: bytes) -> np.ndarray:
    """uint8 [H, W, 3]: the first frame or page as it is shown, without alpha. Empty if it cannot be decoded."""
    try:
        image = _open(data)
        image.load()
        return np.asarray(ImageOps.exif_transpose(image).convert("RGB"))
    except Exception:
        return np.zeros(0, np.uint8)


def _open(data):
    # Not Image.open: it warns of large pictures, and refuses larger ones. See DataConfig.max_megapixels.
    kind = WebPImagePlugin.WebPImageFile if data.startswith(b"RIFF") else TiffImagePlugin.TiffImageFile
    image = kind(io.BytesIO(data))
    image.info.pop("xmp", None)  # Pillow also takes the orientation from there, other viewers do not.
    return image
