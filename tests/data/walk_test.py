"""Images below a folder, whatever else is there, and what a file is by its bytes."""

import os
import re
import socket

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from PIL.TiffImagePlugin import ImageFileDirectory_v2

from cpc_tf.data import check, classes, splits, walk
from cpc_tf.data.config import DataConfig
from tests.data.samples import encode, open_folder, write_files

pytestmark = pytest.mark.usefixtures("unchecked")

PNG = encode(np.zeros([8, 8, 3], np.uint8))
READ_ANYWAY = "links to folders that are read anyway"
TO_NOTHING = "broken links, pipes and the like"
# Links, what is read beside the two images of `root`, and what is skipped.
LINKS = [
    ({"train/a/up": ".."}, [], f"1 {READ_ANYWAY}, e.g. train/a/up"),
    ({"train/a/top": "../.."}, [], f"1 {READ_ANYWAY}, e.g. train/a/top"),
    ({"train/a/b": "../b", "train/0": "a"}, [], f"2 {READ_ANYWAY}, e.g. train/0"),
    ({"train/c": "../../beside/c"}, ["train/c/3.png"], ""),
    (
        {"train/d": "../../beside/c", "train/c": "../../beside/c"},
        ["train/c/3.png"],
        f"1 {READ_ANYWAY}, e.g. train/d",
    ),
    # What a link leads to is read whole, with the links in it, but for what is read anyway.
    (
        {"train/e": "../../beside", "../beside/back": "../x"},
        ["train/e/c/3.png"],
        f"1 {READ_ANYWAY}, e.g. train/e/back",
    ),
    ({"train/b/copy.png": "../a/1.png"}, ["train/b/copy.png"], ""),
    ({"gone": "nowhere"}, [], ""),
    (
        {"gone.png": "nowhere.png", "self.jpg": "self.jpg", "self": "self"},
        [],
        f"2 {TO_NOTHING}, e.g. gone.png",
    ),
]


@pytest.mark.parametrize(("links", "names", "skipped"), LINKS)
def test_every_folder_is_read_once(root, warnings, links, names, skipped):
    for name, target in links.items():
        (root / name).symlink_to(target)
    assert walk.images(str(root)) == sorted(["train/a/1.png", "train/b/2.png", *names])
    told = [line for line in warnings if "lead out of it" not in line]
    assert told == ([f"{root}: skipped: {skipped}"] if skipped else [])


def test_hidden_and_foreign_files_are_left_out(tmp_path, write_folder, warnings):
    names = [
        "a.png",
        ".hidden.png",
        "._a.png",
        ".git/b.png",
        "__MACOSX/c.png",
        "notes.txt",
        "d.heic",
        "v1.0/e.png",
    ]
    root = write_folder(tmp_path / "x", names)
    assert walk.images(root) == ["a.png", "v1.0/e.png"]
    assert warnings == [
        (
            f"{root}: skipped: 2 files in hidden folders or folders of tools, e.g. .git/b.png; "
            "2 hidden files, e.g. ._a.png"
        ),
        f"{root}: left out, since they cannot be decoded here: 1 .heic",
    ]


def test_images_without_extension_are_read(root, cache, warnings):
    files = {
        "train/a/3": PNG,
        "train/a/v1.": PNG,
        "train/a/README": b"text",
        "train/b/empty": b"",
        "train/a/x.txt": PNG,
    }
    write_files(
        root,
        {
            **files,
            "train/b/2.JPG_large": PNG,
            "train/b/4.old": b"old",
            "train/b/5.bak": PNG,
            ".git/6": PNG,
        },
    )
    assert walk.images(str(root)) == ["train/a/1.png", "train/a/3", "train/b/2.png"]
    names = "3: train/a/v1., train/b/2.JPG_large, train/b/5.bak"
    assert warnings == [
        f"{root}: skipped: {names[0]} images with other extensions, which are not read; rename"
        f" them{names[1:]}"
    ]


def test_names_that_are_no_text_are_counted(root, warnings, refused):
    for name in (b"train/caf\xe9.png", b"train/a/\xff.JPG", b"train/\xe9.txt"):
        with open(os.path.join(os.fsencode(root), name), "wb") as file:
            file.write(PNG)
    folder = os.path.join(os.fsencode(root), b"train/\xe4")
    os.mkdir(folder)
    assert walk.images(str(root)) == ["train/a/1.png", "train/b/2.png"]
    assert warnings == [rf"{root}: skipped: 3 names that are not UTF-8, e.g. train/a/\udcff.JPG"]
    message = refused(walk.folder_at, os.fsdecode(folder), f"--unlabelled={os.fsdecode(folder)}")
    assert message.endswith(
        r"train/\udce4: TensorFlow cannot read it, its name is not UTF-8; rename it"
    )


@pytest.mark.slow
@pytest.mark.usefixtures("checked")
def test_odd_names_are_read(root, cache, refused):
    odd = ["a\nb.png", "*.png", "a b\t.png", "%s.png", "[x]?.png", "\u2028.png", "\\.png"]
    write_files(root / "train/a", dict.fromkeys(odd, PNG))
    source = open_folder(root, "train", cache)
    assert source.num_examples == len(list(source.ordered())) == 2 + len(odd)
    write_files(root / "train/a", dict.fromkeys(odd, b""))
    assert f"{len(odd)} of {2 + len(odd)} files" in refused(open_folder, root, "train", cache)


def test_pipes_and_sockets_are_skipped(root, warnings, cache):
    os.mkfifo(root / "train/a/pipe.jpg")
    (root / "train/a/zero.png").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind(os.path.relpath(root / "train/a/unix.gif"))
    write_files(root, {"train/a/folder.jpg/4.png": PNG})
    assert open_folder(root, "train", cache).num_examples == 3
    assert warnings == [f"{root}: skipped: 3 {TO_NOTHING}, e.g. train/a/pipe.jpg"]


def test_folders_that_cannot_be_read(root, warnings, unreadable, refused):
    unreadable(root / "train/a")
    assert walk.images(str(root)) == ["train/b/2.png"]
    assert warnings == [f"{root}: skipped: 1 folders that cannot be read, e.g. train/a"]
    unreadable(root)
    assert refused(open_folder, root) == f"{root}: cannot be read: Permission denied"


@pytest.mark.usefixtures("checked")
def test_unopenable_file_ends_the_run_without_being_cached(root, cache, refused):
    data = DataConfig(dataset=f"folder:{root}", data_dir=cache)
    found = splits.read(data)
    (root / found.names[0]).rename(root / "aside")  # between listing and check
    said = refused(check.usable, found, [0, 1])
    assert re.search(
        f"^{root}/{found.names[0]}: cannot be read .*o such file.*; run the same command again",
        said,
    )
    assert not os.path.exists(cache)


def test_links_leaving_the_folder_are_followed_and_reported(tmp_path, warnings):
    write_files(tmp_path, {"mine/private.png": PNG, "theirs/a/1.png": PNG})
    (tmp_path / "theirs/a/2.png").symlink_to(tmp_path / "mine/private.png")
    (tmp_path / "theirs/a/3.png").symlink_to("1.png")
    (tmp_path / "theirs/a/top").symlink_to("..")
    (tmp_path / "theirs/b").symlink_to(tmp_path / "mine")
    assert walk.images(str(tmp_path / "theirs")) == [
        "a/1.png",
        "a/2.png",
        "a/3.png",
        "b/private.png",
    ]
    assert warnings[-1] == f"{tmp_path}/theirs: 2 links lead out of it and are followed: a/2.png, b"


def test_a_bucket_is_read_through_tensorflow(cache, warnings):
    """Here TensorFlow's file system in memory; folders of tools are skipped and empty ones named
    there, too.
    """
    for name in ("cat/1.png", "dog/2.png", "@eaDir/3.png", "cat/.thumbnails/deep/4.png"):
        tf.io.gfile.makedirs(os.path.dirname(f"ram://images/{name}"))
        with tf.io.gfile.GFile(f"ram://images/{name}", "wb") as file:
            file.write(PNG)
    tf.io.gfile.makedirs("ram://images/emu")
    source = open_folder("ram://images", "train", cache)
    assert source.class_names == ("cat", "dog")
    assert [int(e["label"]) for e in source.ordered()] == [0, 1]
    found = splits.read(DataConfig(dataset="folder:ram://images"))
    assert found.names[found.splits["train"]].tolist() == ["cat/1.png", "dog/2.png"]
    assert classes.find_classes(found, ["train"]).empty == ["emu"]
    assert warnings[0].startswith(
        "ram://images: skipped: 2 files in hidden folders or folders of tools, e.g. @eaDir/3"
    )


def tiff(bands):
    """A TIFF with nothing but the number of values of a pixel."""
    tags = ImageFileDirectory_v2()
    tags[277] = bands
    return b"II*\0\x08\0\0\0" + tags.tobytes(8)


JPEG = encode(Image.effect_noise((32, 32), 50), "JPEG")


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"", "empty"),
        (bytes(4096), "zeros only"),
        (JPEG[:-100], "a JPEG that is cut short"),
        (JPEG[:100] + bytes(50) + JPEG[150:], "a JPEG that is damaged"),
        (b"\x89PNG\r\n\x1a\n" + bytes(30), "a PNG that is cut short"),
        (b"RIFF\x10\0\0\0WEBPVP8 ", "a WebP that is damaged"),
        (b"II*\0" + bytes(30), "a TIFF that is damaged"),
        (tiff(13), "a TIFF of 13 bands; those of 1, 3 and 4 are read"),
        (tiff(3), "a TIFF that is damaged"),
        (b"\n<!DOCTYPE html>\n<html><body>404", "HTML"),
        (b"\xef\xbb\xbf<HTML>", "HTML"),
        (b"<?xml version='1.0'?>\n<svg xmlns='http://www.w3.org/2000/svg'/>", "SVG"),
        (b"%PDF-1.7\n%\xe2", "PDF"),
        (b"\0\0\0\x18ftypheic" + bytes(12), "HEIC"),
        (b"\0\0\0\x1cftypavif" + bytes(12), "AVIF"),
        (b"\0\0\0\x1cftypisom" + bytes(12), "a video"),
        (bytes(128) + b"DICM\2\0", "DICOM"),
        (b"version https://git-lfs.github.com/spec/v1\noid", "a pointer of Git LFS"),
        (b"PK\x03\x04\x14", "ZIP"),
        (b"Not found: the image has moved.\n", "text"),
        (np.random.default_rng(0).bytes(100), "of no known format"),
    ],
)
def test_kinds(tmp_path, data, kind):
    (tmp_path / "x").write_bytes(data)
    assert walk.kind_of_file(str(tmp_path / "x")) == kind


def test_what_cannot_be_read(tmp_path):
    assert walk.kind_of_file(str(tmp_path / "nowhere.jpg")) == "cannot be read"
