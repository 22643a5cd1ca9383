"""Draws every random number of a set of patches at once, so that applying them is a pure function of tensors.

The numbers come from `tf.random.stateless_*` keyed by (seed, example counter): the same example gets the same patches
whatever the thread, batch or restart, and a tf.data iterator that draws them can be checkpointed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from cpc_tf.augment.config import AugmentConfig

# The sixteen primitives of Cubuk et al. 2018 (AutoAugment), table 6, without Cutout and SamplePairing. An op number
# in a recipe is a place in this list.
PRIMITIVES = (
    "shear_x",
    "shear_y",
    "translate_x",
    "translate_y",
    "rotate",
    "auto_contrast",
    "invert",
    "equalize",
    "solarize",
    "posterize",
    "contrast",
    "color",
    "brightness",
    "sharpness",
)

# Inception's four orders of Brightness, Saturation, Hue and Contrast (slim's distort_color).
COLOR_ORDERS = ("BSHC", "SBCH", "CHBS", "HSCB")

# Elastic deformation: control points per axis, and their distance as a part of the patch's side. The numbers of the
# multidim-image-augmentation colab, 101 px for a 241 px target, scaled: 33 px for 80 px.
CONTROL_POINTS = 6
CONTROL_SPACING = 33 / 80

CURVE_POINTS = 5

# Added to the seed: our numbers differ from others' drawn under the same (seed, counter), such as the crop's.
_UNIFORM, _NORMAL = 1 << 40, 2 << 40


class Recipe(NamedTuple):
    """What happens to each of N patches, in the order of application."""

    jitter: tf.Tensor  # int32 [N, 3]: px cut off a side (0: no jitter), rows cut at the top, columns cut at the left
    kept: tf.Tensor  # int32 [N]: the one channel that is kept, -1 for all
    op: tf.Tensor  # int32 [N, T]: places in PRIMITIVES
    magnitude: tf.Tensor  # float32 [N, T]: in the primitive's own unit
    elastic: tf.Tensor  # bool [N]: is the patch deformed
    displacement: tf.Tensor  # float32 [N, 6, 6, 2]: of the control points, (row, column) in px
    shear: tf.Tensor  # float32 [N, 2]: rows by column, columns by row
    histogram: tf.Tensor  # bool [N]: are the grey levels mapped
    curve: tf.Tensor  # float32 [N, 3, 5]: each channel's map at inputs 0, 1/4, .. 1
    distort: tf.Tensor  # bool [N]: are the colours distorted
    order: tf.Tensor  # int32 [N]: place in COLOR_ORDERS
    color: tf.Tensor  # float32 [N, 4]: brightness shift in grey levels, saturation, hue shift in turns, contrast
    grey: tf.Tensor  # bool [N]


@tf.autograph.experimental.do_not_convert
def draw(config: AugmentConfig, seed, counter, num_patches: int, patch_size: int) -> Recipe:
    """The recipe of one image's patches.

    Args:
      config: policy, probabilities and ranges.
      seed: integer, of the run.
      counter: integer, of the example within the run.
      num_patches: patches of the image.
      patch_size: their side, px.
    """
    full, early = config.augment == "full", config.augment in ("v1", "colour_drop")
    ops = config.autoaugment_ops if full else 0
    margin = int(patch_size * config.jitter_fraction + 0.5) if early else 0
    seed, counter = tf.cast(seed, tf.int64), tf.cast(counter, tf.int64)

    # One block of numbers, a row per patch: coins, then integers, then reals. This runs once per image: few operations
    # on many numbers each.
    coins = {
        "keep": config.drop_probability if config.augment == "colour_drop" else 0.0,
        "elastic": config.elastic_probability * full,
        "histogram": config.histogram_probability * full,
        "distort": config.distort_probability * full,
        # CPC v1 converts everything to grey (van den Oord et al. 2018, section 3.2).
        "grey": {"v1": 1.0, "full": config.grey_probability}.get(config.augment, 0.0),
    }
    integers = {"jitter": [margin + 1] * 2, "kept": [3], "order": [len(COLOR_ORDERS)], "op": [len(PRIMITIVES)] * ops}
    reals = {
        "shear": [(-config.elastic_shear, config.elastic_shear)] * 2,
        "curve": [(-1, 1)] * (3 * CURVE_POINTS),
        "color": color_range(config),
        "magnitude": [(0, 1)] * ops,
    }
    limits = [limit for column in integers.values() for limit in column]
    low, high = np.float32([bounds for column in reals.values() for bounds in column]).T
    width = [len(coins), len(limits), len(low)]
    block = tf.random.stateless_uniform([num_patches, sum(width)], [seed + _UNIFORM, counter], alg="philox")
    coin, integer, real = tf.split(block, width, axis=1)
    coin = dict(zip(coins, tf.unstack(coin < np.float32(list(coins.values())), axis=1)))  # [N] each
    integer = _columns(integers, tf.cast(integer * np.float32(limits), tf.int32))
    real = _columns(reals, low + real * (high - low))

    grid = [num_patches, CONTROL_POINTS, CONTROL_POINTS, 2]
    normal = tf.random.stateless_normal(grid, [seed + _NORMAL, counter], alg="philox") if full else tf.zeros(grid)
    lowest, highest = magnitude_range(config, patch_size)
    op = integer["op"]
    return Recipe(
        jitter=tf.pad(integer["jitter"], [[0, 0], [1, 0]], constant_values=margin),
        kept=tf.where(coin["keep"], integer["kept"][:, 0], -1),
        op=op,
        magnitude=tf.gather(lowest, op) + real["magnitude"] * tf.gather(highest - lowest, op),
        elastic=coin["elastic"],
        displacement=normal * (config.elastic_sigma * patch_size),
        shear=real["shear"],
        histogram=coin["histogram"],
        curve=_monotone_curve(tf.reshape(real["curve"], [num_patches, 3, CURVE_POINTS]), config),
        distort=coin["distort"],
        order=integer["order"][:, 0],
        color=real["color"],
        grey=coin["grey"],
    )


def idle(num_patches: int, patch_size: int) -> Recipe:
    """A recipe that changes nothing, to fill in by hand (`_replace`)."""
    nothing = AugmentConfig(
        autoaugment_ops=0, elastic_probability=0, histogram_probability=0, distort_probability=0, grey_probability=0
    )
    return draw(nothing, 0, 0, num_patches, patch_size)


def _columns(names: dict[str, list], block: tf.Tensor) -> dict[str, tf.Tensor]:
    """A block's columns by name: as many for each as its list is long."""
    return dict(zip(names, tf.split(block, [len(column) for column in names.values()], axis=1)))


def magnitude_range(config: AugmentConfig, patch_size: int) -> tuple[np.ndarray, np.ndarray]:
    """Lowest and highest magnitude of each of PRIMITIVES, float32 [14] each."""
    shear, angle, enhance = config.autoaugment_shear, config.autoaugment_rotate, config.autoaugment_enhance
    shift = config.autoaugment_translate * patch_size
    ranges = dict.fromkeys(PRIMITIVES, (0.0, 0.0))
    ranges.update(dict.fromkeys(("shear_x", "shear_y"), (-shear, shear)))
    ranges.update(dict.fromkeys(("translate_x", "translate_y"), (-shift, shift)))
    ranges.update(dict.fromkeys(("contrast", "color", "brightness", "sharpness"), (1 - enhance, 1 + enhance)))
    ranges["rotate"] = (-angle, angle)
    ranges["solarize"] = (config.autoaugment_solarize, 256)
    ranges["posterize"] = (config.autoaugment_posterize, 9)  # rounded down: each number of bits up to 8 as often
    low, high = np.float32([ranges[name] for name in PRIMITIVES]).T
    return low, high


def color_range(config: AugmentConfig) -> list[tuple[float, float]]:
    """Lowest and highest of Inception's four numbers: brightness, saturation, hue, contrast."""
    shift, saturation, contrast = 255 * config.distort_brightness, config.distort_saturation, config.distort_contrast
    return [
        (-shift, shift),
        (1 - saturation, 1 + saturation),
        (-config.distort_hue, config.distort_hue),
        (1 - contrast, 1 + contrast),
    ]


def _monotone_curve(v: tf.Tensor, config: AugmentConfig) -> tf.Tensor:
    """Random curves whose slopes stay within bounds: black and white first, then twice the points midway.

    A point midway turns the slope s before it into s + r and the slope behind it into s - r, so it may be drawn from
    wherever both stay in bounds: |r| <= min(s - flattest, steepest - s).

    Args:
      v: float32 [N, 3, 5], uniform on -1..1.
    """
    steepest, flattest = config.histogram_slope, 1 / config.histogram_slope

    def halved(slope: tf.Tensor, v: tf.Tensor) -> tf.Tensor:  # [N, 3, k] -> [N, 3, k, 2]
        turn = tf.minimum(slope - flattest, steepest - slope) * v
        return tf.stack([slope + turn, slope - turn], axis=-1)

    black, white, middle, quarters = tf.split(v, [1, 1, 1, 2], axis=-1)
    black, white = black * config.histogram_shift, white * config.histogram_shift + 1
    slopes = halved(halved(white - black, middle)[:, :, 0], quarters)  # [N, 3, 2, 2]
    steps = tf.reshape(slopes / (CURVE_POINTS - 1), [-1, 3, CURVE_POINTS - 1])
    return tf.cumsum(tf.concat([black, steps], axis=-1), axis=-1)  # [N, 3, 5]
