"""Folders in VOC's layout: splits, conventions, hostile files."""

import os
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.settings import ConfigError
from tests import samples
from tests.data.samples import open_voc_folder, open_voc_images, write_files

pytestmark = pytest.mark.usefixtures("unchecked")

BCCD = pathlib.Path(__file__).parents[4] / "shared/data/bccd-voc"
HEIGHT, WIDTH = 8, 12


def picture(level, kind="png", height=HEIGHT, width=WIDTH):
    pixels = np.full([height, width, 3], level, np.uint8)
    return (tf.io.encode_jpeg(pixels) if kind == "jpg" else tf.io.encode_png(pixels)).numpy()


def xml(*objects, size=(HEIGHT, WIDTH)):
    """An annotation; an object is (name, xmin, ymin, xmax, ymax[, difficult])."""
    text = f"<annotation><size><width>{size[1]}</width><height>{size[0]}</height></size>"
    for name, *numbers in objects:
        corners = "".join(f"<{c}>{n}</{c}>" for c, n in zip(("xmin", "ymin", "xmax", "ymax"), numbers))
        difficult = numbers[4] if len(numbers) > 4 else 0
        text += f"<object><name>{name}</name><difficult>{difficult}</difficult><bndbox>{corners}</bndbox></object>"
    return (text + "</annotation>").encode()


ONE = ("cat", 2, 3, 5, 6)  # ours: (2, 1, 6, 5)


@pytest.fixture
def write(tmp_path):
    """Writes a folder of these {path: bytes or text} and opens a split of it."""

    def write(files, split="train", **options):
        write_files(tmp_path / "voc", files)
        return open_voc_folder(tmp_path / "voc", split, tmp_path / "cache", **options)

    return write


@pytest.fixture
def images(tmp_path):
    """Opens the images of a split of that folder without labels: their (grey level, label)."""

    def images(split="train"):
        return levels(open_voc_images(tmp_path / "voc", split, tmp_path / "cache"))

    return images


def many(count):
    """So many sound images, of grey levels 0, 1, ... and with one box each."""
    names = [f"{number:03}" for number in range(count)]
    found = {f"JPEGImages/{name}.png": picture(int(name)) for name in names}
    return {**found, **{f"Annotations/{name}.xml": xml(ONE) for name in names}}


def contents(source):
    return [
        (e["name"].decode(), e["boxes"].tolist(), e["labels"].tolist(), e["difficult"].tolist())
        for e in source.ordered().as_numpy_iterator()
    ]


def names(source):
    return [name for name, *_ in contents(source)]


def levels(source):
    """Grey levels and labels of the images, in order."""
    examples = list(source.ordered().as_numpy_iterator())
    return [(int(tf.io.decode_image(e["encoded"])[0, 0, 0]), int(e["label"])) for e in examples]


@pytest.mark.slow
def test_objects_of_a_split(write):
    source = write(
        {
            "JPEGImages/a.jpg": picture(1, "jpg"),
            "JPEGImages/b.JPG": picture(2, "png"),  # a PNG under the name of a JPEG
            "JPEGImages/c.png": picture(3),
            "Annotations/a.xml": xml(("dog", 1, 1, 12, 8), ("cat", 2, 3, 5, 6, 1)),
            "Annotations/b.xml": xml(),
            "Annotations/c.xml": xml(("zebra", 1, 1, 2, 2)),
            "ImageSets/Main/trainval.txt": "\ufeffb\r\na\r\n\r\na\r\n",
        },
        "trainval",
    )
    assert source.class_names == ("cat", "dog", "zebra")  # of all annotations
    assert contents(source) == [
        ("b", [], [], []),
        ("a", [[0, 0, 8, 12], [2, 1, 6, 5]], [1, 0], [False, True]),
    ]
    assert [int(tf.io.decode_image(e["encoded"])[0, 0, 0]) for e in source.ordered()] == [2, 1]


@pytest.mark.slow
def test_lists_of_one_class_are_no_splits(write):
    files = {
        **many(2),
        "ImageSets/Main/train.txt": "000",
        "ImageSets/Main/val.txt": "001",
        "ImageSets/Main/my_own.txt": "001\n000",
        "ImageSets/Main/cat_train.txt": "000  1",
        "ImageSets/Main/cat_val.txt": "001 -1",
        "ImageSets/Main/notes.md": "",
    }
    assert names(write(files, "my_own")) == ["001", "000"]
    assert names(write({}, "validation")) == ["001"]
    for absent in ("cat_train", "test", ""):
        with pytest.raises(ConfigError, match=f"^--split={absent}: voc:.*/voc has my_own, train, val$"):
            write({}, absent)


def without(part):
    return {path: content for path, content in many(2).items() if not path.startswith(part)}


KNOWN = "; known are JPEGImages and Annotations "
ONE_BOX = {"JPEGImages/a.png": picture(1)}
REFUSED = {
    "no such split": (many(3), "test", f"^--split=test: voc:.* has train, all its images{KNOWN}"),
    **{
        f"list in {place}": (
            {**many(3), f"ImageSets/{place}": "000"},
            "train",
            f"/ImageSets/{place}: lists of splits are ImageSets/Main/NAME.txt; move",
        )
        for place in ("test.txt", "Segmentation/test.txt", "Main/2007/test.txt")
    },
    "empty list": (
        {**many(1), "ImageSets/Main/train.txt": "\n"},
        "train",
        "^--split=train: no image of voc:.* is in it",
    ),
    "no images": (without("JPEGImages"), "train", f"^--dataset=voc:.*/voc: no images in it{KNOWN}"),
    "no XML": (without("Annotations"), "train", f"none of its 2 images has an XML file of its name{KNOWN}"),
    "parts": (
        {**ONE_BOX, "Annotations/a.xml": xml(("cat", 0.1, 0.1, 0.5, 0.9))},
        "train",
        "/voc: no number of a box is above 1; VOC's boxes are in pixels",
    ),
    "no boxes": ({**ONE_BOX, "Annotations/a.xml": xml()}, "train", "^--split=train: no boxes in it, in --dataset=voc:"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_read_is_refused(write, case):
    files, split, message = REFUSED[case]
    with pytest.raises(ConfigError, match=message) as error:
        write(files, split)
    assert str(error.value).isprintable()


@pytest.mark.slow
def test_boxes_are_cut_off_at_the_real_border_and_bad_ones_left_out(write, warnings):
    source = write(
        {
            "JPEGImages/a.png": picture(1),
            "Annotations/a.xml": xml(
                ("cat", 0, -3, 99, 99, 1),
                ("cat", 5, 5, 5, 7),  # no width
                ("cat", 5, 7, 9, 5),  # upside down
                ("cat", 13, 1, 15, 5),  # beside the image, if not beside what the annotation takes for it
                ("dog", "left", 1, 5, 5),
                ("cat", "nan", 1, 5, 5),
                ("", 1, 1, 5, 5),
                ("zebra", 2, 3, 5, 6),
                size=(800, 1200),
            ),
            "JPEGImages/b.png": picture(2),
            "Annotations/b.xml": xml(ONE, size=(0, 0)),
        }
    )
    assert source.class_names == ("cat", "dog", "zebra")  # whose boxes are bad does not matter
    assert contents(source) == [
        ("a", [[0, 0, 8, 12], [2, 1, 6, 5]], [0, 2], [True, False]),
        ("b", [[2, 1, 6, 5]], [0], [False]),
    ]
    sizes, numbers, areas = warnings
    assert sizes.endswith("/voc: 1 of 2 images have another size than their annotations say: JPEGImages/a.png")
    left_out = "and are left out: JPEGImages/a.png"
    assert numbers.endswith(f"/voc: 3 of 9 boxes have no name or no <bndbox> of four numbers {left_out}")
    assert areas.endswith(f"/voc: 3 of 9 boxes have no area within the image {left_out}")


@pytest.mark.slow
def test_images_alone_are_those_of_the_split_and_have_no_labels(write, images, warnings, tmp_path):
    write({**many(3), "ImageSets/Main/train.txt": "002\n000\n"})
    assert images() == [(2, -1), (0, -1)]
    assert warnings == []
    (tmp_path / "voc/ImageSets/Main/train.txt").write_text("000\n001\ngone\n")
    with pytest.raises(ConfigError, match=r"1 of 3 images .* gone \(no such image\)"):
        images()
    with pytest.raises(ConfigError, match=r"^--split=val: voc:.* has train$"):
        images("val")


@pytest.mark.parametrize("annotations", [{}, {"Annotations/000.xml": "<annotation>"}])
def test_images_alone_need_no_annotations(write, images, warnings, annotations):
    with pytest.raises(ConfigError):
        write({**without("Annotations"), **annotations})
    assert images() == [(0, -1), (1, -1)]
    assert warnings == []


@pytest.mark.slow
def test_negatives(write, warnings, tmp_path):
    assert [len(boxes) for _, boxes, *_ in contents(write({**many(3), "Annotations/001.xml": xml()}))] == [1, 0, 1]
    assert warnings.pop().endswith("/voc: 1 of 3 images have no objects, 0 of them no annotation: JPEGImages/001.png")
    (tmp_path / "voc/Annotations/000.xml").unlink()
    with pytest.raises(ConfigError, match=r"1 of 3 .* or take those .* by --negatives_without_xml: 000 \(no annot"):
        write({})
    source = write({}, negatives_without_xml=True)
    assert [len(boxes) for _, boxes, *_ in contents(source)] == [0, 0, 1]
    found = "2 of 3 images have no objects, 1 of them no annotation: JPEGImages/000.png, JPEGImages/001.png"
    assert warnings.pop().endswith(found)
    assert warnings == []
    with pytest.raises(ConfigError, match=r"1 of 3 .* 001 \(broken annotation"):  # is no negative
        write({"Annotations/001.xml": "<annotation>"}, negatives_without_xml=True)


def test_annotations_that_belong_to_no_image_or_say_so(write, warnings):
    def named(text):
        return xml(ONE).replace(b"<size>", b"<filename>" + text + b"</filename><size>")

    files = {"Annotations/000.xml": named(b"002.jpg"), "Annotations/001.xml": named(b"as_it_was_called.jpg")}
    assert write({**many(3), **files, "Annotations/gone.xml": xml(ONE)}).num_examples == 3
    alone, other = warnings
    assert alone.endswith("/voc: 1 of 4 annotations have the name of no image and are left out: gone")
    assert other.endswith("/voc: 1 of 4 annotations have the <filename> of another image; their own names count: 000")


UNUSABLE = {
    "no file": ({}, "gone (no such image)"),
    "no annotation": ({"JPEGImages/gone.png": picture(0)}, "gone (no annotation)"),
    "broken annotation": (
        {"JPEGImages/gone.png": picture(0), "Annotations/gone.xml": "<annotation>"},
        "gone (broken annotation, no element found: line 1, column 12)",
    ),
    "broken image": (
        {"JPEGImages/gone.png": picture(0)[:-30], "Annotations/gone.xml": xml(ONE)},
        "1 of 101 files (0.99 %) cannot be decoded and are left out; remove or repair them: JPEGImages/gone.png",
    ),
}


@pytest.mark.slow
@pytest.mark.usefixtures("checked")
@pytest.mark.parametrize("kind", UNUSABLE)
def test_few_unusable_images_are_left_out_and_many_end_the_run(write, warnings, kind):
    files, message = UNUSABLE[kind]
    good = [f"{number:03}" for number in range(100)]
    source = write({**many(100), **files, "ImageSets/Main/train.txt": "\n".join(["gone", *good])})
    assert names(source) == good
    (line,) = warnings
    assert message in line
    assert "1 of 101" in line
    with pytest.raises(ConfigError, match=r"^--dataset=voc:[^ ]*/voc: 1 of 3 .* \(33.3 %\).*more than 1 %.*gone"):
        write({"ImageSets/Main/train.txt": "gone\n000\n001"})


@pytest.mark.slow
def test_a_bucket_is_read_through_tensorflow(cache):
    """Here TensorFlow's file system in memory."""
    for path, content in {**many(2), "ImageSets/Main/train.txt": b"001"}.items():
        tf.io.gfile.makedirs(f"ram://voc_test/{pathlib.PurePosixPath(path).parent}")
        with tf.io.gfile.GFile(f"ram://voc_test/{path}", "wb") as file:
            file.write(content)
    assert contents(open_voc_folder("ram://voc_test", "train", cache)) == [("001", [[2, 1, 6, 5]], [0], [False])]


@pytest.mark.slow
@pytest.mark.usefixtures("checked")
@pytest.mark.skipif(not BCCD.is_dir(), reason="the blood cells are not here")
def test_blood_cells(cache, warnings):
    source, test = (open_voc_folder(BCCD, split, cache) for split in ("trainval", "test"))
    assert source.num_examples == 292
    assert source.class_names == ("Platelets", "RBC", "WBC")
    assert sum(len(labels) for s in (source, test) for _, _, labels, _ in contents(s)) == 4888 - 2
    left_out = "JPEGImages/BloodImage_00338.jpg, JPEGImages/BloodImage_00343.jpg"
    assert [line.partition(": ")[2] for line in warnings] == [
        f"2 of 3943 boxes have no area within the image and are left out: {left_out}"
    ]


@pytest.mark.slow
@pytest.mark.usefixtures("checked")
def test_huge_images_are_refused(tmp_path, cache, refused):
    folder = samples.write_boxes(tmp_path / "voc")
    said = refused(open_voc_folder, folder, "train", cache, max_megapixels=1e-3)
    assert said.startswith(f"--dataset=voc:{folder}: 4 of 4 files (100 %) have 0.001 megapixels or more")


def link_to_itself(path):
    path.symlink_to(path.name)


def file_of(content):
    return lambda path: path.write_bytes(content)


EMPTY, FOLDER, NO_XML = file_of(b""), os.mkdir, "none of its 4 images has an XML file"
# A part of a sound folder, what is put in its place, and what is said.
PARTS = [
    ("JPEGImages", link_to_itself, NO_XML),
    ("JPEGImages/0.png", os.mkfifo, ""),
    ("Annotations", EMPTY, NO_XML),
    *(("Annotations/0.xml", make, r"\(no annotation\)") for make in (FOLDER, os.mkfifo)),
    ("Annotations/0.xml", file_of(b"\xff\xfe<\xd8"), r"\(broken annotation, "),
    ("Annotations/0.xml", file_of(b'<?xml version="1.0" encoding="\a\n"?><a/>'), r"\(broken annotation, "),
    *(("ImageSets", make, "/ImageSets: is no folder") for make in (EMPTY, link_to_itself)),
    ("ImageSets/Main", EMPTY, "/ImageSets/Main: is no folder"),
    ("ImageSets/Main/train.txt", os.mkfifo, ""),  # no list
    ("ImageSets/Main/train.txt", file_of(b"0\n\xe9\xff\0\n"), "no such image"),
    ("ImageSets/Main/train.txt", file_of("0".encode("utf-16")), "no such image"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("part", "make", "message"), PARTS)
def test_parts_that_are_something_else(tmp_path, cache, part, make, message):
    path = pathlib.Path(samples.write_boxes(tmp_path / "voc"), part)
    if path.is_dir():
        path.rename(path.with_name(path.name + "_before"))
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    make(path)
    if message:
        with pytest.raises(ConfigError, match=message) as error:
            open_voc_folder(tmp_path / "voc", "train", cache)
        assert str(error.value).isprintable()
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
    root = tmp_path / "voc"
    samples.write_boxes(root)
    (root / part).mkdir(parents=True, exist_ok=True)
    unreadable(root / part)
    said = refused(open_voc_folder, root, "train", cache)
    assert said.startswith(message.format(root=root))
    assert "cannot be read" in said + caplog.text
