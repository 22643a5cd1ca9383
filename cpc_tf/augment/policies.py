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

from cpc_tf.augment.operations import OPERATIONS, Bounds, Operation, Range

CHOSEN = "autoaugment"  # the entry that says how many primitives are chosen

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
        return self.entries.get(operation, 0)

    def ranges(self, operation: str) -> dict[str, float]:
        """{range: value} of an operation, used or not."""
        found = OPERATIONS[operation].ranges
        return {each.name: self.entries.get(f"{operation}.{each.name}", each.usual) for each in found}

    def bounds(self, operation: str, side: int) -> Bounds:
        """Lowest and highest of each real number that the operation takes on patches of `side` px."""
        return OPERATIONS[operation].bounds(self.ranges(operation), side)

    @functools.cached_property
    def chosen(self) -> int:
        """How many primitives are chosen for each patch."""
        return int(self.entries.get(CHOSEN, 0))

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

    def value(self, entry: str) -> float:
        """The number of an entry, present or not."""
        if entry == CHOSEN:
            return self.chosen
        operation, _, name = entry.partition(".")
        return self.ranges(operation)[name] if name else self.probability(operation)

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
    changes = {}
    for word in filter(None, text.split(",")):
        entry, equals, number = word.strip().partition("=")
        if not equals:
            raise ValueError(f"{word}: must be ENTRY=NUMBER, e.g. grey=0 or distort.hue=0.05")
        low, high, whole = _limits(entry)
        try:
            changes[entry] = float(number)
        except ValueError:
            raise ValueError(f"{entry}={number}: must be a number") from None
        if not (low <= changes[entry] <= high and math.isfinite(changes[entry])) or (whole and changes[entry] % 1):
            kind = "a whole number" if whole else "a number"
            upper = f" and at most {high:g}" if high < float("inf") else ""
            raise ValueError(f"{entry}={number}: must be {kind}, at least {low:g}{upper}")
    return changes


def to_text(changes: Mapping[str, float]) -> str:
    """The text that `parse` turns into these changes."""
    return ",".join(f"{entry}={int(value) if value == int(value) else value}" for entry, value in changes.items())


def _limits(entry: str) -> tuple[float, float, bool]:
    """(lowest, highest, must it be whole) of an entry. Raises ValueError."""
    if entry == CHOSEN:
        return 0, float("inf"), True
    known: dict[str, Range | Operation] = dict(OPERATIONS)
    known.update({f"{name}.{each.name}": each for name, one in OPERATIONS.items() for each in one.ranges})
    if entry not in known:
        near = difflib.get_close_matches(entry, [CHOSEN, *known], 1, 0.5)
        hint = f"did you mean {near[0]}? " if near else ""
        raise ValueError(f"{entry}: no operation or range has this name; {hint}docs/augmentation.md lists them")
    found = known[entry]
    if isinstance(found, Range):
        return found.minimum, found.maximum, False
    return 0, 1, found.primitive or not found.coin
