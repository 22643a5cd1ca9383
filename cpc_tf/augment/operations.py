"""What can be done to a patch: the table of operations, and policies, which are numbers for them.

Recipes (recipe.py) and C++ (pixel.h) hold the numbers of operations. A new operation changes no
policy and no recipe, since each policy draws from its own list.

A policy's entry is a number under a name. OPERATION is the probability of a step; for an
AutoAugment primitive it is 1 if the primitive may be chosen, else 0. OPERATION.RANGE is how far the
operation may go, `autoaugment` how many primitives are chosen for each patch.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import pkgutil
from collections.abc import Callable, Mapping
from typing import NamedTuple

Bounds = list[tuple[float, float]]


class Range(NamedTuple):
    """A number of an operation that a policy sets, such as its largest angle; docs/paper.md
    lists them.
    """

    name: str  # within the operation; a policy's entry for it is OPERATION.NAME
    default: float  # in all policies that do not set it
    minimum: float = 0
    maximum: float = 100  # far above useful values
    # (value, side of a patch in px) -> lowest and highest of each real number that is drawn,
    # uniformly.
    drawn: Callable[[float, int], Bounds] | None = lambda value, side: [(-value, value)]
    integer: bool = False  # only integers are allowed


@dataclasses.dataclass(frozen=True)
class Operation:
    """Something that can be done to a patch."""

    name: str  # in policies, flags and figures
    # in recipes and in C++: never changed, never used again; primitives count from 0, steps from
    # 100
    number: int
    # `function`, or 'module:function', which is imported at its first use
    implementation: Callable | str
    # What a policy can set; a primitive draws at most one number, its magnitude.
    ranges: tuple[Range, ...] = ()
    whole: bool = False  # magnitudes are rounded down, so the highest is never reached
    coin: bool = True  # a policy gives a probability per patch; otherwise all patches or none
    native: bool = True  # the native engine has it

    @property
    def function(self) -> Callable:
        """Of the reference engine: (patches, magnitude [N]) of a primitive, (patches, fields of a
        recipe) of a step.
        """
        place = self.implementation
        return pkgutil.resolve_name(place) if isinstance(place, str) else place

    @property
    def primitive(self) -> bool:
        """Whether a policy chooses it at random among others, with a magnitude of its own."""
        return self.number < 100


def _factor(value: float, side: int) -> Bounds:
    return [(1 - value, 1 + value)]


_SHEAR = (Range("limit", 0.3),)
_SHIFT = (Range("limit", 0.45, drawn=lambda value, side: [(-value * side, value * side)]),)
_ROTATE = (Range("limit", 30, maximum=360),)  # degrees
# Grey levels.
_SOLARIZE = (Range("lowest", 0, maximum=256, drawn=lambda value, side: [(value, 256)]),)
# In bits; rounded down, so that each number of bits up to 8 is as frequent.
_POSTERIZE = (Range("fewest", 4, 1, 8, drawn=lambda value, side: [(value, 9)]),)
_ENHANCE = (Range("spread", 0.9, maximum=1, drawn=_factor),)
_JITTER = (Range("margin", 1 / 16, maximum=0.5, drawn=None),)
_ELASTIC = (
    Range("sigma", 1 / 16, drawn=None),
    Range("shear", 0.1, drawn=lambda value, side: [(-value, value)] * 2),
)
_HISTOGRAM = (
    Range("shift", 0.1, maximum=0.5, drawn=None),
    Range("slope", 2, minimum=1, drawn=None),
)
_DISTORT = (
    Range("brightness", 32 / 255, drawn=lambda value, side: [(-value * 255, value * 255)]),
    Range("saturation", 0.5, maximum=1, drawn=_factor),
    Range("hue", 0.2, maximum=0.5),  # turns
    Range("contrast", 0.5, maximum=1, drawn=_factor),
)
_REFERENCE = "cpc_tf.augment.reference"
_TABLE = (
    # The primitives of AutoAugment (Cubuk et al. 2018, table 6), without Cutout and SamplePairing.
    Operation("shear_x", 0, f"{_REFERENCE}:shear_x", _SHEAR),
    Operation("shear_y", 1, f"{_REFERENCE}:shear_y", _SHEAR),
    Operation("translate_x", 2, f"{_REFERENCE}:translate_x", _SHIFT),
    Operation("translate_y", 3, f"{_REFERENCE}:translate_y", _SHIFT),
    Operation("rotate", 4, f"{_REFERENCE}:rotate", _ROTATE),
    Operation("auto_contrast", 5, f"{_REFERENCE}:auto_contrast"),
    Operation("invert", 6, f"{_REFERENCE}:invert"),
    Operation("equalize", 7, f"{_REFERENCE}:equalize"),
    Operation("solarize", 8, f"{_REFERENCE}:solarize", _SOLARIZE),
    Operation("posterize", 9, f"{_REFERENCE}:posterize", _POSTERIZE, whole=True),
    Operation("contrast", 10, f"{_REFERENCE}:contrast", _ENHANCE),
    Operation("color", 11, f"{_REFERENCE}:color", _ENHANCE),
    Operation("brightness", 12, f"{_REFERENCE}:brightness", _ENHANCE),
    Operation("sharpness", 13, f"{_REFERENCE}:sharpness", _ENHANCE),
    # Steps, in the order of application; chosen primitives come between drop_channels and elastic.
    Operation("jitter", 100, f"{_REFERENCE}:jitter", _JITTER, coin=False),
    Operation("drop_channels", 101, f"{_REFERENCE}:keep_channel"),
    Operation("elastic", 102, f"{_REFERENCE}:elastic", _ELASTIC),
    Operation("histogram", 103, f"{_REFERENCE}:map_levels", _HISTOGRAM),
    Operation("distort", 104, f"{_REFERENCE}:distort_uint8", _DISTORT),
    Operation("grey", 105, f"{_REFERENCE}:grey_uint8"),
)
OPERATIONS = {operation.name: operation for operation in _TABLE}


def all_primitives() -> list[Operation]:
    """Returns the table's primitives."""
    return [operation for operation in OPERATIONS.values() if operation.primitive]


CHOSEN = "autoaugment"  # the entry that holds how many primitives are chosen

# Cubuk et al. 2018, table 6: its operations without Cutout and SamplePairing. The order is part of
# every recipe.
AUTOAUGMENT = dict.fromkeys(
    "shear_x shear_y translate_x translate_y rotate auto_contrast invert equalize solarize"
    " posterize contrast color brightness sharpness".split(),
    1,
)

# Each in the order of application.
POLICIES: dict[str, dict[str, float]] = {
    "none": {},
    # CPC v1 converts everything to grey (van den Oord et al. 2018, section 3.2).
    "v1": {"jitter": 1, "grey": 1},
    # Sec. 4.1, after Doersch et al. 2015.
    "colour_drop": {"jitter": 1, "drop_channels": 1},
    # Appendix A, steps 1 to 4.
    "full": {
        CHOSEN: 2,
        **AUTOAUGMENT,
        "elastic": 0.2,
        "histogram": 0.2,
        "distort": 0.8,
        "grey": 0.25,
    },
    # Ours, for patches of about 16 px: `full` without AutoAugment and grey, and with less hue
    # (docs/paper.md).
    "small_patches": {
        CHOSEN: 0,
        **AUTOAUGMENT,
        "elastic": 0.2,
        "histogram": 0.2,
        "distort": 0.8,
        "distort.hue": 0.05,
    },
}


@dataclasses.dataclass(frozen=True)
class Policy:
    """An augmentation policy: the value of every entry. The order of primitives is part of every
    recipe.
    """

    entries: Mapping[str, float]

    def ranges(self, operation: str) -> dict[str, float]:
        """Returns {range: value} of an operation, used or not."""
        return {
            each.name: self.entries[f"{operation}.{each.name}"]
            for each in OPERATIONS[operation].ranges
        }

    def bounds(self, operation: str, side: int) -> Bounds:
        """Returns lowest and highest of each real number that an operation draws for patches of
        `side` px.
        """
        values = self.ranges(operation)
        bounds = []
        for each in OPERATIONS[operation].ranges:
            if each.drawn:
                bounds += each.drawn(values[each.name], side)
        return bounds or [(0, 0)]

    @property
    def chosen(self) -> int:
        """Number of primitives that are chosen for each patch."""
        return int(self.entries[CHOSEN])

    @property
    def among(self) -> list[Operation]:
        """The primitives to choose from, in their order."""
        return [each for each in self._present() if each.primitive]

    @property
    def used(self) -> list[Operation]:
        """Everything that can happen to a patch."""
        steps = [each for each in self._present() if not each.primitive]
        return [*(self.among if self.chosen else []), *sorted(steps, key=lambda each: each.number)]

    @property
    def always_grey(self) -> bool:
        """Whether all patches become grey: the encoder never sees a colour."""
        return self.entries["grey"] == 1

    @property
    def always_one_channel(self) -> bool:
        """Whether all patches keep one channel, the others being grey: the encoder never sees a
        natural colour.
        """
        return self.entries["drop_channels"] == 1

    def _present(self) -> list[Operation]:
        return [
            OPERATIONS[name] for name, value in self.entries.items() if value and name in OPERATIONS
        ]


def policy_of(name: str, changes: Mapping[str, float]) -> Policy:
    """Returns a policy with some entries changed. Added primitives stand behind its own."""
    defaults = {entry: rule.default for entry, rule in _known_entries().items()}
    return Policy({**POLICIES[name], **defaults, **POLICIES[name], **changes})


def parse_changes(text: str) -> dict[str, float]:
    """Returns {entry: number} of a text such as 'grey=0,distort.hue=0.05'. Raises ValueError with
    one line.
    """
    changes = {}
    rules = _known_entries()
    for word in filter(None, text.split(",")):
        entry, equals, number = word.strip().partition("=")
        if not equals:
            raise ValueError(f"{word}: must be ENTRY=NUMBER, e.g. grey=0 or distort.hue=0.05")
        if entry not in rules:
            close = difflib.get_close_matches(entry, rules, 1, 0.5)
            near = f"did you mean {close[0]}? " if close else ""
            raise ValueError(
                f"{entry}: no operation or range has this name; {near}docs/paper.md lists them"
            )
        rule = rules[entry]
        try:
            value = changes[entry] = float(number)
        except ValueError:
            raise ValueError(f"{entry}={number}: must be a number") from None
        is_within = rule.minimum <= value <= rule.maximum and math.isfinite(value)
        if not is_within or (rule.integer and value % 1):
            kind = "a whole number" if rule.integer else "a number"
            raise ValueError(
                f"{entry}={number}: must be {kind}, at least {rule.minimum:g} and at most"
                f" {rule.maximum:g}"
            )
    return changes


def to_text(changes: Mapping[str, float]) -> str:
    """Returns the text that `parse_changes` turns into these changes."""
    words = []
    for entry, value in changes.items():
        words.append(f"{entry}={int(value) if value == int(value) else value}")
    return ",".join(words)


def _known_entries() -> dict[str, Range]:
    """Returns the allowed values of each entry by its name, in the order of the operations'
    numbers.
    """
    entries = {CHOSEN: Range(CHOSEN, 0, integer=True)}
    for each in sorted(OPERATIONS.values(), key=lambda each: each.number):
        entries[each.name] = Range(each.name, 0, maximum=1, integer=each.primitive or not each.coin)
        entries.update({f"{each.name}.{inner.name}": inner for inner in each.ranges})
    return entries
