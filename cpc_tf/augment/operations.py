"""The table of operations: everything that can be done to a patch.

Policies (policies.py) name operations of this table; recipes (recipe.py) and C++ (pixel.h) hold their numbers. A new
operation changes no policy and no recipe, since each policy draws from its own list.
"""

from __future__ import annotations

import dataclasses
import pkgutil
from collections.abc import Callable
from typing import NamedTuple

Bounds = list[tuple[float, float]]


class Range(NamedTuple):
    """A number of an operation that a policy sets, such as its largest angle; docs/augmentation.md lists them."""

    name: str  # within the operation; a policy's entry for it is OPERATION.NAME
    default: float  # in all policies that do not set it
    minimum: float = 0
    maximum: float = 100  # far above useful values
    # (value, side of a patch in px) -> lowest and highest of each real number that is drawn, uniformly.
    drawn: Callable[[float, int], Bounds] | None = lambda value, side: [(-value, value)]
    integer: bool = False  # only integers are allowed


@dataclasses.dataclass(frozen=True)
class Operation:
    """Something that can be done to a patch."""

    name: str  # in policies, flags and figures
    number: int  # in recipes and in C++: never changed, never used again; primitives count from 0, steps from 100
    implementation: Callable | str  # `function`, or 'module:function', which is imported at its first use
    ranges: tuple[Range, ...] = ()  # what a policy can set; a primitive draws at most one number, its magnitude
    whole: bool = False  # magnitudes are rounded down, so the highest is never reached
    coin: bool = True  # a policy gives a probability per patch; otherwise all patches or none
    native: bool = True  # the native engine has it

    @property
    def function(self) -> Callable:
        """Of the reference engine: (patches, magnitude [N]) of a primitive, (patches, fields of a recipe) of a step."""
        found = self.implementation
        return pkgutil.resolve_name(found) if isinstance(found, str) else found

    @property
    def primitive(self) -> bool:
        """Whether a policy chooses it at random among others, with a magnitude of its own."""
        return self.number < 100


def _factor(value: float, side: int) -> Bounds:
    return [(1 - value, 1 + value)]


_SHEAR = (Range("limit", 0.3),)
_SHIFT = (Range("limit", 0.45, drawn=lambda value, side: [(-value * side, value * side)]),)
_ROTATE = (Range("limit", 30, maximum=360),)  # degrees
_SOLARIZE = (Range("lowest", 0, maximum=256, drawn=lambda value, side: [(value, 256)]),)  # grey levels
# In bits; rounded down, so that each number of bits up to 8 is as frequent.
_POSTERIZE = (Range("fewest", 4, 1, 8, drawn=lambda value, side: [(value, 9)]),)
_ENHANCE = (Range("spread", 0.9, maximum=1, drawn=_factor),)
_JITTER = (Range("margin", 1 / 16, maximum=0.5, drawn=None),)
_ELASTIC = (Range("sigma", 1 / 16, drawn=None), Range("shear", 0.1, drawn=lambda value, side: [(-value, value)] * 2))
_HISTOGRAM = (Range("shift", 0.1, maximum=0.5, drawn=None), Range("slope", 2, minimum=1, drawn=None))
_DISTORT = (
    Range("brightness", 32 / 255, drawn=lambda value, side: [(-value * 255, value * 255)]),
    Range("saturation", 0.5, maximum=1, drawn=_factor),
    Range("hue", 0.2, maximum=0.5),  # turns
    Range("contrast", 0.5, maximum=1, drawn=_factor),
)
_PRIMITIVES, _STEPS = "cpc_tf.augment.primitives", "cpc_tf.augment.steps"
_TABLE = (
    # The primitives of AutoAugment (Cubuk et al. 2018, table 6), without Cutout and SamplePairing.
    Operation("shear_x", 0, f"{_PRIMITIVES}:shear_x", _SHEAR),
    Operation("shear_y", 1, f"{_PRIMITIVES}:shear_y", _SHEAR),
    Operation("translate_x", 2, f"{_PRIMITIVES}:translate_x", _SHIFT),
    Operation("translate_y", 3, f"{_PRIMITIVES}:translate_y", _SHIFT),
    Operation("rotate", 4, f"{_PRIMITIVES}:rotate", _ROTATE),
    Operation("auto_contrast", 5, f"{_PRIMITIVES}:auto_contrast"),
    Operation("invert", 6, f"{_PRIMITIVES}:invert"),
    Operation("equalize", 7, f"{_PRIMITIVES}:equalize"),
    Operation("solarize", 8, f"{_PRIMITIVES}:solarize", _SOLARIZE),
    Operation("posterize", 9, f"{_PRIMITIVES}:posterize", _POSTERIZE, whole=True),
    Operation("contrast", 10, f"{_PRIMITIVES}:contrast", _ENHANCE),
    Operation("color", 11, f"{_PRIMITIVES}:color", _ENHANCE),
    Operation("brightness", 12, f"{_PRIMITIVES}:brightness", _ENHANCE),
    Operation("sharpness", 13, f"{_PRIMITIVES}:sharpness", _ENHANCE),
    # Steps, in the order of application; chosen primitives come between drop_channels and elastic.
    Operation("jitter", 100, f"{_STEPS}:jitter", _JITTER, coin=False),
    Operation("drop_channels", 101, f"{_STEPS}:keep_channel"),
    Operation("elastic", 102, f"{_STEPS}:elastic", _ELASTIC),
    Operation("histogram", 103, f"{_STEPS}:map_levels", _HISTOGRAM),
    Operation("distort", 104, f"{_STEPS}:distort_uint8", _DISTORT),
    Operation("grey", 105, f"{_STEPS}:grey_uint8"),
)
OPERATIONS = {operation.name: operation for operation in _TABLE}


def all_primitives() -> list[Operation]:
    """Returns the table's primitives."""
    return [operation for operation in OPERATIONS.values() if operation.primitive]
