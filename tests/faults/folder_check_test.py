"""The check of each file: huge images, outcomes of another shape, leftovers of killed runs."""

import json
import os
import struct
import time
import types
import zlib

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.data.decoding import decode, pillow
from cpc_tf.data.sources import check_cache, tfds_source
from cpc_tf.data.sources.folder import open_folder
from cpc_tf.files import remove_leftovers
from tests.data.samples import encode

PIXELS = np.zeros([8, 8, 3], np.uint8)
HOURS_AGO = time.time() - 2 * 3600


OUTCOMES = """
    [] | 3 | "broken" | null | {"broken": [], "huge": [], ZEROS} | {"files": 2, "broken": [], ZEROS}
    | {"files": 2, "broken": "train", "huge": [], ZEROS} | {"files": 2, "broken": [], "huge": {}, ZEROS}
    | {"files": 2, "broken": ["nowhere.png"], "huge": [], ZEROS} | {"files": 2, "broken": [[]], "huge": [], ZEROS}
    | {"files": 1, "broken": ["train/a/1.png"], "huge": [], ZEROS} | {"files": 2, "broken": [5], "huge": [], ZEROS}
    | {"files": 2, "broken": [], "huge": [], "deep": NaN, "several": 0} | {"files": 2, "broken": [], "huge": []}
    | {"files": 2, "broken": [], "huge": [], "deep": "1", "several": 0}
""".replace("ZEROS", '"deep": 0, "several": 0').split("|")


@pytest.mark.parametrize("content", [*OUTCOMES, "[" * 100000, "\xff"])
def test_an_outcome_of_another_shape_is_not_believed(root, tmp_path, content):
    for _ in range(2):
        assert open_folder(str(root), "train", str(tmp_path / "cache")).num_examples == 2
        (outcome,) = (tmp_path / "cache/checked_folders").iterdir()
        found = {"broken": [], "huge": [], "deep": 0, "several": 0}
        assert json.loads(outcome.read_text()) == {"folder": str(root), "files": 2, **found}
        outcome.write_text(content, "latin-1")


def test_leftovers_of_killed_runs_are_removed(tmp_path):
    old, new, other, mine = (tmp_path / f"{'0' * 32}.json{end}" for end in (".12", ".13", ".old", ""))
    for path in (old, new, other, mine):
        path.write_text("{")
        os.utime(path, (HOURS_AGO, HOURS_AGO) if path != new else None)
    check_cache.remember(str(tmp_path / ("1" * 32 + ".json")), {})
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [new.name, other.name, mine.name, "1" * 32 + ".json"]
    )


def test_leftovers_of_killed_preparations_are_removed(tmp_path, refused):
    def prepare():
        (tmp_path / "1.0.0").mkdir(exist_ok=True)
        raise ValueError("enough of it")

    builder = types.SimpleNamespace(
        name="made", data_dir=str(tmp_path / "1.0.0"), info=types.SimpleNamespace(full_name="made", splits={})
    )
    builder.is_prepared, builder.download_and_prepare = (lambda: False), prepare
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("")
    for name in ("1.0.0.incompleteABCDEF", "1.0.0.incompleteGHIJKL", "1.0.1.incompleteABCDEF"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "link").symlink_to(outside)
        (tmp_path / name / "shard").write_text("")
        os.utime(tmp_path / name / "shard", (HOURS_AGO, HOURS_AGO))
        os.utime(tmp_path / name, (HOURS_AGO, HOURS_AGO))
    os.utime(outside / "precious", (HOURS_AGO, HOURS_AGO))
    os.utime(tmp_path / "1.0.0.incompleteGHIJKL/shard")  # at work
    refused(tfds_source.prepare, builder)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"1.0.0", "1.0.0.incompleteGHIJKL", "1.0.1.incompleteABCDEF", "outside"}
    assert (outside / "precious").exists()
    remove_leftovers(str(tmp_path / "nowhere"), ".*")  # no error


def png_header(width, height):
    """A PNG of these sides without its pixels."""
    chunk = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + chunk + struct.pack(">I", zlib.crc32(chunk))


def bmp_header(width, height):
    return b"BM" + bytes(12) + struct.pack("<IiiHH", 40, width, height, 1, 24) + bytes(24)


def gif_header(width, height, frames=1):
    frame = b"," + struct.pack("<HHHHB", 0, 0, width, height, 0) + b"\x02\x01\x00\x00"
    control = b"!\xf9\x04" + bytes(5)
    return b"GIF89a" + struct.pack("<HHBBB", width, height, 0, 0, 0) + control + frame * frames + b";"


@pytest.mark.parametrize("header", [png_header, bmp_header, gif_header])
def test_sizes_come_from_headers(header):
    assert decode.image_size(tf.constant(header(12000, 9000))).numpy().tolist() == [9000, 12000]
    assert decode.header(tf.constant(header(12000, 9000))).pixels == 108_000_000


def test_all_frames_of_a_gif_count():
    assert decode.header(tf.constant(gif_header(100, 200, frames=2))).pixels == 20_000
    assert decode.header(tf.constant(gif_header(100, 200, frames=9))).pixels == 60_000
    assert len(pillow.header(b"GIF89a" + bytes(7))) == 0
    with pytest.raises(tf.errors.InvalidArgumentError):
        decode.image_size(tf.constant(b"GIF89a" + bytes(7)))


def test_rows_of_a_bmp_may_be_stored_from_the_top():
    assert decode.image_size(tf.constant(bmp_header(7, -5))).numpy().tolist() == [5, 7]


@pytest.mark.parametrize("header", [png_header, bmp_header, gif_header])
def test_bombs_are_left_out_by_their_headers(root, tmp_path, warnings, header, monkeypatch, refused):
    for number in range(200):
        (root / f"train/a/{number}.png").write_bytes(encode(PIXELS))
    (root / "train/a/bomb.png").write_bytes(header(20000, 20000))
    open_the = lambda limit: open_folder(str(root), "train", str(tmp_path / "cache"), limit)  # noqa: E731
    assert open_the(100.0).num_examples == 201
    (line,) = warnings
    assert "1 of 202 files (0.495 %) have 100 megapixels or more and are left out: train/a/bomb.png" in line
    assert "shrink them: train/a/0.png" in refused(open_the, 64e-6)  # the limit is part of what is remembered
    assert open_the(100.0).num_examples == 201
