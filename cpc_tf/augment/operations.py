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

from cpc_tf.augment import color, examples, primitives, reference_steps

Bounds = list[tuple[float, float]]


class Range(NamedTuple):
    """A number that says how far an operation may go.

    Attributes:
      name: within the operation; a policy's entry for it is called OPERATION.NAME.
      usual: its value unless a policy says otherwise.
      meaning: what it bounds.
      unit: of the value.
      minimum: least value allowed.
      maximum: largest value allowed.
    """

    name: str
    usual: float
    meaning: str
    unit: str = ""
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
      examples: ({range: value}, side) -> {title: fields of a recipe of two patches}: a step at its ends. Primitives
        need none.
      whole: magnitudes are rounded down, so that the highest is never reached.
      coin: a policy gives a probability for each patch; otherwise all patches or none.
      native: there is a C++ function.
    """

    name: str
    number: int
    function: Callable[..., tf.Tensor]
    bounds: Callable[[int, Mapping[str, float]], Bounds] = lambda side, value: [(0.0, 0.0)]
    ranges: tuple[Range, ...] = ()
    examples: Callable[[Mapping[str, float], int], dict[str, dict]] | None = None
    whole: bool = False
    coin: bool = True
    native: bool = True

    @property
    def primitive(self) -> bool:
        """Is it one of those that a policy chooses some of, with a magnitude of its own."""
        return self.number < 100


def _symmetric(side, value):
    return [(-value["limit"], value["limit"])]


def _part_of_side(side, value):
    shift = value["limit"] * side
    return [(-shift, shift)]


def _factor(side, value):
    return [(1 - value["spread"], 1 + value["spread"])]


def _distortion(side, value):
    shift = 255 * value["brightness"]
    return [
        (-shift, shift),
        (1 - value["saturation"], 1 + value["saturation"]),
        (-value["hue"], value["hue"]),
        (1 - value["contrast"], 1 + value["contrast"]),
    ]


_SHEAR = (Range("limit", 0.3, "largest shear"),)
_SHIFT = (Range("limit", 0.45, "largest shift", "of the side"),)
_ENHANCE = (Range("spread", 0.9, "the factor lies in 1 +- this", maximum=1),)

_TABLE = (
    # The primitives of AutoAugment (Cubuk et al. 2018, table 6), without Cutout and SamplePairing.
    Operation("shear_x", 0, primitives.shear_x, _symmetric, _SHEAR),
    Operation("shear_y", 1, primitives.shear_y, _symmetric, _SHEAR),
    Operation("translate_x", 2, primitives.translate_x, _part_of_side, _SHIFT),
    Operation("translate_y", 3, primitives.translate_y, _part_of_side, _SHIFT),
    Operation("rotate", 4, primitives.rotate, _symmetric, (Range("limit", 30, "largest rotation", "degrees"),)),
    Operation("auto_contrast", 5, primitives.auto_contrast),
    Operation("invert", 6, primitives.invert),
    Operation("equalize", 7, primitives.equalize),
    Operation(
        "solarize",
        8,
        primitives.solarize,
        lambda side, value: [(value["lowest"], 256)],
        (Range("lowest", 0, "lowest threshold above which levels are inverted", "grey levels", maximum=256),),
    ),
    Operation(
        "posterize",
        9,
        primitives.posterize,
        lambda side, value: [(value["fewest"], 9)],  # each number of bits up to 8 as often
        (Range("fewest", 4, "fewest bits kept", "bits", minimum=1, maximum=8),),
        whole=True,
    ),
    Operation("contrast", 10, primitives.contrast, _factor, _ENHANCE),
    Operation("color", 11, primitives.color, _factor, _ENHANCE),
    Operation("brightness", 12, primitives.brightness, _factor, _ENHANCE),
    Operation("sharpness", 13, primitives.sharpness, _factor, _ENHANCE),
    # Steps, in the order of application; the primitives that were chosen come between drop_channels and elastic.
    Operation(
        "jitter",
        100,
        reference_steps.jitter,
        ranges=(Range("margin", 4 / 64, "what is cut off and padded again", "of the side", maximum=0.5),),
        examples=examples.jitter,
        coin=False,
    ),
    Operation("drop_channels", 101, reference_steps.keep_channel, examples=examples.drop_channels),
    Operation(
        "elastic",
        102,
        reference_steps.elastic,
        lambda side, value: [(-value["shear"], value["shear"])] * 2,
        (
            Range("sigma", 1 / 16, "standard deviation of a control point", "of the side"),
            Range("shear", 0.1, "largest shear"),
        ),
        examples.elastic,
    ),
    Operation(
        "histogram",
        103,
        reference_steps.map_levels,
        lambda side, value: [(-1, 1)] * (3 * reference_steps.CURVE_POINTS),
        (
            Range("shift", 0.1, "largest shift of black and of white", "of the range", maximum=0.5),
            Range("slope", 2, "steepest slope of the curve; the flattest is its inverse", minimum=1),
        ),
        examples.histogram,
    ),
    Operation(
        "distort",
        104,
        color.on_levels(color.distort),
        _distortion,
        (
            Range("brightness", 32 / 255, "largest shift", "of the range"),
            Range("saturation", 0.5, "the factor lies in 1 +- this", maximum=1),
            Range("hue", 0.2, "largest shift", "turns", maximum=0.5),
            Range("contrast", 0.5, "the factor lies in 1 +- this", maximum=1),
        ),
        examples.distort,
    ),
    Operation("grey", 105, color.on_levels(color.grey), examples=examples.grey),
)

OPERATIONS = {operation.name: operation for operation in _TABLE}


def all_primitives() -> list[Operation]:
    """The table's primitives."""
    return [operation for operation in OPERATIONS.values() if operation.primitive]
