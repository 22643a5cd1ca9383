"""What usual names of folders mean: splits, pictures without labels, folders of tools; and which names are the same."""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

from cpc_tf.texts import escaped

UNLABELLED = "unlabelled"
# Kind of a split -> the words that people name its folder by.
_WORDS = {
    "train": "train training trn",
    "val": "val valid validation validate dev devel development eval evaluation",
    "test": "test tests testing tst",
    UNLABELLED: "unlabelled unlabeled unlabel unsup unsupervised nolabel nolabels unannotated",
}
_KINDS = {word: kind for kind, words in _WORDS.items() for word in words.split()}
# As in train_set, test-images, val2017, "Training data", test1.
_USUAL = re.compile(rf"({'|'.join(_KINDS)})[ _.-]*(?:set|split|data|images?|imgs?|pictures|photos)?[ _.-]*(\d*)")
# Folders that programs, file systems and storage devices make beside or below pictures.
_TOOLS = {
    *("@eadir", "#recycle", "@recycle", "#snapshot", "@recently-snapshot", "@tmp"),
    *("$recycle.bin", "system volume information", "lost+found"),
    *("__macosx", "__pycache__", "thumbs", "thumbnails", "_thumbs", "ipod photo cache"),
}


class Meaning(NamedTuple):
    """Of a name that is usual for a split."""

    kind: str  # train, val, test or UNLABELLED
    number: str  # e.g. 2017 of val2017; usually empty


def meaning(name: str) -> Meaning | None:
    """Which split a name is usual for. None if it may as well be the name of a class."""
    match = _USUAL.fullmatch(unicodedata.normalize("NFKC", name).strip().casefold())
    return Meaning(_KINDS[match[1]], match[2]) if match else None


def is_unlabelled(name: str) -> bool:
    """Whether a folder or split is named as one of pictures without labels."""
    found = meaning(name)
    return found is not None and found.kind == UNLABELLED


def kinds_within(name: str) -> set[str]:
    """Kinds of split that single words of a name mean: of `my_test_pictures` it is {'test'}."""
    words = re.split(r"[\W\d_]+", unicodedata.normalize("NFKC", name).casefold())
    return {_KINDS[word] for word in words if word in _KINDS}


def is_skipped(name: str) -> bool:
    """Whether a file or folder of this name is hidden, or is made by a tool and holds no pictures of its own."""
    return not name or name.startswith(".") or name.casefold() in _TOOLS


def key(name: str) -> str:
    """The same text for names that differ only in capitals, in how accents are composed, or in spaces at the ends."""
    folded = unicodedata.normalize("NFC", name).casefold()
    return unicodedata.normalize("NFC", folded).strip()


def quoted(name: str, beside: str = "") -> str:
    """A name in quotation marks; with its code points if it looks the same as the one beside it."""
    alike = name != beside and unicodedata.normalize("NFC", name) == unicodedata.normalize("NFC", beside)
    return ascii(name).replace("'", '"') if alike or not name.isprintable() else f'"{name}"'


def shortened(name: str, most: int = 40) -> str:
    """A name that is not too long for a list, with what cannot be printed escaped."""
    name = escaped(name)
    return name if len(name) <= most else f"{name[: most - 3]}..."
