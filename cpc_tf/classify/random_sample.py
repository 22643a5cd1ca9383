"""The random sample of the label page: a quarter of all images, on which no choice of the page
depends.

It follows from the names of the images alone, so `cpc-tf classify` finds it again in a table that
the page wrote. An accuracy on it is that of new images; the other labelled images were chosen, many
because they are hard.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence

import numpy as np

# one image in so many is of the random sample, and how many at most
PART = 4
MOST = 1000
LEAST = 10  # images of it with a label, below which no accuracy is stated


def of(names: Sequence[str], seed: int) -> np.ndarray:
    """Returns a random quarter of all images in a random order, which depends on the names alone:
    int64 [S].
    """
    keys = [
        hashlib.sha256(f"{seed}\n{name}".encode(errors="surrogateescape")).digest()
        for name in names
    ]
    order = np.array(sorted(range(len(keys)), key=keys.__getitem__), np.int64)
    return order[: min(MOST, len(order) // PART)]


def drawn(sample: np.ndarray, labelled: Collection[int]) -> np.ndarray:
    """Returns the labelled images that are a random sample of all: int64.

    They are those of the longest beginning of the random sample of which nine in ten are labelled.
    """
    has_label = np.isin(sample, [*labelled])
    enough = np.flatnonzero(np.cumsum(has_label) >= 0.9 * np.arange(1, len(sample) + 1))
    return sample[: enough[-1] + 1][has_label[: enough[-1] + 1]] if len(enough) else sample[:0]
