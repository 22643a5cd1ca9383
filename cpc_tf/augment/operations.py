"""The table of operations: all that can be done to a patch.

Policies (policies.py) name operations of this table, recipes (recipe.py) hold their numbers, the C++ enumeration is
generated from it (build.py). An operation that is added here changes no policy and no recipe of one: operations are
drawn from a policy's own list. A number is never given to another operation, for recipes and C++ hold numbers.
"""

from __future__ import annotations

import dataclasses
from typing import Callable, NamedTuple

import tensorflow as tf

from cpc_tf.augment import color, primitives, reference_steps

Bounds = list[tuple[float, float]]


class Range(NamedTuple):
    """How far an operation may go, or another number that a policy sets; docs/augmentation.md lists their meanings."""

    name: str  # within the operation; a policy's entry for it is OPERATION.NAME
    usual: float  # unless a policy says otherwise
    minimum: float = 0
    maximum: float = 100  # far above what is of use
    # (value, side of a patch in px) -> lowest and highest of each real number that is drawn, uniformly.
    drawn: Callable[[float, int], Bounds] | None = lambda value, side: [(-value, value)]
    integer: bool = False  # only whole values are allowed


@dataclasses.dataclass(frozen=True)
class Operation:
    """Something that can be done to a patch."""

    name: str  # in policies, flags and pictures
    number: int  # in recipes and in C++: never changed, never used again; primitives count from 0, steps from 100
    # The reference. A primitive's takes (patches, magnitude [N]); a step's its own fields of a recipe.
    function: Callable[..., tf.Tensor]
    ranges: tuple[Range, ...] = ()  # what a policy can set; a primitive draws one number at most, its magnitude
    whole: bool = False  # magnitudes are rounded down, so that the highest is never reached
    coin: bool = True  # a policy gives a probability for each patch; otherwise all patches or none
    native: bool = True  # there is a C++ function

    @property
    def primitive(self) -> bool:
        """Is it one of those that a policy chooses some of, with a magnitude of its own."""
        return self.number < 100


def _factor(value: float, side: int) -> Bounds:
    return [(1 - value, 1 + value)]


_SHEAR = (Range("limit", 0.3),)
_SHIFT = (Range("limit", 0.45, drawn=lambda value, side: [(-value * side, value * side)]),)
_SOLARIZE = (Range("lowest", 0, maximum=256, drawn=lambda value, side: [(value, 256)]),)  # grey levels
# In bits; rounded down, so that each number of bits up to 8 is as frequent.
_POSTERIZE = (Range("fewest", 4, 1, 8, drawn=lambda value, side: [(value, 9)]),)
_ENHANCE = (Range("spread", 0.9, maximum=1, drawn=_factor),)
_JITTER = (Range("margin", 1 / 16, maximum=0.5, drawn=None),)
_ELASTIC = (
    Range("sigma", 1 / 16, drawn=None),
    Range("shear", 0.1, drawn=lambda value, side: [(-value, value)] * 2),
)
_HISTOGRAM = (Range("shift", 0.1, maximum=0.5, drawn=None), Range("slope", 2, minimum=1, drawn=None))
_DISTORT = (
    Range("brightness", 32 / 255, drawn=lambda value, side: [(-value * 255, value * 255)]),
    Range("saturation", 0.5, maximum=1, drawn=_factor),
    Range("hue", 0.2, maximum=0.5),  # turns
    Range("contrast", 0.5, maximum=1, drawn=_factor),
)
_TABLE = (
    # The primitives of AutoAugment (Cubuk et al. 2018, table 6), without Cutout and SamplePairing.
    Operation("shear_x", 0, primitives.shear_x, _SHEAR),
    Operation("shear_y", 1, primitives.shear_y, _SHEAR),
    Operation("translate_x", 2, primitives.translate_x, _SHIFT),
    Operation("translate_y", 3, primitives.translate_y, _SHIFT),
    Operation("rotate", 4, primitives.rotate, (Range("limit", 30, maximum=360),)),  # degrees
    Operation("auto_contrast", 5, primitives.auto_contrast),
    Operation("invert", 6, primitives.invert),
    Operation("equalize", 7, primitives.equalize),
    Operation("solarize", 8, primitives.solarize, _SOLARIZE),
    Operation("posterize", 9, primitives.posterize, _POSTERIZE, whole=True),
    Operation("contrast", 10, primitives.contrast, _ENHANCE),
    Operation("color", 11, primitives.color, _ENHANCE),
    Operation("brightness", 12, primitives.brightness, _ENHANCE),
    Operation("sharpness", 13, primitives.sharpness, _ENHANCE),
    # Steps, in the order of application; the primitives that were chosen come between drop_channels and elastic.
    Operation("jitter", 100, reference_steps.jitter, _JITTER, coin=False),
    Operation("drop_channels", 101, reference_steps.keep_channel),
    Operation("elastic", 102, reference_steps.elastic, _ELASTIC),
    Operation("histogram", 103, reference_steps.map_levels, _HISTOGRAM),
    Operation("distort", 104, color.on_levels(color.distort), _DISTORT),
    Operation("grey", 105, color.on_levels(color.grey)),
)
OPERATIONS = {operation.name: operation for operation in _TABLE}


def all_primitives() -> list[Operation]:
    """The table's primitives."""
    return [operation for operation in OPERATIONS.values() if operation.primitive]
