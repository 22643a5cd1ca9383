"""The check of each file: broken and huge images, what is remembered of them, leftovers of killed
runs.
"""

import os
import struct
import time

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from cpc_tf.core import progress
from cpc_tf.data import check, decode
from cpc_tf.data.table import FINDINGS
from tests.attacks import declared_gif, declared_png
from tests.data.samples import encode, open_folder, write_files

pytestmark = pytest.mark.slow

NOISE = Image.effect_noise((32, 32), 50).convert("RGB")
# Names -> contents and what they are called.
BROKEN = {
    "cut.jpg": (encode(NOISE, "JPEG")[:-100], "a JPEG that is cut short"),
    "cut.png": (encode(NOISE, "PNG")[:99], "a PNG that is cut short"),
    "empty.jpg": (b"", "empty"),
    "text.JPG": (b"Not an image.", "text"),
}
DESCRIBED = [f"{name} ({what})" for name, (_, what) in BROKEN.items()]


def test_more_than_one_percent_broken_files_is_refused(
    tmp_path, cache, write_folder, warnings, refused
):
    root = write_folder(tmp_path / "x", [f"{i:03}.png" for i in range(197)])
    write_files(
        tmp_path / "x",
        {"png_inside.jpg": encode(NOISE), "empty.jpg": b"", "text.JPG": BROKEN["text.JPG"][0]},
    )
    source = open_folder(root, "train", cache)
    assert source.num_examples == len(list(source.ordered())) == 198
    assert warnings == [
        f"--dataset=folder:{root}: 2 of 200 files (1 %) cannot be decoded and are left out; "
        f"remove or repair them: {', '.join(DESCRIBED[2:])}"
    ]
    write_files(tmp_path / "x", {name: BROKEN[name][0] for name in ("cut.jpg", "cut.png")})
    for _ in range(2):  # checked, then remembered
        assert (
            refused(open_folder, root, "train", cache)
            == f"--dataset=folder:{root}: 4 of 202 files (1.98 %) cannot be decoded, more than"
            " 1 %; "
            f"remove or repair them: {', '.join(DESCRIBED)}"
        )


def test_long_lists_of_broken_files_are_cut(tmp_path, cache, refused):
    write_files(tmp_path, {f"x/{i:02}.jpg": b"" for i in range(25)})
    said = refused(open_folder, tmp_path / "x", "train", cache)
    assert "25 of 25 files (100 %)" in said
    assert said.endswith(" 19.jpg (empty) and 5 more")


def test_first_of_several_frames_is_used_and_reported(tmp_path, cache, warnings):
    frames = {"one": {}, "several": {"save_all": True, "append_images": [NOISE.rotate(90)]}}
    for kind in ("gif", "tiff", "webp"):
        write_files(
            tmp_path, {f"x/{name}.{kind}": encode(NOISE, kind, **frames[name]) for name in frames}
        )
    assert open_folder(tmp_path / "x", "train", cache).num_examples == 6
    assert warnings == [
        f"{tmp_path}/x: 3 of 6 files have several frames or pages, of which the first is used"
    ]


def test_long_checks_show_time_left(root, cache, monkeypatch, capfd):
    """Where a user sees it, and at the verbosity of our binaries."""
    monkeypatch.setattr(progress, "_FIRST", 0)
    monkeypatch.setattr(progress, "_THEN", (0.01, 0.01))
    open_folder(root, "train", cache)
    assert f"checking the images in {root} ..." in capfd.readouterr().err


def test_the_check_is_remembered_until_a_file_changes(tmp_path, cache, write_folder, monkeypatch):
    root, checks = write_folder(tmp_path / "x", ["a.png", "b.png"]), []
    check_files = check._check
    monkeypatch.setattr(check, "_check", lambda *args: checks.append(1) or check_files(*args))
    for _ in range(2):
        open_folder(root, "train", cache)
    assert len(checks) == 1
    os.utime(tmp_path / "x" / "a.png", ns=(1, 1))
    open_folder(root, "train", cache)
    assert len(checks) == 2
    (tmp_path / "x" / "b.png").rename(tmp_path / "x" / "c.png")
    open_folder(root, "train", cache)
    assert len(checks) == 3
    assert len(list((tmp_path / "cache/checked_folders").iterdir())) == 3, "nothing left aside"


def test_the_cache_is_where_cpc_tf_cache_says(tmp_path, write_folder, monkeypatch):
    root = write_folder(tmp_path / "x", ["a.png"])
    monkeypatch.delenv("CPC_TF_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    open_folder(root)
    assert len(list((tmp_path / "xdg/cpc_tf/checked_folders").iterdir())) == 1
    monkeypatch.setenv("CPC_TF_CACHE", str(tmp_path / "chosen"))
    open_folder(root)
    assert len(list((tmp_path / "chosen/checked_folders").iterdir())) == 1


def test_unwritable_cache_is_only_a_warning(tmp_path, cache, write_folder, warnings):
    (tmp_path / "cache").write_text("a file where the folder should be")
    assert open_folder(write_folder(tmp_path / "x", ["a.png"]), "train", cache).num_examples == 1
    (line,) = warnings
    assert "the folder will be checked again" in line


FOUND = np.ones([2, FINDINGS], np.int64)
OUTCOMES = [
    *(
        b"",
        b"[]",
        b"PK\x03\x04",
        b"\xff" * 99,
        {},
        {"found": FOUND, "more": FOUND},
        {"found": np.array([None])},
    ),
    *(
        {"found": own}
        for own in (
            FOUND[:1],
            FOUND[:, 1:],
            FOUND[0],
            FOUND * 1.0,
            FOUND.astype(str),
            0 * FOUND,
            4 * FOUND,
        )
    ),
]


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("content", OUTCOMES, ids=range(len(OUTCOMES)))
def test_an_outcome_of_another_shape_is_not_believed(root, cache, tmp_path, content):
    for _ in range(2):
        assert open_folder(root, "train", cache).num_examples == 2
        (outcome,) = (tmp_path / "cache/checked_folders").iterdir()
        with np.load(outcome) as found:
            assert found.files == ["found"]
            assert found["found"].tolist() == [[check.SOUND, 0, 0, 8, 8, 1, 0]] * 2
        if isinstance(content, bytes):
            outcome.write_bytes(content)
        else:
            np.savez(outcome, **content)


def test_leftovers_of_killed_runs_are_removed(root, cache, tmp_path):
    folder, hours_ago = tmp_path / "cache/checked_folders", time.time() - 2 * 3600
    kept = {"0" * 32 + end for end in (".npz.13.tmp", ".npz.old", ".npz")}
    write_files(folder, {name: "{" for name in (*kept, "0" * 32 + ".npz.12.tmp")})
    for path in folder.iterdir():
        os.utime(path, (hours_ago, hours_ago) if "13" not in path.name else None)
    open_folder(root, "train", cache)
    assert len({path.name for path in folder.iterdir()} - kept) == 1, "the new outcome alone"
    assert kept <= {path.name for path in folder.iterdir()}


def bmp_header(width, height):
    return b"BM" + bytes(12) + struct.pack("<IiiHH", 40, width, height, 1, 24) + bytes(24)


def test_bombs_are_left_out_by_their_headers(root, cache, warnings, refused):
    for kind, header in {
        "png": declared_png,
        "bmp": bmp_header,
        "gif": lambda *size: declared_gif(size),
    }.items():
        assert decode.image_size(tf.constant(header(12000, 9000))).numpy().tolist() == [9000, 12000]
        assert decode.header(tf.constant(header(12000, 9000))).pixels == 108_000_000
        write_files(root, {f"train/a/{kind}.png": header(20000, 20000)})
    write_files(
        root,
        {f"train/a/{number}.png": encode(np.zeros([8, 8, 3], np.uint8)) for number in range(400)},
    )
    with open(root / "train/a/large.png", "wb") as file:
        file.truncate(900_000_000)
    assert open_folder(root, "train", cache).num_examples == 401
    (line,) = warnings
    limits = "have 100 megapixels or more, or 800 MB or more"
    left_out = "train/a/bmp.png, train/a/gif.png, train/a/large.png, train/a/png.png"
    assert (
        f"4 of 405 files (0.988 %) {limits} and are left out; remove or shrink them: {left_out}"
        in line
    )
    # The limit is part of what is remembered.
    assert "405 of 405 files (100 %)" in refused(
        open_folder, root, "train", cache, max_megapixels=64e-6
    )
    assert open_folder(root, "train", cache).num_examples == 401


def test_gif_frames_count_and_top_down_bmp_opens():
    assert decode.header(tf.constant(declared_gif(*[(100, 200)] * 2))).pixels == 20_000
    assert decode.header(tf.constant(declared_gif(*[(100, 200)] * 9))).pixels == 60_000
    with pytest.raises(tf.errors.InvalidArgumentError):
        decode.image_size(tf.constant(b"GIF89a" + bytes(7)))
    assert decode.image_size(tf.constant(bmp_header(7, -5))).numpy().tolist() == [5, 7]
