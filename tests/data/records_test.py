"""Labels and places of records: read once, remembered, and made anew if the memory is damaged or of other files."""

import os
import pathlib

import numpy as np
import pytest

from cpc_tf.data import records
from cpc_tf.data.records import Piece, index_of

pytestmark = pytest.mark.slow


@pytest.fixture
def pieces(sharded, tmp_path, monkeypatch):
    """Two files of 5 and 4 records, whose indices are remembered."""
    monkeypatch.setenv("CPC_TF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(records, "REMEMBERED", 0)
    monkeypatch.setattr(records, "_BATCH", 3)
    return [Piece(*vars(piece).values()) for piece in sharded(5, 4, skip=4).info.splits["train"].file_instructions]


def reads(monkeypatch):
    """Counts the passes over all records."""
    passes, read = [], records._read
    monkeypatch.setattr(records, "_read", lambda *arguments: passes.append(1) or read(*arguments))
    return passes


def test_an_index_has_the_places_and_labels_of_the_records_of_its_pieces(pieces):
    found = index_of(pieces, "label", "it")
    assert found.labels.tolist() == [number % 3 for number in range(9)]
    assert found.pieces.tolist() == [0] * 5 + [1] * 4
    for piece, offset in zip(found.pieces, found.offsets):
        content = pathlib.Path(pieces[piece].path).read_bytes()
        (length,) = np.frombuffer(content[offset : offset + 8], np.int64)
        assert b"image" in content[offset + 12 : offset + 12 + length]
    assert found.offsets[0] == 4 * (len(b"not to be read") + records.FRAME)
    assert set(index_of(pieces, "", "it").labels) == {-1}


def test_records_are_read_once_a_machine(pieces, monkeypatch):
    passes, first = reads(monkeypatch), index_of(pieces, "label", "it")
    assert all(map(np.array_equal, first, index_of(pieces, "label", "it")))
    assert len(passes) == 1
    index_of(pieces[:1], "label", "it")
    os.utime(pieces[0].path, (0, 0))
    index_of(pieces, "label", "it")
    assert len(passes) == 3, "of other pieces, and of a file that has changed"


@pytest.mark.parametrize("spoil", ["cut", "empty", "other", "text"])
def test_a_damaged_index_is_made_anew(pieces, monkeypatch, tmp_path, spoil):
    first = index_of(pieces, "label", "it")
    (path,) = (tmp_path / "cache" / "record_indices").iterdir()
    if spoil == "other":
        np.savez(path, **{**first._asdict(), "offsets": first.offsets + 10_000})
    else:
        path.write_bytes({"cut": path.read_bytes()[:-30], "empty": b"", "text": b"not an index"}[spoil])
    passes = reads(monkeypatch)
    assert all(map(np.array_equal, first, index_of(pieces, "label", "it")))
    assert all(map(np.array_equal, first, index_of(pieces, "label", "it")))
    assert len(passes) == 1
