"""Folders with boxes: images without annotations, unusable files, buckets, hostile parts."""

import os
import pathlib
import re

import pytest
import tensorflow as tf

from cpc_tf.core.settings import ConfigError
from tests import samples
from tests.boxes.samples import (
    CAT,
    cats,
    contents,
    levels,
    many,
    open_voc_folder,
    open_voc_images,
    picture,
    pictures,
    xml,
)
from tests.data.samples import write_files

pytestmark = pytest.mark.usefixtures("unchecked")

BCCD = pathlib.Path(__file__).parents[4] / "shared/data/bccd-voc"


@pytest.mark.slow
def test_images_alone_follow_the_split_without_labels(tmp_path, cache, warnings):
    write_files(tmp_path, {**many(3), "ImageSets/Main/train.txt": "002\n000\n"})
    source = open_voc_images(tmp_path, "train+test", cache)
    assert sorted(levels(source)) == [0, 2]
    assert source.labels().tolist() == [-1, -1]
    assert warnings == []
    with pytest.raises(ConfigError, match="^--split=unlisted: voc:.* has test, train$"):
        open_voc_images(tmp_path, "unlisted", cache)
    write_files(tmp_path, {"ImageSets/Main/train.txt": "000\n001\ngone\n"})
    with pytest.raises(ConfigError, match=r"1 of 3 images .* gone \(no such image\)"):
        open_voc_images(tmp_path, "train+test", cache)


@pytest.mark.parametrize("annotations", [{}, {"Annotations/000.xml": "<annotation>"}])
def test_images_alone_need_no_annotations(tmp_path, cache, warnings, annotations):
    images = {path: content for path, content in many(2).items() if path.startswith("JPEGImages")}
    write_files(tmp_path, {**images, **annotations})
    with pytest.raises(ConfigError):
        open_voc_folder(tmp_path, "train", cache)
    assert levels(open_voc_images(tmp_path, "train", cache)) == [0, 1]
    assert warnings == []


def test_the_mark_of_an_image_stays(tmp_path, cache):
    """It tells a run whether its boxes are those that it began with: with another one, no earlier
    run would go on.
    """
    write_files(tmp_path, many(1))
    assert [mark for *_, mark in open_voc_folder(tmp_path, "train", cache).files()] == ["2f123c19"]


@pytest.mark.slow
def test_negatives(opened, warnings, tmp_path):
    def counts(files, **options):
        return [len(boxes) for _, boxes, *_ in contents(opened("voc", files, **options))]

    assert counts({**many(3), "Annotations/001.xml": xml()}) == [1, 0, 1]
    assert warnings.pop().endswith(
        "/voc: 1 of 3 images have no objects, 0 of them no annotation: JPEGImages/001.png"
    )
    (tmp_path / "voc/Annotations/000.xml").unlink()
    with pytest.raises(
        ConfigError, match=r"1 of 3 .* or take those .* by --negatives_without_xml: 000 \(no annot"
    ):
        opened("voc", {})
    assert counts({}, negatives_without_xml=True) == [0, 0, 1]
    found = (
        "2 of 3 images have no objects, 1 of them no annotation: JPEGImages/000.png,"
        " JPEGImages/001.png"
    )
    assert warnings.pop().endswith(found)
    assert warnings == []
    with pytest.raises(ConfigError, match=r"1 of 3 .* 001 \(broken annotation"):  # is no negative
        opened("voc", {"Annotations/001.xml": "<annotation>"}, negatives_without_xml=True)


GONE_IMAGE = pictures("JPEGImages/gone.png")
UNUSABLE = [
    ({}, "gone (no such image)"),
    (GONE_IMAGE, "gone (no annotation)"),
    (
        {**GONE_IMAGE, "Annotations/gone.xml": "<annotation>"},
        "gone (broken annotation, no element found: line 1, column 12)",
    ),
    (
        {"JPEGImages/gone.png": picture(0)[:-30], "Annotations/gone.xml": xml(CAT)},
        (
            "1 of 101 files (0.99 %) cannot be decoded and are left out; remove or repair them:"
            " JPEGImages/gone.png"
        ),
    ),
]


@pytest.mark.slow
@pytest.mark.usefixtures("checked")
@pytest.mark.parametrize(("files", "message"), UNUSABLE)
def test_few_unusable_images_are_skipped_but_many_refused(opened, warnings, files, message):
    good = [f"{number:03}" for number in range(100)]
    source = opened(
        "voc", {**many(100), **files, "ImageSets/Main/train.txt": "\n".join(["gone", *good])}
    )
    assert contents(source) == [cats(name) for name in good]
    (line,) = warnings
    assert message in line
    assert "1 of 101" in line
    with pytest.raises(
        ConfigError, match=r"^--dataset=voc:[^ ]*/voc: 1 of 3 .* \(33.3 %\).*more than 1 %.*gone"
    ):
        opened("voc", {"ImageSets/Main/train.txt": "gone\n000\n001"})


@pytest.mark.slow
def test_a_bucket_is_read_through_tensorflow(cache):
    """Here TensorFlow's file system in memory."""
    for path, content in {**many(2), "ImageSets/Main/train.txt": b"001"}.items():
        tf.io.gfile.makedirs(f"ram://voc_test/{pathlib.PurePosixPath(path).parent}")
        with tf.io.gfile.GFile(f"ram://voc_test/{path}", "wb") as file:
            file.write(content)
    assert contents(open_voc_folder("ram://voc_test", "train", cache)) == [cats("001")]


@pytest.mark.slow
@pytest.mark.usefixtures("checked")
@pytest.mark.skipif(not BCCD.is_dir(), reason="the blood cells are not here")
def test_blood_cells(cache, warnings):
    source, test = (open_voc_folder(BCCD, split, cache) for split in ("trainval", "test"))
    assert source.num_examples == 292
    assert source.class_names == ("Platelets", "RBC", "WBC")
    assert sum(len(labels) for s in (source, test) for _, _, labels, _ in contents(s)) == 4888 - 2
    left_out = "JPEGImages/BloodImage_00338.jpg, JPEGImages/BloodImage_00343.jpg"
    (line,) = warnings
    assert "2 of 3943 boxes (0.0507 %) have no area within the image and are left out; " in line
    assert line.endswith(left_out)


def link_to_itself(path):
    path.symlink_to(path.name)


# A part of a sound folder, what is put in its place (or the content of a file there), and what is
# said.
PARTS = [
    ("JPEGImages", link_to_itself, ""),  # what was in it has another name now, and is found
    ("JPEGImages/0.png", os.mkfifo, ""),
    ("Annotations", b"", ""),
    ("Annotations/0.xml", os.mkdir, r"\(no annotation\)"),
    ("Annotations/0.xml", os.mkfifo, r"\(no annotation\)"),
    ("Annotations/0.xml", b"\xff\xfe<\xd8", r"\(broken annotation, "),
    ("Annotations/0.xml", b'<?xml version="1.0" encoding="\a\n"?><a/>', r"\(broken annotation, "),
    ("ImageSets", b"", "/ImageSets: is not a folder"),
    ("ImageSets", link_to_itself, "/ImageSets: is not a folder"),
    ("ImageSets/Main", b"", "/ImageSets/Main: is not a folder"),
    ("ImageSets/Main/train.txt", os.mkfifo, ""),  # no list
    ("ImageSets/Main/train.txt", b"0\n\xe9\xff\0\n", "no such image"),
    ("ImageSets/Main/train.txt", "0".encode("utf-16"), "no such image"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("part", "make", "message"), PARTS)
def test_parts_that_are_something_else(tmp_path, cache, refused, part, make, message):
    path = pathlib.Path(samples.write_boxes(tmp_path / "voc"), part)
    if path.is_dir():
        path.rename(path.with_name(path.name + "_before"))
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    make(path) if callable(make) else path.write_bytes(make)
    if message:
        assert re.search(message, refused(open_voc_folder, tmp_path / "voc", "train", cache))
    else:
        expected = 4 - (part == "JPEGImages/0.png")
        assert open_voc_folder(tmp_path / "voc", "train", cache).num_examples == expected


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ("JPEGImages", "--dataset=voc:{root}: no images in it; "),
        ("Annotations", "--dataset=voc:{root}: none of its 4 images has an XML file of its name; "),
        ("ImageSets/Main", "{root}/ImageSets/Main: cannot be read: Permission denied"),
    ],
)
def test_parts_that_cannot_be_read(tmp_path, cache, unreadable, refused, caplog, part, message):
    root = pathlib.Path(samples.write_boxes(tmp_path / "voc"))
    (root / part).mkdir(parents=True, exist_ok=True)
    unreadable(root / part)
    said = refused(open_voc_folder, root, "train", cache)
    assert said.startswith(message.format(root=root))
    assert "cannot be read" in said + caplog.text
