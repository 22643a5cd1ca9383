"""Folders with links, odd names and odd kinds of files: counted skips, or one line."""

import os
import socket

import numpy as np
import pytest

from cpc_tf.data.sources import folder_check, folder_tree
from cpc_tf.data.sources.folder import open_folder
from tests.data.samples import encode

PIXELS = np.zeros([8, 8, 3], np.uint8)


@pytest.mark.parametrize(
    ("links", "names", "passed"),
    [
        ({"train/a/up": ".."}, [], "1 links to folders that are read anyway, e.g. train/a/up"),
        ({"train/a/top": "../.."}, [], "1 links to folders that are read anyway, e.g. train/a/top"),
        ({"train/a/b": "../b", "train/0": "a"}, [], "2 links to folders that are read anyway, e.g. train/0"),
        ({"train/c": "../../beside/c"}, ["train/c/3.png"], ""),
        (
            {"train/d": "../../beside/c", "train/c": "../../beside/c"},
            ["train/c/3.png"],
            "1 links to folders that are read anyway, e.g. train/d",
        ),
        # What a link leads to is read whole, with the links in it, but for what is read anyway.
        (
            {"train/e": "../../beside", "../beside/back": "../x"},
            ["train/e/c/3.png"],
            "1 links to folders that are read anyway, e.g. train/e/back",
        ),
        ({"train/b/copy.png": "../a/1.png"}, ["train/b/copy.png"], ""),
        ({"gone": "nowhere"}, [], ""),
        (
            {"gone.png": "nowhere.png", "self.jpg": "self.jpg", "self": "self"},
            [],
            "2 links to nothing, pipes and the like, e.g. gone.png",
        ),
    ],
)
def test_every_folder_is_read_once(root, warnings, links, names, passed):
    for name, target in links.items():
        (root / name).symlink_to(target)
    assert folder_tree.images(str(root)) == sorted(["train/a/1.png", "train/b/2.png", *names])
    assert warnings == ([f"{root}: passed over: {passed}"] if passed else [])


def test_names_that_are_no_text_are_counted(root, warnings, refused):
    for name in (b"train/caf\xe9.png", b"train/a/\xff.JPG", b"train/\xe9.txt"):
        with open(os.path.join(os.fsencode(root), name), "wb") as file:
            file.write(encode(PIXELS))
    folder = os.path.join(os.fsencode(root), b"train/\xe4")
    os.mkdir(folder)
    assert folder_tree.images(str(root)) == ["train/a/1.png", "train/b/2.png"]
    assert warnings == [rf"{root}: passed over: 3 names that are not UTF-8, e.g. train/a/\udcff.JPG"]
    message = refused(open_folder, os.fsdecode(folder), "train")
    assert message.endswith(r"train/\udce4: TensorFlow cannot read it, its name is not UTF-8; rename it")


@pytest.mark.parametrize("name", ["a\nb.png", "*.png", "a b\t.png", "%s.png", "[x]?.png", "\u2028.png", "\\.png"])
def test_odd_names_are_read(root, tmp_path, name, refused):
    (root / "train/a" / name).write_bytes(encode(PIXELS))
    source = open_folder(str(root), "train", str(tmp_path / "cache"))
    assert source.num_examples == len(list(source.ordered())) == 3
    (root / "train/a" / name).write_bytes(b"")
    assert "1 of 3 files" in refused(open_folder, str(root), "train", str(tmp_path / "cache"))


def test_pipes_and_sockets_are_passed_over_and_folders_are_folders(root, warnings, tmp_path):
    os.mkfifo(root / "train/a/pipe.jpg")
    (root / "train/a/zero.png").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind(os.path.relpath(root / "train/a/unix.gif"))
    (root / "train/a/folder.jpg").mkdir()
    (root / "train/a/folder.jpg/4.png").write_bytes(encode(PIXELS))
    assert open_folder(str(root), "train", str(tmp_path / "cache")).num_examples == 3
    assert warnings == [f"{root}: passed over: 3 links to nothing, pipes and the like, e.g. train/a/pipe.jpg"]


def test_folders_that_cannot_be_read(root, warnings, unreadable, refused):
    unreadable(root / "train/a")
    assert folder_tree.images(str(root)) == ["train/b/2.png"]
    assert warnings == [f"{root}: passed over: 1 folders that cannot be read, e.g. train/a"]
    unreadable(root)
    assert refused(open_folder, str(root), "train") == f"{root}: cannot be read: Permission denied"


def test_a_file_that_cannot_be_opened_is_broken(root, tmp_path, refused):
    names = folder_tree.images(str(root))
    (root / names[0]).unlink()  # between listing and check
    assert f"1 of 2 files (50 %) cannot be decoded, more than 1 %; remove or repair them: {names[0]}" in refused(
        folder_check.sound, str(root), names, str(tmp_path / "cache")
    )
