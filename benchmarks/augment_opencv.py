"""The peer of benchmarks.augment: a recipe applied patch by patch with OpenCV's primitives, as a
careful user would.
"""

from __future__ import annotations

import math
import re

import cv2
import numpy as np

from cpc_tf.augment.operations import all_primitives
from cpc_tf.augment.reference import (
    COLOR_ORDERS,
    CONTROL_POINTS,
    CONTROL_SPACING,
    curve_matrix,
    spline_matrix,
)

LEVELS = np.arange(256, dtype=np.float32)
LUMA = np.float32([[0.299, 0.587, 0.114]] * 3)
GREY = np.float32([[0.2989, 0.587, 0.114]] * 3)
SMOOTH = np.float32([[1, 1, 1], [1, 5, 1], [1, 1, 1]]) / 13
CURVES = curve_matrix()
NAMES = {primitive.number: primitive.name for primitive in all_primitives()}


def apply(patches: np.ndarray, recipe) -> np.ndarray:
    """uint8 [N, P, P, 3] -> uint8 [N, P, P, 3]; the recipe holds NumPy arrays."""
    return np.stack([_one(patch, *row) for patch, *row in zip(patches, *recipe)])


def _one(
    x,
    jitter,
    kept,
    op,
    magnitude,
    elastic,
    displacement,
    shear,
    histogram,
    curve,
    distort,
    order,
    color,
    grey,
):
    assert jitter[0] == 0, "written for --augment=full"
    assert kept < 0, "written for --augment=full"
    for number, m in zip(op, magnitude):
        x = FUNCTIONS[NAMES[number]](x, float(m))
    if elastic:
        x = _elastic(x, displacement, shear)
    if histogram:
        x = cv2.LUT(x, _table(255 * (CURVES @ curve.T) + 0.5).reshape(1, 256, 3))
    if distort:
        x = _distort(x, COLOR_ORDERS[order], *color)
    return cv2.transform(x, GREY) if grey else x


def _warp(x, a=1.0, b=0.0, c=0.0, d=0.0, e=1.0, f=0.0):
    # PIL counts from a pixel's corner, OpenCV from its centre.
    c = c + (a + b - 1) / 2
    f = f + (d + e - 1) / 2
    flags = cv2.INTER_NEAREST | cv2.WARP_INVERSE_MAP
    matrix = np.array([[a, b, c], [d, e, f]])
    return cv2.warpAffine(x, matrix, x.shape[1::-1], flags=flags, borderValue=(128, 128, 128))


def _rotate(x, degrees):
    angle = -math.radians(degrees)
    centre = len(x) / 2
    cosine = math.cos(angle)
    sine = math.sin(angle)
    return _warp(
        x,
        cosine,
        sine,
        centre - centre * (cosine + sine),
        -sine,
        cosine,
        centre - centre * (cosine - sine),
    )


def _table(values):
    return np.clip(values, 0, 255).astype(np.uint8)


def _counts(x):
    return [cv2.calcHist([x], [c], None, [256], [0, 256])[:, 0] for c in range(3)]


def _auto_contrast(x, _):
    tables = []
    for counts in _counts(x):
        used = np.flatnonzero(counts)
        low = used[0]
        high = used[-1]
        tables.append(
            _table((LEVELS - low) * (255 / (high - low))) if high > low else LEVELS.astype(np.uint8)
        )
    return cv2.LUT(x, np.stack(tables, -1).reshape(1, 256, 3))


def _equalize(x, _):
    tables = []
    for counts in _counts(x):
        counts = counts.astype(int)
        step = (counts.sum() - counts[np.flatnonzero(counts)[-1]]) // 255
        below = np.cumsum(counts) - counts
        tables.append(_table((step // 2 + below) // step) if step else LEVELS.astype(np.uint8))
    return cv2.LUT(x, np.stack(tables, -1).reshape(1, 256, 3))


def _contrast(x, m):
    mean = int(cv2.mean(cv2.cvtColor(x, cv2.COLOR_RGB2GRAY))[0] + 0.5)
    return cv2.LUT(x, _table(mean + m * (LEVELS - mean)))


def _elastic(x, displacement, shear):
    size = len(x)
    spline = spline_matrix(size)
    position = (
        (np.arange(CONTROL_POINTS, dtype=np.float32) - (CONTROL_POINTS - 1) / 2)
        * CONTROL_SPACING
        * size
    )
    rows = position[:, None] + displacement[..., 0]
    columns = position + displacement[..., 1]
    centre = (size - 1) / 2
    y = spline @ (rows + shear[0] * columns + centre).astype(np.float32) @ spline.T
    x_ = spline @ (shear[1] * rows + columns + centre).astype(np.float32) @ spline.T
    return cv2.remap(x, x_, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT_101)


def _distort(x, order, brightness, saturation, hue, contrast):
    x = x.astype(np.float32) / 255
    for step in re.findall("B|C|[SH]+", order):
        if step == "B":
            x = x + brightness / 255
        elif step == "C":
            mean = np.float32(cv2.mean(x)[:3])
            x = (x - mean) * contrast + mean
        else:
            hsv = cv2.cvtColor(x, cv2.COLOR_RGB2HSV)  # hue in degrees
            if "S" in step:
                hsv[..., 1] = np.minimum(hsv[..., 1] * saturation, 1)
            if "H" in step:
                hsv[..., 0] = (hsv[..., 0] + 360 * hue) % 360
            x = cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB)
    return np.clip(255 * x + 0.5, 0, 255).astype(np.uint8)


FUNCTIONS = {
    "shear_x": lambda x, m: _warp(x, b=m),
    "shear_y": lambda x, m: _warp(x, d=m),
    "translate_x": lambda x, m: _warp(x, c=m),
    "translate_y": lambda x, m: _warp(x, f=m),
    "rotate": _rotate,
    "auto_contrast": _auto_contrast,
    "invert": lambda x, m: cv2.bitwise_not(x),
    "equalize": _equalize,
    "solarize": lambda x, m: cv2.LUT(
        x, np.where(m > LEVELS, LEVELS, 255 - LEVELS).astype(np.uint8)
    ),
    "posterize": lambda x, m: cv2.bitwise_and(x, np.full_like(x, 256 - (1 << (8 - int(m))))),
    "contrast": _contrast,
    "color": lambda x, m: cv2.transform(x, ((1 - m) * LUMA + m * np.eye(3)).astype(np.float32)),
    "brightness": lambda x, m: cv2.LUT(x, _table(LEVELS * m)),
    "sharpness": lambda x, m: cv2.addWeighted(x, m, cv2.filter2D(x, -1, SMOOTH), 1 - m, 0),
}
