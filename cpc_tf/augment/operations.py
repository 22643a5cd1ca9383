"""The table of operations: all that can be done to a patch.

Policies (policies.py) name operations of this table, recipes (recipe.py) hold their numbers, the C++ enumeration is
generated from it (build.py). An operation that is added here changes no policy and no recipe of one: operations are
drawn from a policy's own list. A number is never given to another operation, for recipes and C++ hold numbers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Callable, NamedTuple

import tensorflow as tf

from cpc_tf.augment import color, primitives, reference_steps

Bounds = list[tuple[float, float]]


class Range(NamedTuple):
    """How far an operation may go; a policy's entry for it is OPERATION.NAME. What each bounds: docs/augmentation.md.

    Attributes:
      name: within the operation.
      usual: its value unless a policy says otherwise.
      minimum: least value allowed.
      maximum: largest value allowed.
    """

    name: str
    usual: float
    minimum: float = 0.0
    maximum: float = float("inf")


@dataclasses.dataclass(frozen=True)
class Operation:
    """Something that can be done to a patch.

    Attributes:
      name: in policies, flags and pictures.
      number: in recipes and in C++: never changed, never used again. Primitives count from 0, steps from 100.
      function: the reference. A primitive's takes (patches, magnitude [N]); a step's its own fields of a recipe.
      bounds: (side of a patch in px, {range: value}) -> lowest and highest of each real number, which is drawn
        uniformly. A primitive has one such number, its magnitude.
      ranges: what a policy can set.
      whole: magnitudes are rounded down, so that the highest is never reached.
      coin: a policy gives a probability for each patch; otherwise all patches or none.
      native: there is a C++ function.
    """

    name: str
    number: int
    function: Callable[..., tf.Tensor]
    bounds: Callable[[int, Mapping[str, float]], Bounds] = lambda side, value: [(0.0, 0.0)]
    ranges: tuple[Range, ...] = ()
    whole: bool = False
    coin: bool = True
    native: bool = True

    @property
    def primitive(self) -> bool:
        """Is it one of those that a policy chooses some of, with a magnitude of its own."""
        return self.number < 100


def _around(middle: float, spread: float) -> tuple[float, float]:
    return middle - spread, middle + spread


def _limit(side, value):
    return [(-value["limit"], value["limit"])]


def _shift(side, value):
    return [(-(value["limit"] * side), value["limit"] * side)]


def _factor(side, value):
    return [_around(1, value["spread"])]


def _posterize(side, value):
    return [(value["fewest"], 9)]  # rounded down: each number of bits up to 8 as often


def _elastic(side, value):
    return [(-value["shear"], value["shear"])] * 2


def _histogram(side, value):
    return [(-1, 1)] * (3 * reference_steps.CURVE_POINTS)


def _distort(side, value):
    shift, hue = 255 * value["brightness"], value["hue"]
    return [(-shift, shift), _around(1, value["saturation"]), (-hue, hue), _around(1, value["contrast"])]


_SHEAR, _PART, _TURN = (Range("limit", 0.3),), (Range("limit", 0.45),), (Range("limit", 30),)
_SPREAD = (Range("spread", 0.9, maximum=1),)
_LEVELS, _BITS = (Range("lowest", 0, maximum=256),), (Range("fewest", 4, 1, 8),)
_MARGIN = (Range("margin", 4 / 64, maximum=0.5),)
_FIELD = (Range("sigma", 1 / 16), Range("shear", 0.1))
_CURVE = (Range("shift", 0.1, maximum=0.5), Range("slope", 2, minimum=1))
_COLOR = (
    *(Range("brightness", 32 / 255), Range("saturation", 0.5, maximum=1)),
    *(Range("hue", 0.2, maximum=0.5), Range("contrast", 0.5, maximum=1)),
)

_TABLE = (
    # The primitives of AutoAugment (Cubuk et al. 2018, table 6), without Cutout and SamplePairing.
    Operation("shear_x", 0, primitives.shear_x, _limit, _SHEAR),
    Operation("shear_y", 1, primitives.shear_y, _limit, _SHEAR),
    Operation("translate_x", 2, primitives.translate_x, _shift, _PART),  # of the side
    Operation("translate_y", 3, primitives.translate_y, _shift, _PART),
    Operation("rotate", 4, primitives.rotate, _limit, _TURN),  # degrees
    Operation("auto_contrast", 5, primitives.auto_contrast),
    Operation("invert", 6, primitives.invert),
    Operation("equalize", 7, primitives.equalize),
    Operation("solarize", 8, primitives.solarize, lambda side, value: [(value["lowest"], 256)], _LEVELS),  # grey levels
    Operation("posterize", 9, primitives.posterize, _posterize, _BITS, whole=True),  # bits
    Operation("contrast", 10, primitives.contrast, _factor, _SPREAD),  # factors
    Operation("color", 11, primitives.color, _factor, _SPREAD),
    Operation("brightness", 12, primitives.brightness, _factor, _SPREAD),
    Operation("sharpness", 13, primitives.sharpness, _factor, _SPREAD),
    # Steps, in the order of application; the primitives that were chosen come between drop_channels and elastic.
    Operation("jitter", 100, reference_steps.jitter, ranges=_MARGIN, coin=False),  # of the side
    Operation("drop_channels", 101, reference_steps.keep_channel),
    Operation("elastic", 102, reference_steps.elastic, _elastic, _FIELD),  # sigma of the side
    Operation("histogram", 103, reference_steps.map_levels, _histogram, _CURVE),  # of the range of levels
    Operation("distort", 104, color.on_levels(color.distort), _distort, _COLOR),  # of the range, factors, turns
    Operation("grey", 105, color.on_levels(color.grey)),
)

OPERATIONS = {operation.name: operation for operation in _TABLE}


def all_primitives() -> list[Operation]:
    """The table's primitives."""
    return [operation for operation in OPERATIONS.values() if operation.primitive]
