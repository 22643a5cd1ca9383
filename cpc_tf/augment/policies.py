"""Augmentation policies as data, and changes of single entries.

An entry is a number under a name. OPERATION is the probability of a step; for an AutoAugment primitive it is 1 if the
primitive may be chosen, else 0. OPERATION.RANGE is how far the operation may go, `autoaugment` how many primitives are
chosen for each patch. Operations and ranges are those of operations.py.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Mapping

from cpc_tf.augment.operations import OPERATIONS, Bounds, Operation, Range

CHOSEN = "autoaugment"  # the entry that holds how many primitives are chosen

# Cubuk et al. 2018, table 6: its operations without Cutout and SamplePairing. The order is part of every recipe.
AUTOAUGMENT = dict.fromkeys(
    "shear_x shear_y translate_x translate_y rotate auto_contrast invert equalize solarize posterize contrast color "
    "brightness sharpness".split(),
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
    "full": {CHOSEN: 2, **AUTOAUGMENT, "elastic": 0.2, "histogram": 0.2, "distort": 0.8, "grey": 0.25},
    # Ours, for patches of about 16 px: `full` without AutoAugment and grey, and with less hue (docs/augmentation.md).
    "small_patches": {CHOSEN: 0, **AUTOAUGMENT, "elastic": 0.2, "histogram": 0.2, "distort": 0.8, "distort.hue": 0.05},
}


@dataclasses.dataclass(frozen=True)
class Policy:
    """What is done to a patch: the value of every entry. The order of primitives is part of every recipe."""

    entries: Mapping[str, float]

    def ranges(self, operation: str) -> dict[str, float]:
        """Returns {range: value} of an operation, used or not."""
        return {each.name: self.entries[f"{operation}.{each.name}"] for each in OPERATIONS[operation].ranges}

    def bounds(self, operation: str, side: int) -> Bounds:
        """Returns lowest and highest of each real number that an operation draws for patches of `side` px."""
        values, ranges = self.ranges(operation), OPERATIONS[operation].ranges
        return [bounds for each in ranges if each.drawn for bounds in each.drawn(values[each.name], side)] or [(0, 0)]

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

    def _present(self) -> list[Operation]:
        return [OPERATIONS[name] for name, value in self.entries.items() if value and name in OPERATIONS]


def named(name: str, changes: Mapping[str, float]) -> Policy:
    """Returns a policy with some entries changed. Added primitives stand behind its own."""
    defaults = {entry: rule.default for entry, rule in _known_entries().items()}
    return Policy({**POLICIES[name], **defaults, **POLICIES[name], **changes})


def parse(text: str) -> dict[str, float]:
    """Returns {entry: number} of a text such as 'grey=0,distort.hue=0.05'. Raises ValueError with one line."""
    changes, known = {}, _known_entries()
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
        if not (rule.minimum <= value <= rule.maximum and math.isfinite(value)) or (rule.integer and value % 1):
            kind = "a whole number" if rule.integer else "a number"
            wanted = f"{kind}, at least {rule.minimum:g} and at most {rule.maximum:g}"
            raise ValueError(f"{entry}={number}: must be {wanted}")
    return changes


def to_text(changes: Mapping[str, float]) -> str:
    """Returns the text that `parse` turns into these changes."""
    return ",".join(f"{entry}={int(value) if value == int(value) else value}" for entry, value in changes.items())


def _known_entries() -> dict[str, Range]:
    """Returns the allowed values of each entry by its name, in the order of the operations' numbers."""
    found = {CHOSEN: Range(CHOSEN, 0, integer=True)}
    for each in sorted(OPERATIONS.values(), key=lambda each: each.number):
        found[each.name] = Range(each.name, 0, maximum=1, integer=each.primitive or not each.coin)
        found.update({f"{each.name}.{inner.name}": inner for inner in each.ranges})
    return found
