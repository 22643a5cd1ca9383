"""Folders in VOC layout whose parts are something else: counted skips, or one line."""

import os

import pytest

from cpc_tf.data.sources.voc_folder import open_voc_folder
from cpc_tf.settings import ConfigError
from tests import samples


def test_huge_images_of_a_voc_folder(tmp_path, refused):
    folder = samples.write_boxes(tmp_path / "voc")
    message = refused(open_voc_folder, folder, "train", str(tmp_path / "cache"), 1e-3)
    assert message.startswith(f"--dataset=voc:{folder}: 4 of 4 files (100 %) have 0.001 megapixels or more")


def swap(path, make):
    """Puts something else where a file or folder is."""
    if path.is_dir():
        path.rename(path.with_name(path.name + "_before"))
    else:
        path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    make(path)


def link_to_itself(path):
    path.symlink_to(path.name)


def make_file(path):
    path.write_text("")


def make_folder(path):
    path.mkdir()


@pytest.mark.parametrize(
    ("part", "make", "message"),
    [
        ("JPEGImages", make_file, "none of its 4 pictures has an XML file"),
        ("JPEGImages", link_to_itself, "none of its 4 pictures has an XML file"),
        ("JPEGImages", make_folder, "none of its 4 pictures has an XML file"),
        ("JPEGImages/0.png", os.mkfifo, ""),
        ("Annotations", make_file, "none of its 4 pictures has an XML file"),
        ("Annotations", make_folder, "none of its 4 pictures has an XML file"),
        ("Annotations/0.xml", make_folder, r"\(no annotation\)"),
        ("Annotations/0.xml", os.mkfifo, r"\(no annotation\)"),
        ("Annotations/0.xml", lambda path: path.write_bytes(b"\xff\xfe<\xd8"), r"\(broken annotation, "),
        (
            "Annotations/0.xml",
            lambda path: path.write_text('<?xml version="1.0" encoding="\a\n"?><a/>'),
            "broken annot",
        ),
        ("ImageSets", make_file, "/ImageSets: is no folder"),
        ("ImageSets", link_to_itself, "/ImageSets: is no folder"),
        ("ImageSets/Main", make_file, "/ImageSets/Main: is no folder"),
        ("ImageSets/Main/train.txt", make_folder, ""),  # no list
        ("ImageSets/Main/train.txt", os.mkfifo, ""),
        ("ImageSets/Main/train.txt", lambda path: path.write_bytes(b"0\n\xe9\xff\0\n"), "no such picture"),
        ("ImageSets/Main/train.txt", lambda path: path.write_text("0", "utf-16"), "no such picture"),
    ],
)
def test_parts_of_a_voc_folder_that_are_something_else(tmp_path, part, make, message):
    root = tmp_path / "voc"
    samples.write_boxes(root)
    swap(root / part, make)
    cache = str(tmp_path / "cache")
    if message:
        with pytest.raises(ConfigError, match=message) as error:
            open_voc_folder(str(root), "train", cache)
        assert str(error.value).isprintable()
    else:
        assert open_voc_folder(str(root), "train", cache).num_examples == 4 - (part == "JPEGImages/0.png")


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ("JPEGImages", "--dataset=voc:{root}: no pictures in it; "),
        ("Annotations", "--dataset=voc:{root}: none of its 4 pictures has an XML file of its name; "),
        ("ImageSets/Main", "{root}/ImageSets/Main: cannot be read: Permission denied"),
    ],
)
def test_parts_of_a_voc_folder_that_cannot_be_read(tmp_path, unreadable, refused, caplog, part, message):
    root = tmp_path / "voc"
    samples.write_boxes(root)
    (root / part).mkdir(parents=True, exist_ok=True)
    unreadable(root / part)
    said = refused(open_voc_folder, str(root), "train", str(tmp_path / "cache"))
    assert said.startswith(message.format(root=root))
    assert "cannot be read" in said + caplog.text
