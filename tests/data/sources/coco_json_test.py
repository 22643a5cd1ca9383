"""COCO's JSON: layouts, and what is wrong in files that people have."""

import json

import pytest

from cpc_tf.data import catalog
from cpc_tf.data.config import DataConfig
from cpc_tf.data.sources import coco_json
from cpc_tf.settings import ConfigError
from tests.data.samples import write_files
from tests.data.sources.boxes_folder_test import HEIGHT, WIDTH, contents, names, picture

pytestmark = pytest.mark.usefixtures("unchecked")

CAT, DOG = {"id": 1, "name": "cat"}, {"id": 90, "name": "dog"}
OURS = [2.0, 1.0, 6.0, 5.0]  # of the box below


def image(number, name, **more):
    return {"id": number, "file_name": name, "height": HEIGHT, "width": WIDTH, **more}


def box(number, category=1, bbox=(1, 2, 4, 4), **more):
    return {"image_id": number, "category_id": category, "bbox": list(bbox), **more}


def coco(images, annotations, categories=(CAT, DOG)):
    return json.dumps({"images": images, "annotations": annotations, "categories": list(categories)})


def one(name):
    return coco([image(1, name)], [box(1)])


@pytest.fixture
def write(tmp_path):
    """Writes a folder of these {path: bytes or text} and opens a split of it, or of a file in it."""

    def write(files, split="train", at="", **settings):
        write_files(tmp_path / "coco", files)
        data = DataConfig(dataset=f"coco:{tmp_path / 'coco' / at}", data_dir=str(tmp_path / "cache"), **settings)
        return catalog.open_detection_source(data, split)

    return write


# JSON of the split {s} and its image {n}.png, which the JSON calls by the third.
LAYOUTS = {
    "2017": ("annotations/instances_{s}2017.json", "{s}2017/{n}.png", "{n}.png"),
    "2017 below images": ("annotations/instances_{s}2017.json", "images/{s}2017/{n}.png", "{n}.png"),
    "Roboflow": ("{s}/_annotations.coco.json", "{s}/{n}.png", "{n}.png"),
    "by the split's name": ("annotations/{s}.json", "images/{n}.png", "{n}.png"),
    "paths": ("{s}.json", "some/where/{n}.png", "where\\{n}.png"),
    "paths from the top": ("annotations/{s}.json", "some/{s}/{n}.png", "some/{s}/{n}.png"),
}


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(write, warnings, layout):
    files = {"annotations/captions_train2017.json": "[]"} if layout.startswith("2017") else {}
    for split, name in (("train", "a"), ("valid" if layout == "Roboflow" else "val", "b")):
        place, path, called = (part.format(s=split, n=name) for part in LAYOUTS[layout])
        files |= {place: one(called), path: picture(1)}
    folders = LAYOUTS[layout][1].replace("images/", "").rpartition("/")[0]
    for split, name in (("train", "a"), ("val", "b")):
        ((found, *objects),) = contents(write(files, split))
        own = "valid" if layout == "Roboflow" and split == "val" else split
        assert found == "/".join(filter(None, [folders.format(s=own), name]))
        assert objects == [[OURS], [0], [False]]
    assert warnings == []


@pytest.mark.slow
def test_a_file_alone_is_train(write):
    files = {"annotations/mine.json": one("a.png"), "images/a.png": picture(1), "images/b.png": picture(2)}
    for at in ("", "annotations/mine.json"):
        assert names(write(files, "train", at)) == ["a"]
    with pytest.raises(ConfigError, match=r"^--dataset=coco:.*/gone.json: no such file$"):
        write({}, "train", "gone.json")


@pytest.mark.slow
def test_crowds_are_difficult_and_images_without_boxes_negatives(write, warnings):
    annotations = [box(1), box(1, 90, (0, 0, 99, 99.5), iscrowd=1)]
    files = {"a.png": picture(1), "b.png": picture(2), "c.png": picture(3)}
    source = write({"x.json": coco([image(1, "a.png"), image(2, "b.png")], annotations), **files})
    assert source.class_names == ("cat", "dog")
    assert contents(source) == [("a", [OURS, [0, 0, HEIGHT, WIDTH]], [0, 1], [False, True]), ("b", [], [], [])]
    beside, negatives = warnings
    assert beside.endswith("/coco: 1 of 3 images are in no JSON file and are left out: c.png")
    assert negatives.endswith("1 of 2 images have no objects, 0 of them no annotation: b.png")


@pytest.mark.slow
def test_an_image_in_two_files_has_its_boxes_once(write, warnings):
    both = coco([image(1, "a.png"), image(2, "b.png")], [box(1), box(2, 90)])
    files = {"train.json": one("a.png"), "trainval.json": both, "a.png": picture(1), "b.png": picture(2)}
    assert contents(write(files, "trainval")) == [("a", [OURS], [0], [False]), ("b", [OURS], [1], [False])]
    assert warnings == []
    write(files | {"trainval.json": both.replace("[1, 2, 4, 4]", "[1, 2, 3, 3]")}, "trainval")
    assert warnings[0].endswith("1 of 2 images have other boxes in a JSON file before it, which count: a")


@pytest.mark.slow
def test_bad_boxes_are_left_out_and_counted(write, warnings):
    bad = [
        box(1, bbox=(1, 1, 0, 4)),  # no width
        box(1, bbox=(5, 5, -2, 4)),
        box(1, bbox=(WIDTH, 0, 5, 5)),  # beside the image
        box(1, bbox=(1, 2, 3)),
        box(1, bbox=("1", 2, 3, 4)),
        box(7),  # of no image
    ]
    files = {"a.png": picture(1), "x.json": coco([image(1, "a.png", height=80)], [box(1), *bad])}
    assert contents(write(files)) == [("a", [OURS], [0], [False])]
    strange, size, incomplete, areas = warnings
    assert "x.json: 1 of 7 boxes have an image_id of none of its images and are left out: 7" in strange
    assert "1 of 1 images have another size than their annotations say: a.png" in size
    assert "2 of 6 boxes have no known category_id or no bbox of four numbers and are left out: a.png" in incomplete
    assert "3 of 6 boxes have no area within the image and are left out: a.png" in areas


A = {"a.png": picture(1)}
REFUSED = {
    "no images": ({"x.json": one("a.png")}, r"no images in it; known are annotations/instances_NAME.json"),
    "no JSON": (A, "no JSON files in it; known are"),
    "no file of the image": (
        {**A, "x.json": coco([image(1, "a.png"), image(2, "gone.png")], [box(1)])},
        r"1 of 2 images \(50 %\) cannot be used.*: gone.png \(no such image\)",
    ),
    "broken JSON": ({**A, "x.json": one("a.png")[:-5]}, "x.json: cannot be read as JSON: "),
    "other JSON": ({**A, "x.json": "{}"}, "none of its JSON files is COCO's"),
    "unknown category": (
        {**A, "x.json": coco([image(1, "a.png")], [box(1), box(1, 2)])},
        r"^--dataset=coco:\S+: 1 of 2 boxes \(50 %\) "
        r"have a category_id that x.json does not name.*: a \(category_id 2\)",
    ),
    "parts": (
        {**A, "x.json": coco([image(1, "a.png")], [box(1, bbox=(0.1, 0.1, 0.5, 0.5))])},
        "no number of a box is above 1; COCO's boxes are in pixels, not in parts of the image",
    ),
    "twins": ({**A, "x/train.json": one("a.png"), "y/train.json": one("a.png")}, "are both the split train"),
    "no boxes": ({**A, "x.json": coco([image(1, "a.png")], [])}, "--split=train: no boxes in it"),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_read_is_refused(write, case):
    files, message = REFUSED[case]
    with pytest.raises(ConfigError, match=message) as error:
        write(files)
    assert str(error.value).isprintable()


STRANGE = [None, [], {"a": [1]}, "\ud800", 10**400, -1, True, "1 "]


@pytest.mark.slow
@pytest.mark.parametrize("strange", STRANGE[:2] + [STRANGE])
def test_strange_values_are_no_crash(write, strange):
    values = strange if strange is STRANGE else [strange]
    hostile, images, categories = [], [image(1, "a.png")], [CAT]
    for each in values:
        hostile += [box(each), box(1, each), box(1, bbox=[each] * 4), box(1, iscrowd=each), {"bbox": each}]
        images.append(image(each, "a.png", height=each))
        categories.append({"id": each, "name": each})
    source = write({**A, "x.json": coco(images, [*[box(1)] * 300 * len(values), *hostile], categories)})
    assert set(contents(source)[0][2]) <= set(range(len(values) + 1))
    assert all(name.isprintable() for name in source.class_names)


@pytest.mark.slow
def test_images_of_one_name_but_for_the_ending_are_two(write):
    images = [image(1, "a.png"), image(2, "a.jpg")]
    files = {**A, "a.jpg": picture(2, "jpg"), "x.json": coco(images, [box(1), box(2, 90)])}
    assert {name: labels for name, _, labels, _ in contents(write(files))} == {"a": [0], "a.jpg": [1]}


def test_an_image_of_another_split_does_not_stand_for_one_that_is_missing():
    find = coco_json._Finder(["train/a.jpg", "val/b.jpg", "photos/c.jpg"])
    assert find.key("a.jpg", "annotations", "val") is None
    assert find.key("a.jpg", "annotations", "train")
    assert find.key("elsewhere/b.jpg", "annotations", "val2017")
    assert find.key("c.jpg", "annotations", "val")
