"""Each step at the ends of its ranges, for pictures: fields of a recipe of two patches."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from cpc_tf.augment.reference_steps import CONTROL_POINTS, CURVE_POINTS

BOTH = np.array([True, True])


def jitter(value: Mapping[str, float], side: int) -> dict[str, dict]:
    margin = int(side * value["margin"] + 0.5)
    return {"jitter": {"jitter": np.int32([[margin, 0, 0], [margin, margin, margin]])}}


def drop_channels(value: Mapping[str, float], side: int) -> dict[str, dict]:
    return {"drop_channels, red, blue kept": {"kept": np.int32([0, 2])}}


def elastic(value: Mapping[str, float], side: int) -> dict[str, dict]:
    """Two draws at the usual strength, and the largest shear with and against it."""
    normal = tf.random.stateless_normal([2, CONTROL_POINTS, CONTROL_POINTS, 2], seed=[0, 1])
    shear = value["shear"] * np.float32([[1, 1], [-1, -1]])
    displacement = normal * (value["sigma"] * side)
    return {"elastic, two draws": {"elastic": BOTH, "displacement": displacement, "shear": shear}}


def histogram(value: Mapping[str, float], side: int) -> dict[str, dict]:
    """Straight curves of most and of least contrast."""
    shift = value["shift"] * np.float32([[-1, 1], [1, -1]])[:, :, None]  # of black and of white
    line = np.linspace(0, 1, CURVE_POINTS, dtype=np.float32)
    curve = np.repeat((shift[:, 0] * (1 - line) + (1 + shift[:, 1]) * line)[:, None], 3, axis=1)  # [2, 3, 5]
    return {"histogram, straight curves": {"histogram": BOTH, "curve": curve}}


def distort(value: Mapping[str, float], side: int) -> dict[str, dict]:
    """One number of Inception's four at a time."""
    shown = {}
    limits = {"brightness": 255 * value["brightness"], "hue": value["hue"]}
    for k, name in enumerate(("brightness", "saturation", "hue", "contrast")):
        middle, limit = (0, limits[name]) if name in limits else (1, value[name])
        color = np.tile(np.float32([0, 1, 0, 1]), [2, 1])
        color[:, k] = middle - limit, middle + limit
        shown[f"distort {name} {color[0, k]:.3g}, {color[1, k]:.3g}"] = {"distort": BOTH, "color": color}
    return shown


def grey(value: Mapping[str, float], side: int) -> dict[str, dict]:
    return {"grey": {"grey": BOTH}}
