"""What names of folders and classes mean: a split, no label, a folder of a tool; and which names
are the same.
"""

from __future__ import annotations

import re
import unicodedata
from fractions import Fraction
from typing import NamedTuple

UNLABELLED = "unlabelled"
# Kind of a split -> usual names of its folder.
_WORDS = {
    "train": "train training trn",
    "val": "val valid validation validate dev devel development eval evaluation",
    "test": "test tests testing tst",
    UNLABELLED: "unlabelled unlabeled unlabel unsup unsupervised nolabel nolabels unannotated",
}
_KINDS = {word: kind for kind, words in _WORDS.items() for word in words.split()}
# What programs write where a value is missing.
_NOTHING = {
    "nan",
    "none",
    "null",
    "na",
    "nil",
    "nat",
    "-1",
    "-1.0",
    "-",
    "--",
    "?",
    "??",
    "...",
    "\u2013",
    "\u2014",
}
_ERROR = re.compile(r"#[a-z/0]+[!?]")  # of a spreadsheet: #REF!, #DIV/0!
# Names of classes in which images often wait for a class.
_DOUBTFUL = {
    *(
        "unknown",
        "unsorted",
        "unclassified",
        "uncategorized",
        "uncategorised",
        "undefined",
        "unclear",
        "unsure",
    ),
    *(
        "other",
        "others",
        "misc",
        "miscellaneous",
        "rest",
        "tolabel",
        "tosort",
        "todo",
        "tbd",
        "pending",
        "inbox",
    ),
}
_NUMBER = re.compile(r"[+-]?\d{1,30}(\.\d{0,30})?", re.ASCII)
# As in train_set, test-images, val2017, "Training data", test1.
_USUAL = re.compile(
    rf"({'|'.join(_KINDS)})[ _.-]*(?:set|split|data|images?|imgs?|pictures|photos)?[ _.-]*(\d*)"
)
# Folders that programs, file systems and storage devices make beside or below images.
_TOOLS = {
    *("@eadir", "#recycle", "@recycle", "#snapshot", "@recently-snapshot", "@tmp"),
    *("$recycle.bin", "system volume information", "lost+found"),
    *("__macosx", "__pycache__", "thumbs", "thumbnails", "_thumbs", "ipod photo cache"),
}


class Meaning(NamedTuple):
    """The meaning of a usual name of a split."""

    kind: str  # train, val, test or UNLABELLED
    number: str  # e.g. 2017 of val2017; usually empty


def meaning(name: str) -> Meaning | None:
    """Returns the split that a name usually means, or None if it may as well name a class."""
    match = _USUAL.fullmatch(unicodedata.normalize("NFKC", name).strip().casefold())
    return Meaning(_KINDS[match[1]], match[2]) if match else None


def of_folder(path: str) -> str:
    """Returns the name of a folder of images; of a split in it, such as `birds/train`, still
    `birds`; '' if none.
    """
    parts = [part for part in path.rpartition("://")[2].split("/") if part]
    while len(parts) > 1 and meaning(parts[-1]):
        parts.pop()
    return parts[-1] if parts else ""


def is_unlabelled(name: str) -> bool:
    """Returns whether a folder or split has a usual name for images without labels."""
    split = meaning(name)
    return split is not None and split.kind == UNLABELLED


def is_nothing(name: str) -> bool:
    """Returns whether a name is what programs write where a value is missing: `NaN`, `None`, `n/a`,
    `#REF!`.
    """
    folded = unicodedata.normalize("NFKC", name).strip().casefold()
    return folded in _NOTHING or _letters(folded) in _NOTHING or bool(_ERROR.fullmatch(folded))


def is_doubtful(name: str) -> bool:
    """Returns whether the images of a class may have no class yet: `unknown`, `to_label`, `NaN`."""
    return is_nothing(name) or _letters(name) in _DOUBTFUL


def kinds_within(name: str) -> set[str]:
    """Returns the kinds of split that single words of a name mean: {'test'} for
    `my_test_pictures`.
    """
    words = re.split(r"[\W\d_]+", unicodedata.normalize("NFKC", name).casefold())
    return {_KINDS[word] for word in words if word in _KINDS}


def is_skipped(name: str) -> bool:
    """Returns whether a file or folder is hidden or made by a tool."""
    return not name or name.startswith(".") or name.casefold() in _TOOLS


def key(name: str) -> str:
    """Returns the same text for equal numbers, and for names that differ only in what is hardly
    seen.

    That is capitals, how accents are composed, spaces and their number, and characters without
    width.
    """
    folded = unicodedata.normalize("NFC", name).casefold()
    visible = "".join(letter for letter in folded if unicodedata.category(letter) != "Cf")
    folded = " ".join(unicodedata.normalize("NFC", visible).split())
    return str(Fraction(folded)) if is_number(folded) else folded


def is_number(name: str) -> bool:
    """Returns whether a name is a number: `0`, `-1.50`."""
    return bool(_NUMBER.fullmatch(name.strip()))


def has_control_characters(name: str) -> bool:
    """Returns whether a name has a line break or the like: lists such as labels.txt have a class on
    each line.
    """
    return any(unicodedata.category(letter) in ("Cc", "Zl", "Zp") for letter in name)


def quoted(name: str, beside: str = "") -> str:
    """Returns a name in quotation marks, with its code points if it looks the same as the one
    beside it.
    """
    composed = unicodedata.normalize("NFC", name)
    alike = name != beside and composed == unicodedata.normalize("NFC", beside)
    return ascii(name).replace("'", '"') if alike or not name.isprintable() else f'"{name}"'


def _letters(name):
    return re.sub(r"[\W_]+", "", unicodedata.normalize("NFKC", name).casefold())
