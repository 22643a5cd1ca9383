"""Layouts of folders with VOC's XML, and the lists that are their splits."""

import itertools

import pytest

from cpc_tf import texts
from cpc_tf.data.config import DataConfig
from cpc_tf.data.sources import boxes_layout, tree, voc_layout
from cpc_tf.settings import ConfigError
from tests.data.sources.boxes_folder_test import ONE, contents, images, names, picture, write, xml  # noqa: F401

pytestmark = pytest.mark.usefixtures("unchecked")

# Layouts: images of a split {s} by the name {n}, and their XML.
WITH_SPLITS = [
    ("{s}/{n}.png", "{s}/{n}.xml"),
    ("{s}/images/{n}.png", "{s}/annotations/{n}.xml"),
    ("{s}/JPEGImages/{n}.png", "{s}/Annotations/{n}.xml"),
    ("{s}/images/{n}.PNG", "{s}/labels/{n}.XML"),
    ("Images/{s}/{n}.png", "Annotations/{s}/{n}.xml"),
    ("{s}/day/1/{n}.png", "{s}/day/1/{n}.xml"),
]
WITHOUT = [
    ("JPEGImages/{n}.png", "Annotations/{n}.xml"),
    ("images/{n}.png", "annotations/{n}.xml"),
    ("images/{n}.png", "annotations/xmls/{n}.xml"),  # as Oxford's pets
    ("{n}.png", "{n}.xml"),
    ("images/{n}.png", "images/{n}.xml"),
    ("JPEGImages/day/1/{n}.png", "Annotations/day/1/{n}.xml"),
]
NAMES = ("a", "b.c", "d e")


def make(root, place, **names):
    path = root / place.format(**names)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(xml() if path.suffix.lower() == ".xml" else picture(1))


@pytest.mark.parametrize("layout", WITH_SPLITS)
def test_folders_are_splits(tmp_path, layout):
    spelled = ("train", "Valid", "TEST")
    for place, split, n in itertools.product(layout, spelled, NAMES):
        make(tmp_path, place, s=split, n=n)
    found = boxes_layout.images(str(tmp_path))
    assert found.keys() == voc_layout.annotations(str(tmp_path)).keys()
    splits = tree.split_folders(sorted(found), DataConfig())
    assert {name: len(keys) for name, keys in splits.items()} == dict.fromkeys(spelled, len(NAMES))
    assert voc_layout.lists(str(tmp_path), (), found.values()) == {}


@pytest.mark.parametrize("layout", WITHOUT)
def test_lists_are_splits(tmp_path, layout):
    for place, n in itertools.product(layout, NAMES):
        make(tmp_path, place, n=n)
    found = boxes_layout.images(str(tmp_path))
    assert found.keys() == voc_layout.annotations(str(tmp_path)).keys()
    assert tree.split_folders(sorted(found), DataConfig()) == {}
    path = tmp_path / "ImageSets/Main/my own.txt"
    path.parent.mkdir(parents=True)
    path.write_text("\n".join(layout[0].format(n=n) for n in NAMES))
    assert voc_layout.lists(str(tmp_path), ()) == {"my own": str(path)}
    assert boxes_layout.read_list(str(path), found) == sorted(found)


@pytest.mark.slow
def test_images_and_xml_side_by_side_in_splits(write, images, warnings):  # noqa: F811
    files = {}
    for number, split in enumerate(("train", "valid", "test")):
        files[f"{split}/same.png"] = picture(number)
        files[f"{split}/same.xml"] = xml(*[ONE] * (1 + number))
    files["README.dataset.txt"] = "from a place"
    write(files)
    for number, split in enumerate(("train", "val", "test")):
        ((name, boxes, *_),) = contents(write({}, split))
        assert (name.split("/")[1], len(boxes)) == ("same", 1 + number)
        assert images(split) == [(number, -1)]
    assert warnings == []


def pairs(*places):
    """Images and their XML at these places."""
    return {f"{p}{end}": picture(1) if end == ".png" else xml(ONE) for p in places for end in (".png", ".xml")}


@pytest.mark.slow
def test_images_beside_the_folders_of_splits_are_named(write, warnings):  # noqa: F811
    assert names(write(pairs("train/a", "val/a", "b"))) == ["train/a"]
    (line,) = warnings
    assert line.endswith("/voc: 1 of 3 images are beside the folders of the splits and are left out: b.png")


@pytest.mark.slow
def test_lists_at_the_top(write):  # noqa: F811
    lists = {"trainval.txt": "JPEGImages/b.png Annotations/b.xml", "valid.txt": "a.png", "classes.txt": "cat"}
    files = {f"JPEGImages/{n}.png": picture(1) for n in "ab"} | {f"Annotations/{n}.xml": xml(ONE) for n in "ab"}
    assert names(write({**files, **lists}, "trainval")) == ["b"]
    assert names(write({}, "val")) == ["a"]
    with pytest.raises(ConfigError, match="^--split=train: voc:.* has trainval, valid$"):
        write({}, "train")


def test_a_folder_of_folders_in_the_layout(write):  # noqa: F811
    files = {"VOC2007/JPEGImages/a.png": picture(1), "VOC2007/Annotations/a.xml": xml(ONE)}
    said = r"/VOC2007/ImageSets: lists .* at the top of PATH; --dataset=voc:.*/VOC2007$"
    with pytest.raises(ConfigError, match=said):
        write({**files, "VOC2007/ImageSets/Main/train.txt": "a"})


@pytest.mark.slow
def test_images_that_do_not_count_are_named(write, warnings):  # noqa: F811
    files = {"JPEGImages/a.png": picture(1), "Annotations/a.xml": xml(ONE)}
    # Masks are expected there and not named.
    masks = {"SegmentationClass/a.png": picture(2), "annotations/masks/a.png": picture(2)}
    assert names(write({**files, **masks})) == ["a"]
    assert warnings == []
    more = {"preview.png": picture(3), "JPEGImages/a.gif": picture(1)}
    write({**more, "Annotations/old/xml/a.xml": xml(), "a.xml": xml()})
    outside, others_of_name, annotations, alone = (line.partition("/voc: ")[2] for line in warnings)
    assert outside == "1 images are left out, since they are not in JPEGImages: preview.png"
    others = "are left out, since others have their names but for the ending or such folders"
    assert others_of_name == f"1 images {others}: JPEGImages/a.png"
    assert annotations == f"1 annotations {others}: a.xml"
    assert alone == "1 of 2 annotations have the name of no image and are left out: old/a"


@pytest.mark.parametrize("content", ["a.json", "a.txt", "labels.csv"])
def test_boxes_of_another_format(write, content):  # noqa: F811
    with pytest.raises(ConfigError, match="none of its 1 images has an XML file of its name; known are JPEGImages"):
        write({"train/a.png": picture(1), f"train/{content}": ""})


KEYS = {"a", "b", "b.c", "d e", "day/a", "day/b", "caf\u00e9", "1"}


@pytest.mark.parametrize(
    ("line", "key"),
    [
        *(
            (f"{before}a{after}", "a")
            for before in ("", "./", "JPEGImages/", "images/", "x/Annotations/", "/data/voc/", "C:\\voc\\")
            for after in ("", ".jpg", ".PNG", ".xml", "  ")
        ),
        ("b.c", "b.c"),
        ("b.c.jpg", "b.c"),
        ("JPEGImages/b.c", "b.c"),
        ("b.jpg", "b"),
        ("d e", "d e"),
        ("d e.jpg", "d e"),
        ("/my data/d e.jpg", "d e"),
        ("day/a.jpg", "day/a"),
        ("JPEGImages/day/a", "day/a"),
        ("/voc/day/JPEGImages/a", "day/a"),
        ("/home/voc/day/b.jpg", "day/b"),
        ("cafe\u0301.jpg", "caf\u00e9"),
        ("b.v2", None),
        ("c", None),
        ("/", None),
        (".jpg", None),
    ],
)
def test_what_a_line_of_a_list_means(tmp_path, warnings, line, key):
    path = tmp_path / "train.txt"
    path.write_text(f"\ufeff{line}\r\n\r\n{line}\r\n")
    assert boxes_layout.read_list(str(path), KEYS) == [key or line.strip()]
    assert warnings == []


@pytest.mark.parametrize(
    ("line", "key"),
    [("a 1", "a"), ("a -1", "a"), ("d e  0", "d e"), ("a.jpg\t1", "a"), ("x/a.jpg 1,2,3,4,0 5,6,7,8,1", "a")],
)
def test_what_follows_a_name_is_said_not_to_be_read(tmp_path, warnings, line, key):
    path = tmp_path / "list.txt"
    path.write_text(f"{line}\nb b.xml\n")
    assert boxes_layout.read_list(str(path), KEYS) == [key, "b"]
    (said,) = warnings
    what = "only the names of images are read, not what follows them in 1 of 2 lines, e.g."
    assert said == f"{path}: {what} {texts.shown(line)}"
