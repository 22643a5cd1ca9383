"""Pictures as they come in Python: folders, files, arrays and PIL images, as a value of --pictures."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any, Union

import numpy as np
from PIL import Image, ImageOps

from cpc_tf.settings import ConfigError

One = Union[str, os.PathLike, np.ndarray, Image.Image]
# A folder (with all below it), a file, a list of files; an array uint8 or of floats in [0, 1], [H, W, 3] or
# [N, H, W, 3]; a PIL image; a list of arrays and PIL images of any sizes.
Images = Union[One, Sequence[One]]


@contextlib.contextmanager
def as_flag(images: Images) -> Iterator[str]:
    """Yields pictures as a value of --pictures. Arrays are files without loss, '000000.png' and so on, meanwhile.

    Raises:
      ConfigError: there is no picture, or one is none.
    """
    if isinstance(images, (str, os.PathLike)):
        yield os.fspath(images)
        return
    is_one = isinstance(images, Image.Image) or getattr(images, "ndim", 0) == 3
    items = [images] if is_one else list(images)
    if not items:
        raise ConfigError("pictures: there are none")
    are_files = [isinstance(each, (str, os.PathLike)) for each in items]
    if any(are_files) and not all(are_files):
        raise ConfigError("pictures: files beside arrays; give either files or arrays")
    with tempfile.TemporaryDirectory(prefix="cpc_tf_pictures") as folder:
        if all(are_files):
            path = os.path.join(folder, "pictures.txt")
            with open(path, "wb") as file:
                file.write(b"".join(os.fsencode(each) + b"\n" for each in items))
            yield path
            return
        for index, image in enumerate(items):
            Image.fromarray(_pixels(image, index)).save(os.path.join(folder, f"{index:06}.png"), compress_level=1)
        yield folder


def _pixels(image: Any, index: int) -> np.ndarray:
    """Returns a picture as uint8 [H, W, 3]; a PIL image is turned as its EXIF says, as its file would be."""
    if isinstance(image, Image.Image):
        if image.mode[0] in "IF":  # their values would be cut off at 255
            raise ConfigError(f"picture {index}: a PIL image of mode {image.mode}, of more than 8 bits; give its file")
        image = ImageOps.exif_transpose(image).convert("RGB")
    found = np.asarray(image)
    if found.ndim != 3 or found.shape[-1] != 3 or 0 in found.shape:
        raise ConfigError(f"picture {index}: an array of shape {list(found.shape)}; must be [height, width, 3], RGB")
    if found.dtype == np.uint8:
        return found
    if not np.issubdtype(found.dtype, np.floating) or not (found.min() >= 0 and found.max() <= 1):
        raise ConfigError(
            f"picture {index}: {found.dtype} values of {found.min():g} to {found.max():g}; must be uint8, or floats of "
            "0 to 1"
        )
    return np.round(found * 255).astype(np.uint8)
