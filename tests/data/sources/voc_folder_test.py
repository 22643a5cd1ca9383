"""Folders in VOC's layout: splits, conventions, hostile files."""

import itertools
import pathlib

import numpy as np
import pytest
import tensorflow as tf
from absl import logging

from cpc_tf.data.sources.voc_folder import open_voc_folder, open_voc_images
from cpc_tf.settings import ConfigError

BCCD = pathlib.Path(__file__).parents[4] / "shared/data/bccd-voc"
HEIGHT, WIDTH = 8, 12


@pytest.fixture
def warnings(monkeypatch):
    lines = []
    monkeypatch.setattr(logging, "warning", lambda message, *values: lines.append(message % values))
    return lines


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

    def write(files, split="train"):
        for path, content in files.items():
            target = tmp_path / "voc" / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content.encode() if isinstance(content, str) else content)
        return open_voc_folder(str(tmp_path / "voc"), split, str(tmp_path / "cache"))

    return write


def many(count, start=0):
    """So many sound images, of grey levels 0, 1, ... and with one box each."""
    names = [f"{number:03}" for number in range(start, start + count)]
    images = {f"JPEGImages/{name}.png": picture(int(name)) for name in names}
    return {**images, **{f"Annotations/{name}.xml": xml(ONE) for name in names}}


def contents(source):
    return [
        (e["name"].decode(), e["boxes"].tolist(), e["labels"].tolist(), e["difficult"].tolist())
        for e in source.ordered().as_numpy_iterator()
    ]


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
    assert source.num_examples == 2
    assert contents(source) == [
        ("b", [], [], []),
        ("a", [[0, 0, 8, 12], [2, 1, 6, 5]], [1, 0], [False, True]),
    ]
    levels = [int(tf.io.decode_image(e["encoded"])[0, 0, 0]) for e in source.ordered()]
    assert levels == [2, 1]


def test_elements(write):
    source = write(many(2))
    for dataset in (source.stream(seed=0), source.ordered()):
        assert {name: (s.dtype, s.shape.as_list()) for name, s in dataset.element_spec.items()} == {
            "counter": (tf.int64, []),
            "encoded": (tf.string, []),
            "name": (tf.string, []),
            "boxes": (tf.float32, [None, 4]),
            "labels": (tf.int64, [None]),
            "difficult": (tf.bool, [None]),
        }


def test_stream_is_a_function_of_seed_and_counter(write):
    files = many(7)
    for number in range(7):
        files[f"Annotations/{number:03}.xml"] = xml(*[ONE] * number)
    source = write(files)

    def read(count, **options):
        examples = itertools.islice(source.stream(**{"seed": 5, **options}).as_numpy_iterator(), count)
        return [
            (int(e["counter"]), e["name"].decode(), len(e["boxes"]), int(tf.io.decode_image(e["encoded"])[0, 0, 0]))
            for e in examples
        ]

    whole = read(28)
    assert [counter for counter, *_ in whole] == list(range(28))
    assert all(name == f"{boxes:03}" and boxes == level for _, name, boxes, level in whole), "all of the same image"
    epochs = np.array([boxes for _, _, boxes, _ in whole]).reshape(4, 7)
    np.testing.assert_array_equal(np.sort(epochs, axis=1), np.tile(np.arange(7), [4, 1]))
    assert len({tuple(epoch) for epoch in epochs}) > 1
    for start in (1, 7, 10):
        assert read(5, start=start) == whole[start : start + 5]
    assert read(4, start=3, select=lambda counter: counter % 2 == 1) == whole[3:10:2]
    assert read(7, seed=6) != whole[:7]


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
    assert [name for name, *_ in contents(write(files, "my_own"))] == ["001", "000"]
    assert [name for name, *_ in contents(write({}, "validation"))] == ["001"]
    for absent in ("cat_train", "test", ""):
        with pytest.raises(ConfigError, match=f"^--split={absent}: voc:.*/voc has my_own, train, val$"):
            write({}, absent)


def test_without_lists_all_images_are_train(write):
    assert write(many(3)).num_examples == 3
    with pytest.raises(ConfigError, match=r"^--split=test: voc:.* has train, all its images; known are JPEGImages and"):
        write({}, "test")


@pytest.mark.parametrize("place", ["test.txt", "Segmentation/test.txt", "Main/2007/test.txt"])
def test_lists_in_another_place_are_not_taken_for_none(write, place):
    with pytest.raises(ConfigError, match=f"/ImageSets/{place}: lists of splits are ImageSets/Main/NAME.txt; move"):
        write({**many(3), f"ImageSets/{place}": "000"})


def test_empty_list(write):
    with pytest.raises(ConfigError, match="^--split=train: no image of voc:.* is in it"):
        write({**many(1), "ImageSets/Main/train.txt": "\n"})


@pytest.mark.parametrize(
    ("missing", "message"),
    [("JPEGImages", "no pictures in it"), ("Annotations", "none of its 2 pictures has an XML file of its name")],
)
def test_a_part_is_missing(write, missing, message):
    files = {path: content for path, content in many(2).items() if not path.startswith(missing)}
    with pytest.raises(ConfigError, match=f"^--dataset=voc:.*/voc: {message}; known are JPEGImages and Annotations "):
        write(files)


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


def test_boxes_in_parts_of_the_image_are_no_pixels(write):
    with pytest.raises(ConfigError, match=r"/voc: no number of a box is above 1; VOC's boxes are in pixels"):
        write({"JPEGImages/a.png": picture(1), "Annotations/a.xml": xml(("cat", 0.1, 0.1, 0.5, 0.9))})


def test_sound_folder_has_no_warnings(write, warnings):
    write(many(3))
    assert warnings == []


def levels(source):
    """Grey levels and labels of the images, in order."""
    examples = list(source.ordered().as_numpy_iterator())
    return [(int(tf.io.decode_image(e["encoded"])[0, 0, 0]), int(e["label"])) for e in examples]


def test_images_alone_are_those_of_the_split_and_have_no_labels(write, tmp_path):
    source = write({**many(3), "ImageSets/Main/train.txt": "002\n000\n"})
    images = open_voc_images(str(tmp_path / "voc"), "train", str(tmp_path / "cache"))
    assert images.num_examples == source.num_examples == 2
    assert images.class_names == ()
    assert levels(images) == [(2, -1), (0, -1)]
    assert set(images.labels()) == {-1}


@pytest.mark.parametrize("annotations", [{}, {"Annotations/000.xml": "<annotation>"}])
def test_images_alone_need_no_annotations(write, tmp_path, warnings, annotations):
    files = {path: content for path, content in many(3).items() if path.startswith("JPEGImages")}
    with pytest.raises(ConfigError):
        write({**files, **annotations})
    assert levels(open_voc_images(str(tmp_path / "voc"), "train", str(tmp_path / "cache"))) == [
        (0, -1),
        (1, -1),
        (2, -1),
    ]
    assert warnings == []


def test_images_alone_of_a_list_that_names_others(write, tmp_path):
    write(many(2))
    (tmp_path / "voc/ImageSets/Main").mkdir(parents=True)
    (tmp_path / "voc/ImageSets/Main/train.txt").write_text("000\n001\ngone\n")
    with pytest.raises(ConfigError, match=r"1 of 3 images .* gone \(no such picture\)"):
        open_voc_images(str(tmp_path / "voc"), "train", str(tmp_path / "cache"))
    with pytest.raises(ConfigError, match=r"^--split=val: voc:.* has train$"):
        open_voc_images(str(tmp_path / "voc"), "val", str(tmp_path / "cache"))


def test_negatives(write, warnings, tmp_path):
    files = {**many(3), "Annotations/001.xml": xml()}
    assert [len(boxes) for _, boxes, _, _ in contents(write(files))] == [1, 0, 1]
    assert warnings.pop().endswith("/voc: 1 of 3 images have no objects, 0 of them no annotation: JPEGImages/001.png")
    (tmp_path / "voc/Annotations/000.xml").unlink()
    with pytest.raises(
        ConfigError, match=r"1 of 3 .* or take those .* by --negatives_without_xml: 000 \(no annotation"
    ):
        write({})
    source = open_voc_folder(str(tmp_path / "voc"), "train", str(tmp_path / "cache"), negatives_without_xml=True)
    assert [len(boxes) for _, boxes, _, _ in contents(source)] == [0, 0, 1]
    found = "2 of 3 images have no objects, 1 of them no annotation: JPEGImages/000.png, JPEGImages/001.png"
    assert warnings.pop().endswith(found)
    assert warnings == []
    (tmp_path / "voc/Annotations/001.xml").write_text("<annotation>")  # is no negative
    with pytest.raises(ConfigError, match=r"1 of 3 .* 001 \(broken annotation"):
        open_voc_folder(str(tmp_path / "voc"), "train", str(tmp_path / "cache"), negatives_without_xml=True)


def test_annotations_that_belong_to_no_image_or_say_so(write, warnings):
    def named(text):
        return xml(ONE).replace(b"<size>", b"<filename>" + text + b"</filename><size>")

    files = {"Annotations/000.xml": named(b"002.jpg"), "Annotations/001.xml": named(b"as_it_was_called.jpg")}
    assert write({**many(3), **files, "Annotations/gone.xml": xml(ONE)}).num_examples == 3
    alone, other = warnings
    assert alone.endswith("/voc: 1 of 4 annotations have the name of no image and are left out: gone")
    assert other.endswith("/voc: 1 of 4 annotations have the <filename> of another image; their own names count: 000")


def test_no_boxes_at_all(write):
    with pytest.raises(ConfigError, match="^--split=train: no boxes in it, in --dataset=voc:"):
        write({"JPEGImages/a.png": picture(1), "Annotations/a.xml": xml()})


UNUSABLE = {
    "no file": ({}, "gone (no such picture)"),
    "no annotation": ({"JPEGImages/gone.png": picture(0)}, "gone (no annotation)"),
    "broken annotation": (
        {"JPEGImages/gone.png": picture(0), "Annotations/gone.xml": "<annotation>"},
        "gone (broken annotation, no element found: line 1, column 12)",
    ),
    "broken image": (
        {"JPEGImages/gone.png": picture(0)[:-30], "Annotations/gone.xml": xml(ONE)},
        "1 of 101 files (0.99 %) cannot be decoded and are left out: JPEGImages/gone.png",
    ),
}


@pytest.mark.parametrize("kind", list(UNUSABLE))
def test_few_unusable_images_are_left_out_and_named(write, warnings, kind):
    files, message = UNUSABLE[kind]
    good = [f"{number:03}" for number in range(100)]
    source = write({**many(100), **files, "ImageSets/Main/train.txt": "\n".join(["gone", *good])})
    assert [name for name, *_ in contents(source)] == good
    assert len(warnings) == 1
    assert message in warnings[0]
    assert "1 of 101" in warnings[0]


@pytest.mark.parametrize("kind", list(UNUSABLE))
def test_many_unusable_images_end_the_run(write, kind):
    files, _ = UNUSABLE[kind]
    with pytest.raises(ConfigError, match=r"^--dataset=voc:[^ ]*/voc: 1 of 3 .* \(33.3 %\).*more than 1 %.*gone"):
        write({**many(2), **files, "ImageSets/Main/train.txt": "gone\n000\n001"})


def test_paths_other_than_local_ones(tmp_path):
    """Everything goes through tf.io.gfile, here to TensorFlow's file system in memory."""
    for path, content in {**many(2), "ImageSets/Main/train.txt": b"001"}.items():
        tf.io.gfile.makedirs(f"ram://voc_test/{pathlib.PurePosixPath(path).parent}")
        with tf.io.gfile.GFile(f"ram://voc_test/{path}", "wb") as file:
            file.write(content)
    source = open_voc_folder("ram://voc_test", "train", str(tmp_path))
    assert contents(source) == [("001", [[2, 1, 6, 5]], [0], [False])]


@pytest.mark.skipif(not BCCD.is_dir(), reason="the blood cells are not here")
def test_blood_cells(tmp_path, warnings):
    source = open_voc_folder(str(BCCD), "trainval", str(tmp_path))
    assert source.num_examples == 292
    assert source.class_names == ("Platelets", "RBC", "WBC")
    test = open_voc_folder(str(BCCD), "test", str(tmp_path))
    assert sum(len(labels) for s in (source, test) for _, _, labels, _ in contents(s)) == 4888 - 2
    left_out = "JPEGImages/BloodImage_00338.jpg, JPEGImages/BloodImage_00343.jpg"
    assert [line.partition(": ")[2] for line in warnings] == [
        f"2 of 3943 boxes have no area within the image and are left out: {left_out}"
    ]
