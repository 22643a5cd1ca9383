"""Augmentation policies as data, and changes of single entries of one.

An entry is a number under a name: OPERATION is the probability of a step (of an AutoAugment primitive: 1 if it is among
those that are chosen from, else 0), OPERATION.RANGE how far the operation may go, and `autoaugment` how many primitives
are chosen for each patch. Operations and ranges are those of operations.py.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import math
from collections.abc import Mapping
from typing import NamedTuple

from cpc_tf.augment.operations import OPERATIONS, Bounds, Operation

CHOSEN = "autoaugment"  # the entry that says how many primitives are chosen


class Entry(NamedTuple):
    """What an entry may be, and is where a policy does not name it."""

    low: float
    high: float
    whole: bool
    usual: float


def known_entries() -> dict[str, Entry]:
    """All entries there are, by name."""
    found = {CHOSEN: Entry(0, math.inf, True, 0)}
    for name, operation in OPERATIONS.items():
        found[name] = Entry(0, 1, operation.primitive or not operation.coin, 0)
        for each in operation.ranges:
            found[f"{name}.{each.name}"] = Entry(each.minimum, each.maximum, False, each.usual)
    return found


# Cubuk et al. 2018, table 6: its operations without Cutout and SamplePairing. The order is part of every recipe.
AUTOAUGMENT = {
    name: 1
    for name in (
        *("shear_x", "shear_y", "translate_x", "translate_y", "rotate", "auto_contrast", "invert", "equalize"),
        *("solarize", "posterize", "contrast", "color", "brightness", "sharpness"),
    )
}

# Each in the order of application.
POLICIES: dict[str, dict[str, float]] = {
    "none": {},
    # CPC v1 converts everything to grey (van den Oord et al. 2018, section 3.2).
    "v1": {"jitter": 1, "grey": 1},
    # Sec. 4.1, after Doersch et al. 2015.
    "colour_drop": {"jitter": 1, "drop_channels": 1},
    # Appendix A, steps 1 to 4.
    "full": {CHOSEN: 2, **AUTOAUGMENT, "elastic": 0.2, "histogram": 0.2, "distort": 0.8, "grey": 0.25},
    # Ours, for patches of about 16 px: `full` without AutoAugment and grey, and with less hue (docs/augmentation.md).
    "small_patches": {CHOSEN: 0, **AUTOAUGMENT, "elastic": 0.2, "histogram": 0.2, "distort": 0.8, "distort.hue": 0.05},
}


@dataclasses.dataclass(frozen=True)
class Policy:
    """What is done to a patch.

    Attributes:
      entries: {name of an entry: number}; what is absent has probability 0, or the operation's usual range.
    """

    entries: Mapping[str, float]

    def probability(self, operation: str) -> float:
        """Of a step; of a primitive, whether it is chosen from."""
        return self.value(operation)

    def value(self, entry: str) -> float:
        """The number of an entry, present or not."""
        return self.entries.get(entry, known_entries()[entry].usual)

    def ranges(self, operation: str) -> dict[str, float]:
        """{range: value} of an operation, used or not."""
        return {each.name: self.value(f"{operation}.{each.name}") for each in OPERATIONS[operation].ranges}

    def bounds(self, operation: str, side: int) -> Bounds:
        """Lowest and highest of each real number that the operation takes on patches of `side` px."""
        return OPERATIONS[operation].bounds(self.ranges(operation), side)

    @functools.cached_property
    def chosen(self) -> int:
        """How many primitives are chosen for each patch."""
        return int(self.value(CHOSEN))

    @functools.cached_property
    def among(self) -> list[Operation]:
        """The primitives that are chosen from; their order is part of every recipe."""
        names = [name for name in self.entries if name in OPERATIONS and OPERATIONS[name].primitive]
        return [OPERATIONS[name] for name in names if self.entries[name]]

    @functools.cached_property
    def used(self) -> list[Operation]:
        """All that can happen to a patch."""
        steps = [each for each in OPERATIONS.values() if not each.primitive and self.probability(each.name)]
        return [*(self.among if self.chosen else []), *sorted(steps, key=lambda each: each.number)]

    def effective(self) -> dict[str, float]:
        """All entries that matter, absent ones spelled out: equal for policies that do the same."""
        found = {CHOSEN: self.chosen}
        for each in self.used:
            found[each.name] = self.probability(each.name)
            found.update({f"{each.name}.{name}": value for name, value in self.ranges(each.name).items()})
        return found

    def changed(self, changes: Mapping[str, float]) -> Policy:
        """With some entries changed; primitives that come in stand behind those that are there."""
        new = [name for name in changes if name not in self.entries]
        new.sort(key=lambda name: OPERATIONS[name].number if name in OPERATIONS else -1)
        return Policy({**self.entries, **{name: changes[name] for name in new}, **changes})


def shortest(policy: Policy) -> tuple[str, dict[str, float]]:
    """(name, changes): the named policy that does the same, or takes the fewest changes to."""
    wanted = policy.effective()
    found = []
    for name, entries in POLICIES.items():
        base = Policy(entries)
        here = [*(base.among if policy.chosen else []), *(each for each in base.used if not each.primitive)]
        gone = {each.name: 0 for each in here if each.name not in wanted}
        other = {entry: value for entry, value in wanted.items() if value != base.value(entry)}
        found.append((name, {**gone, **other}))
    return min(found, key=lambda pair: len(pair[1]))


def parse(text: str) -> dict[str, float]:
    """{entry: number} of a text such as 'grey=0,distort.hue=0.05'. Raises ValueError: one line, what would be right."""
    changes, known = {}, known_entries()
    for word in filter(None, text.split(",")):
        entry, equals, number = word.strip().partition("=")
        if not equals:
            raise ValueError(f"{word}: must be ENTRY=NUMBER, e.g. grey=0 or distort.hue=0.05")
        if entry not in known:
            near = "".join(f"did you mean {name}? " for name in difflib.get_close_matches(entry, known, 1, 0.5))
            raise ValueError(f"{entry}: no operation or range has this name; {near}docs/augmentation.md lists them")
        rule = known[entry]
        try:
            value = changes[entry] = float(number)
        except ValueError:
            raise ValueError(f"{entry}={number}: must be a number") from None
        if not (rule.low <= value <= rule.high and math.isfinite(value)) or (rule.whole and value % 1):
            kind = "a whole number" if rule.whole else "a number"
            upper = f" and at most {rule.high:g}" if math.isfinite(rule.high) else ""
            raise ValueError(f"{entry}={number}: must be {kind}, at least {rule.low:g}{upper}")
    return changes


def to_text(changes: Mapping[str, float]) -> str:
    """The text that `parse` turns into these changes."""
    return ",".join(f"{entry}={int(value) if value == int(value) else value}" for entry, value in changes.items())
