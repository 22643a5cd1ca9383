"""The user's own pictures: layouts, hostile files, the remembered check."""

import io
import json
import os

import numpy as np
import pytest
import tensorflow as tf
from absl import logging
from PIL import Image

from cpc_tf.data.sources import folder_check, folder_tree
from cpc_tf.data.sources.folder import open_folder
from cpc_tf.settings import ConfigError


@pytest.fixture
def cache(tmp_path):
    return str(tmp_path / "cache")


@pytest.fixture
def warnings(monkeypatch):
    lines = []
    monkeypatch.setattr(logging, "warning", lambda message, *values: lines.append(message % values))
    return lines


def contents(source):
    """[(grey level = number of the file as written, label)]"""
    return [(int(tf.io.decode_image(e["encoded"])[0, 0, 0]), int(e["label"])) for e in source.ordered()]


def test_flat_folder_is_unlabelled(tmp_path, cache, write_folder):
    source = open_folder(write_folder(tmp_path / "x", ["b.png", "a.PNG", "C.Png"]), "train", cache)
    assert source.num_examples == 3
    assert source.class_names == ()
    assert contents(source) == [(2, -1), (1, -1), (0, -1)]  # in the order of the names: C a b


def test_folder_per_class(tmp_path, cache, write_folder):
    root = write_folder(tmp_path / "x", ["dog/1.png", "cat/1.png", "dog/deep/2.png", "cat/2.png"])
    source = open_folder(root + "/", "train", cache)
    assert source.class_names == ("cat", "dog")
    assert contents(source) == [(1, 0), (3, 0), (0, 1), (2, 1)]


SPLITS = ["train/cat/1.png", "train/dog/2.png", "val/dog/3.png", "test/4.png", "test/5.png"]


@pytest.mark.parametrize(
    ("split", "expected", "classes"),
    [
        ("train", [(0, 0), (1, 1)], ("cat", "dog")),
        ("val", [(2, 1)], ("cat", "dog")),
        ("validation", [(2, 1)], ("cat", "dog")),
        ("test", [(3, -1), (4, -1)], ()),
    ],
)
def test_split_folders_share_their_labels(tmp_path, cache, write_folder, split, expected, classes):
    source = open_folder(write_folder(tmp_path / "x", SPLITS), split, cache)
    assert contents(source) == expected
    assert source.class_names == classes


@pytest.mark.parametrize("split", ["test", "train[:10%]", ""])
def test_absent_split_says_which_there_are(tmp_path, cache, write_folder, split):
    root = write_folder(tmp_path / "x", ["train/1.png", "validation/2.png"])
    with pytest.raises(ConfigError) as error:
        open_folder(root, split, cache)
    assert str(error.value) == f"--split={split}: folder:{root} has train, validation"


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["a.png", "b/c.png"], {"train": ["a.png", "b/c.png"]}),
        (["train/a.png"], {"train": ["train/a.png"]}),
        (["val/a.png"], {"val": ["val/a.png"]}),
        (["Training/a.png", "DEV/b.png"], {"DEV": ["DEV/b.png"], "Training": ["Training/a.png"]}),
        (["train2017/a.png", "val2017/b.png"], {"train2017": ["train2017/a.png"], "val2017": ["val2017/b.png"]}),
        (["train/a.png", "unlabeled/b.png"], {"train": ["train/a.png"], "unlabeled": ["unlabeled/b.png"]}),
        (["a/train/b.png", "a/test/c.png"], {"train": ["a/train/b.png"], "test": ["a/test/c.png"]}),
        (["train_station/a.png", "car/b.png"], {"train": ["train_station/a.png", "car/b.png"]}),
        (["train/a.png", "val/b.png", "x/c.png"], {"train": ["train/a.png"], "val": ["val/b.png"], "x": ["x/c.png"]}),
        (["train/a.png", "test/b.png", "loose.png"], {"train": ["train/a.png"], "test": ["test/b.png"]}),
        ([], {}),
    ],
)  # fmt: skip
def test_which_folders_are_splits(names, expected):
    assert folder_tree.splits(names) == expected


UNDECIDED = [
    ["train/a.png", "car/b.png"],
    ["test/a.png", "car/b.png", "dog/c.png"],
    ["seg_train/a/b.png", "seg_test/a/c.png"],  # as of a well-known data set: a kind of split in each name
]


@pytest.mark.parametrize("names", UNDECIDED)
def test_folders_that_can_be_splits_or_classes_are_asked_about(tmp_path, cache, write_folder, names):
    root = write_folder(tmp_path / "x", names)
    with pytest.raises(ConfigError, match=r"can be splits or classes, .*--top_folders=splits .*--top_folders=classes$"):
        open_folder(root, "train", cache)
    assert open_folder(root, "train", cache, top_folders="classes").num_examples == len(names)
    last = names[-1].split("/")[0]
    assert open_folder(root, last, cache, top_folders="splits").num_examples == 1


@pytest.mark.parametrize("names", [["val/a.png", "valid/b.png"], ["Train/a.png", "train/b.png", "test/c.png"]])
def test_two_folders_for_one_split_are_refused(tmp_path, cache, write_folder, names):
    root = write_folder(tmp_path / "x", names)
    with pytest.raises(ConfigError, match=r": its folders \w+ and \w+ mean the same split; join them or rename one$"):
        open_folder(root, "train", cache)


@pytest.mark.parametrize(
    ("split", "there", "found"),
    [
        ("val", ["train", "Validation", "test"], "Validation"),
        ("validation", ["Train", "dev"], "dev"),
        ("test", ["train", "Testing"], "Testing"),
        ("train", ["train2014", "train2017"], None),
        ("train2017", ["train2014", "Train-2017"], "Train-2017"),
        ("unlabelled", ["train", "Unlabeled"], "Unlabeled"),
        ("extra", ["Extra"], None),
    ],
)
def test_a_split_is_found_by_its_other_names(split, there, found):
    assert folder_tree.find(split, there) == found


@pytest.mark.parametrize("names", [["a.png", "b.png"], ["one/a.png", "one/b.png"], ["a.png", "x/b.png", "y/c.png"]])
def test_no_labels_without_two_folders_or_with_stray_images(tmp_path, cache, write_folder, names):
    source = open_folder(write_folder(tmp_path / "x", names), "train", cache)
    assert source.class_names == ()
    assert {label for _, label in contents(source)} == {-1}
    assert source.num_examples == len(names)
    assert source.about.unlabelled


def test_hidden_and_foreign_files_are_left_out(tmp_path, cache, write_folder, warnings):
    names = ["a.png", ".hidden.png", "._a.png", ".git/b.png", "__MACOSX/c.png", "notes.txt", "d.heic", "v1.0/e.png"]
    root = write_folder(tmp_path / "x", names)
    assert folder_tree.images(root) == ["a.png", "v1.0/e.png"]
    assert warnings == [
        f"{root}: passed over: 2 files in hidden folders or folders of tools, e.g. .git/b.png; "
        "2 hidden files, e.g. ._a.png",
        f"{root}: left out, since they cannot be decoded here: 1 .heic",
    ]


@pytest.mark.parametrize("names", [[], ["notes.txt"], ["empty/notes.txt"]])
def test_folder_without_images(tmp_path, cache, write_folder, names):
    (tmp_path / "x").mkdir()
    root = write_folder(tmp_path / "x", names)
    with pytest.raises(ConfigError, match=f"^--dataset=folder:{root}: no images in it"):
        open_folder(root, "train", cache)


@pytest.mark.parametrize("path", ["/no/such/folder", "relative"])
def test_missing_folder(cache, path):
    with pytest.raises(ConfigError, match=f"^--dataset=folder:{path}: no such folder$"):
        open_folder(path, "train", cache)


def encoded(kind):
    stream = io.BytesIO()
    Image.effect_noise((32, 32), 50).convert("RGB").save(stream, kind)
    return stream.getvalue()


BROKEN = {
    "cut.jpg": encoded("JPEG")[:-100],
    "empty.jpg": b"",
    "text.JPG": b"Not a picture.",
    "cut.png": encoded("PNG")[:99],
}


def write_mixed(tmp_path, write_folder, sound, broken):
    root = write_folder(tmp_path / "x", [f"{i:03}.png" for i in range(sound)])
    for name in broken:
        (tmp_path / "x" / name).write_bytes(BROKEN[name])
    (tmp_path / "x" / "png_inside.jpg").write_bytes(encoded("PNG"))
    return root


def test_broken_files_are_left_out_with_one_warning(tmp_path, cache, write_folder, warnings):
    root = write_mixed(tmp_path, write_folder, 400, BROKEN)
    source = open_folder(root, "train", cache)
    assert source.num_examples == 401
    assert warnings == [
        f"{root}: 4 of 405 files (0.988 %) cannot be decoded and are left out: cut.jpg (a JPEG that is cut short), "
        "cut.png (a PNG that is cut short), empty.jpg (empty), text.JPG (text)"
    ]
    assert len(list(source.ordered())) == 401


def test_more_than_one_percent_broken_ends_the_run(tmp_path, cache, write_folder, warnings):
    root = write_mixed(tmp_path, write_folder, 197, ["empty.jpg", "text.JPG"])
    open_folder(root, "train", cache)  # 2 of 200: exactly 1 % is borne
    (tmp_path / "x" / "cut.jpg").write_bytes(BROKEN["cut.jpg"])
    for _ in range(2):  # checked, then remembered
        with pytest.raises(ConfigError) as error:
            open_folder(root, "train", cache)
        assert str(error.value) == (
            f"--dataset=folder:{root}: 3 of 201 files (1.49 %) cannot be decoded, more than 1 %; "
            "remove or repair them: cut.jpg (a JPEG that is cut short), empty.jpg (empty), text.JPG (text)"
        )


def test_long_lists_of_broken_files_are_cut(tmp_path, cache):
    (tmp_path / "x").mkdir()
    for i in range(25):
        (tmp_path / "x" / f"{i:02}.jpg").write_bytes(b"")
    with pytest.raises(
        ConfigError,
        match=r"25 of 25 files \(100 %\).* 19.jpg \(empty\) and 5 more$",
    ):
        open_folder(str(tmp_path / "x"), "train", cache)


def test_check_is_remembered_until_a_file_changes(tmp_path, cache, write_folder, monkeypatch):
    root = write_folder(tmp_path / "x", ["a.png", "b.png"])
    checks = []
    check = folder_check._check
    monkeypatch.setattr(folder_check, "_check", lambda *args: checks.append(1) or check(*args))
    for _ in range(2):
        open_folder(root, "train", cache)
    assert len(checks) == 1
    os.utime(tmp_path / "x" / "a.png", ns=(1, 1))
    open_folder(root, "train", cache)
    assert len(checks) == 2
    (tmp_path / "x" / "b.png").rename(tmp_path / "x" / "c.png")
    open_folder(root, "train", cache)
    assert len(checks) == 3
    outcomes = list((tmp_path / "cache" / "checked_folders").iterdir())
    assert len(outcomes) == 3, "nothing left aside"
    assert json.loads(outcomes[0].read_text())["files"] == 2
    for outcome in outcomes:
        outcome.write_text('{"bro')  # a torn file is as good as none
    open_folder(root, "train", cache)
    assert len(checks) == 4


def test_the_cache_is_where_cpc_tf_cache_says(tmp_path, write_folder, monkeypatch):
    root = write_folder(tmp_path / "x", ["a.png"])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    open_folder(root, "train")
    assert len(list((tmp_path / "xdg/cpc_tf/checked_folders").iterdir())) == 1
    monkeypatch.setenv("CPC_TF_CACHE", str(tmp_path / "chosen"))
    open_folder(root, "train")
    assert len(list((tmp_path / "chosen/checked_folders").iterdir())) == 1


def test_of_several_frames_the_first_is_used_and_a_line_says_so(tmp_path, cache, warnings):
    image = Image.effect_noise((32, 32), 50)
    for kind in ("gif", "tiff", "webp"):
        (tmp_path / "x").mkdir(exist_ok=True)
        image.save(tmp_path / f"x/several.{kind}", save_all=True, append_images=[image.rotate(90)])
        image.save(tmp_path / f"x/one.{kind}")
    assert open_folder(str(tmp_path / "x"), "train", cache).num_examples == 6
    assert warnings == [f"{tmp_path}/x: 3 of 6 files have several frames or pages, of which the first is used"]


def test_unwritable_cache_is_no_error(tmp_path, write_folder, warnings):
    (tmp_path / "cache").write_text("a file where the folder should be")
    source = open_folder(write_folder(tmp_path / "x", ["a.png"]), "train", str(tmp_path / "cache"))
    assert source.num_examples == 1
    assert len(warnings) == 1
    assert "the folder will be checked again" in warnings[0]


def test_long_checks_show_time_left(tmp_path, cache, write_folder, monkeypatch):
    lines = []
    monkeypatch.setattr(logging, "info", lambda message, *values: lines.append(message % values))
    monkeypatch.setattr(folder_check, "_REPORT_EVERY", -1)
    root = write_folder(tmp_path / "x", ["a.png", "b.png"])
    open_folder(root, "train", cache)
    assert lines[0].startswith(f"checking {root}: 1 of 2 files, ")
    assert lines[-1] == f"checking {root}: 2 of 2 files, 0 s left"


def test_paths_other_than_local_ones(cache):
    """Everything goes through tf.io.gfile, here to TensorFlow's file system in memory."""
    for i in range(2):
        tf.io.gfile.makedirs(f"ram://pictures/{i}")
        with tf.io.gfile.GFile(f"ram://pictures/{i}/a.png", "wb") as file:
            file.write(tf.io.encode_png(np.full([2, 2, 3], i, np.uint8)).numpy())
    source = open_folder("ram://pictures", "train", cache)
    assert contents(source) == [(0, 0), (1, 1)]
    assert source.class_names == ("0", "1")


def test_a_bucket_has_folders_of_tools_and_empty_ones_too(cache, warnings):
    for name in ("cat/1.png", "dog/2.png", "@eaDir/3.png", "cat/.thumbnails/deep/4.png"):
        tf.io.gfile.makedirs(os.path.dirname(f"ram://tools/{name}"))
        with tf.io.gfile.GFile(f"ram://tools/{name}", "wb") as file:
            file.write(tf.io.encode_png(np.zeros([2, 2, 3], np.uint8)).numpy())
    tf.io.gfile.makedirs("ram://tools/emu")
    tree = folder_tree.read("ram://tools")
    assert tree.splits == {"train": ["cat/1.png", "dog/2.png"]}
    assert folder_tree.labels(tree, ["train"]).empty == ["emu"]
    (line,) = warnings
    assert line.startswith("ram://tools: passed over: 2 files in hidden folders or folders of tools, e.g. @eaDir/3.png")
