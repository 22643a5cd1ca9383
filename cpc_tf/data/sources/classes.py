"""Whether two splits have the same classes: what one of them lacks is named, or ends the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cpc_tf.data.sources import names as names_of
from cpc_tf.data.sources.source import SplitError
from cpc_tf.texts import listed


class Matched(NamedTuple):
    """The classes of several splits. Those that differ only in their spelling are one.

    Attributes:
      class_names: sorted; a class is spelled as in the first split that has it.
      number_of: {spelling: index of its class}.
      lines: what was matched, for the user.
      trouble: why they cannot be matched, '' if they can.
    """

    class_names: tuple[str, ...]
    number_of: dict[str, int]
    lines: tuple[str, ...] = ()
    trouble: str = ""


def match(spellings: Mapping[str, Sequence[str]]) -> Matched:
    """Matches equal numbers, and names that differ only in capitals, composed accents or spaces at their ends.

    Args:
      spellings: {split: names of its classes}.
    """
    quoted, name_of, lines = names_of.quoted, {}, []  # name_of: {key: the class's name}
    for split, own in spellings.items():
        here = {}
        for name in sorted(own):
            key = names_of.key(name)
            if key in here:
                pair = f"{quoted(here[key], name)} and {quoted(name, here[key])}"
                same = "are one number" if names_of.is_number(name) else "differ only in capitals, accents or spaces"
                why = f"its classes {pair} in {split} {same}; make them one"
                return Matched((), {}, trouble=why)
            here[key] = name
            first = name_of.setdefault(key, name)
            if first != name:
                lines.append(f"one class: {quoted(first, name)} is {quoted(name, first)} in {split}")
    class_names = tuple(sorted(name_of.values()))
    number = {name: index for index, name in enumerate(class_names)}
    spelled = {name for own in spellings.values() for name in own}
    return Matched(class_names, {name: number[name_of[names_of.key(name)]] for name in spelled}, tuple(lines))


def compare(train: Mapping[str, int], test: Mapping[str, int], split: str, test_split: str, unit: str) -> list[str]:
    """Returns lines for the user on classes that only one of two splits has.

    Args:
      train, test: {class: how many `unit` the split has of it}.
      split, test_split: the values of these flags.
      unit: 'images' or 'objects'.

    Raises:
      SplitError: the test has a class that cannot be learned, since `train` has no example of it.
    """
    only = [name for name in train if train[name] and not test.get(name)]
    unknown = [f"{name} ({test[name]})" for name in test if test[name] and not train.get(name)]
    if unknown:
        word = "class" if len(unknown) == 1 else "classes"
        also = f"; only --split={split} has {listed(only)}" if only else ""
        raise SplitError(
            test_split,
            f"{unit} of {len(unknown)} {word} that --split={split} has none of, so that they cannot be learned and "
            f"would all count as errors: {listed(unknown)}{also}; add them to it, rename the {word}, or take the "
            f"{unit} out of the test",
            "test_split",
        )
    lines = []
    if only:
        counted = listed([f"{name} ({train[name]})" for name in only])
        lines.append(f"learned but never tested, since --test_split={test_split} has none: {counted}")
    neither = [name for name in train if not train[name] and not test.get(name)]
    if neither:
        lines.append(f"classes of --dataset that neither split has: {listed(neither)}")
    return lines


def described(counts: Mapping[str, int], shown: int = 12) -> str:
    """Returns how many there are of each class, e.g. '2 classes: cat 10, dog 12'; of many, the first and the range."""
    present = {name: count for name, count in counts.items() if count}
    word = "class" if len(present) == 1 else "classes"
    few = ", ".join(f"{names_of.shortened(name)} {count}" for name, count in list(present.items())[:shown])
    if len(present) <= shown:
        return f"{len(present)} {word}: {few}" if present else "no classes"
    least, most = min(present.values()), max(present.values())
    each = f"{least}" if least == most else f"{least} to {most}"
    return f"{len(present)} {word}, {each} of each: {few}, ..."
