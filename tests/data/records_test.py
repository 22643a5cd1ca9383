"""Records: their index is read once and rebuilt if it is damaged; with --share_records each host
reads its share.
"""

import itertools
import os
import pathlib
import types

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.augment.config import AugmentConfig
from cpc_tf.core.files import bytes_read
from cpc_tf.data import pipeline, records
from cpc_tf.data.config import GeometryConfig
from cpc_tf.data.datasets import TfdsSource
from cpc_tf.data.records import Piece, index_of
from cpc_tf.data.views import PatchGrid
from tests.data.source_test import levels

pytestmark = pytest.mark.slow


@pytest.fixture
def pieces(sharded, tmp_path, monkeypatch):
    """Two files of 5 and 4 records, whose indices are remembered."""
    monkeypatch.setenv("CPC_TF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(records, "REMEMBERED", 0)
    monkeypatch.setattr(records, "_BATCH", 3)
    return [
        Piece(*vars(piece).values())
        for piece in sharded(5, 4, skip=4).info.splits["train"].file_instructions
    ]


def reads(monkeypatch):
    """Counts the passes over all records."""
    passes, read = [], records._read
    monkeypatch.setattr(records, "_read", lambda *arguments: passes.append(1) or read(*arguments))
    return passes


def test_index_has_offsets_and_labels_of_all_records(pieces):
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
        path.write_bytes(
            {"cut": path.read_bytes()[:-30], "empty": b"", "text": b"not an index"}[spoil]
        )
    passes = reads(monkeypatch)
    assert all(map(np.array_equal, first, index_of(pieces, "label", "it")))
    assert all(map(np.array_equal, first, index_of(pieces, "label", "it")))
    assert len(passes) == 1


def opened(builder, window, shared=True):
    source = TfdsSource(builder, "train", window)
    source.shared = shared
    return source


@pytest.mark.parametrize(("window", "hosts"), [(4, 2), (100, 3)])
def test_host_shares_cover_the_epoch_without_remainder(sharded, window, hosts):
    source = opened(sharded(5, 1, 4, 3), window)  # 13: one is left out
    shares = [source.share(host, hosts) for host in range(hosts)]
    own = 13 // hosts
    epochs = [levels(share.stream(seed=3), 3 * own) for share in shares]
    for counters in ([counter for counter, _ in epoch] for epoch in epochs):
        assert counters == list(range(3 * own))
    of_epochs = [[level for _, level in epoch] for epoch in epochs]
    for start in range(0, 3 * own, own):
        together = [level for epoch in of_epochs for level in epoch[start : start + own]]
        assert len(set(together)) == len(together) == own * hosts
    dealt = {
        frozenset(epoch[start : start + own])
        for epoch in of_epochs
        for start in range(0, 3 * own, own)
    }
    assert len(dealt) > hosts, "each epoch is dealt anew"
    start = own + 1
    assert levels(shares[-1].stream(seed=3, start=start), own) == epochs[-1][start : start + own]


def test_hosts_train_on_their_shares(sharded):
    """A resume goes on with the same batches, and no two images of a step are cut or augmented
    alike.
    """
    source, geometry = opened(sharded(4, 4, 4), 5), GeometryConfig(2, 2, 2, 1)

    def seen(host, start=0):
        options = {"global_batch": 4, "seed": 1, "shard": (host, 2), "start_step": start}
        batches = pipeline.batches(
            source, PatchGrid(), geometry, AugmentConfig(augment="none"), **options
        )
        return [
            batch["patches"][:, 0, 0, 0, 0, 0].tolist()
            for batch in itertools.islice(batches.as_numpy_iterator(), 6)
        ]

    of_hosts = [seen(host) for host in range(2)]
    assert sorted(
        level for batches in of_hosts for batch in batches[:3] for level in batch
    ) == list(range(12))
    assert seen(1, start=2)[:4] == of_hosts[1][2:]
    source.share = lambda *host: types.SimpleNamespace(
        stream=lambda seed, start: tf.data.Dataset.range(start, start + 4).map(
            lambda n: {"counter": n}
        )
    )
    for host in range(2):
        rows = pipeline.endless(source, lambda example: example, 4, 1, 3, (host, 2), None)
        assert [batch["counter"].tolist() for batch in rows.as_numpy_iterator()] == [
            [12 + 2 * host, 13 + 2 * host],
            [16 + 2 * host, 17 + 2 * host],
        ]


def test_too_few_records_are_refused(sharded, refused):
    source = opened(sharded(2), 4)
    assert (
        refused(source.share, 0, 3) == "--share_records: 2 records cannot be shared among 3 hosts"
    )
    assert opened(sharded(2), 4, shared=False).share(0, 3) is None


def test_hosts_together_read_each_byte_once(sharded):
    noise = np.random.default_rng(0).integers(0, 256, [300, 300, 3], np.uint8)
    builder, zero = sharded(*[4] * 6, picture=noise), tf.constant(0, tf.int64)
    whole = sum(
        os.path.getsize(piece.filename) for piece in builder.info.splits["train"].file_instructions
    )

    def read(source):
        """The bytes that an epoch reads."""
        before = bytes_read()
        assert (
            sum(len(window) for _, window in source._windows(0, zero, zero)) == source.num_examples
        )
        return bytes_read() - before

    source = opened(builder, 8)
    assert read(source) == pytest.approx(whole, rel=0.01)
    for hosts in (2, 3):
        assert sum(read(source.share(host, hosts)) for host in range(hosts)) == pytest.approx(
            whole, rel=0.01
        )
