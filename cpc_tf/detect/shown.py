"""How large pictures and objects are shown to a detector: what follows from their sizes, unless it is set."""

from __future__ import annotations

import math

import numpy as np

from cpc_tf.data.config import CanvasConfig
from cpc_tf.data.source import Sizes
from cpc_tf.detect.config import DetectConfig
from cpc_tf.settings import open_settings, replace

_USUAL = (5, 95)  # percentiles of the sizes of objects
_STEP = 2.0  # largest factor between two sizes of anchors, that of the C4 recipe
_LEAST_ANCHOR = 4  # px; smaller objects are beyond the features
_FITS = 2.0  # factor between an object and the nearest anchor up to which the anchor fits
_MOST_UNFIT = 0.05  # of the objects


def fitted(config: DetectConfig, sizes: Sizes) -> tuple[DetectConfig, str]:
    """Returns the settings with --area_scale and --anchor_sizes that fit the training images, where they are not set.

    Args:
      config: of the run.
      sizes: of the training images and their objects.

    Returns:
      The settings, and a line for the user on the sizes of objects as shown.
    """
    derived = not {"area_scale", "anchor_sizes"}.isdisjoint(open_settings(config))
    if not config.canvas.area_scale:
        config = replace(config, area_scale=area_scale(config.canvas, sizes.images))
    objects = object_sizes(config.canvas, sizes)
    if not config.detector.anchors.anchor_sizes:
        config = replace(config, anchor_sizes=",".join(map(str, anchor_sizes(config.canvas, objects))))
    return config, described(config, objects, derived)


def area_scale(canvas: CanvasConfig, images: np.ndarray) -> float:
    """Returns the largest scale at which half of the images, heights and widths [N, 2], fit on the canvas whole."""
    factor = (np.array([canvas.canvas_height, canvas.canvas_width]) / images).min(1)
    area = np.median(images.prod(1) * factor**2)
    scale = area / max(canvas.largest_area, canvas.test_area)
    digits = 2 - math.floor(math.log10(scale))
    return max(math.floor(scale * 10**digits) / 10**digits, 1e-4)


def object_sizes(canvas: CanvasConfig, sizes: Sizes) -> np.ndarray:
    """Returns the square roots of the areas of all objects as the test shows them, px."""
    area = canvas.test_area * canvas.area_scale
    factor = np.minimum(
        np.sqrt(area / sizes.images.prod(1)),
        (np.array([canvas.canvas_height, canvas.canvas_width]) / sizes.images).min(1),
    )
    return np.sqrt(sizes.boxes.prod(1)) * factor[sizes.owner]


def anchor_sizes(canvas: CanvasConfig, objects: np.ndarray) -> list[int]:
    """Returns sizes at most a factor of two apart, from the small to the large objects of training images, px."""
    low, high = np.percentile(objects, _USUAL)
    low = max(low * math.sqrt(canvas.smallest_area / canvas.test_area), _LEAST_ANCHOR)
    high = max(high * math.sqrt(canvas.largest_area / canvas.test_area), low)
    count = 1 + math.ceil(math.log(high / low, _STEP))
    return sorted({round(side) for side in np.geomspace(low, high, count)})


def described(config: DetectConfig, objects: np.ndarray, derived: bool) -> str:
    """Returns a line on the sizes of objects as shown, and whether the anchors fit them.

    Args:
      config: its scale and anchors are those of the run.
      objects: what `object_sizes` returns.
      derived: whether they follow from the data.
    """
    low, median, high = (f"{side:.0f}" for side in np.percentile(objects, [_USUAL[0], 50, _USUAL[1]]))
    scale, anchors = config.canvas.area_scale, config.detector.anchors
    line = f"objects as shown: {low} to {high} px (nine of ten), median {median}"
    line += f"; --area_scale={scale:g} --anchor_sizes={anchors.anchor_sizes}"
    if derived:
        return f"{line} follow from the sizes of pictures and objects"
    nearest = np.abs(np.log(objects[:, None] / np.array(anchors.numbers("anchor_sizes")))).min(1)
    unfit = np.mean(nearest > math.log(_FITS))
    if unfit > _MOST_UNFIT:
        line += f"; {100 * unfit:.0f} % have no anchor of half to twice their size: an empty --anchor_sizes= fits them"
    return line
