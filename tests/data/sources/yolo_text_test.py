"""YOLO's text files: layouts, names of classes, and what is wrong in files that people have."""

import numpy as np
import pytest

from cpc_tf.data import catalog
from cpc_tf.data.config import DataConfig
from cpc_tf.data.sources import yolo_names, yolo_text
from cpc_tf.settings import ConfigError
from tests.data.samples import write_files
from tests.data.sources.boxes_folder_test import HEIGHT, WIDTH, contents, names, picture

pytestmark = pytest.mark.usefixtures("unchecked")

ROW = f"1 {4 / WIDTH!r} {3.5 / HEIGHT!r} {4 / WIDTH!r} {5 / HEIGHT!r}"
OURS = [1.0, 2.0, 6.0, 6.0]  # of that row


@pytest.fixture
def write(tmp_path):
    """Writes a folder of these {path: bytes or text} and opens a split of it."""

    def write(files, split="train"):
        write_files(tmp_path / "yolo", files)
        data = DataConfig(dataset=f"yolo:{tmp_path / 'yolo'}", data_dir=str(tmp_path / "cache"))
        return catalog.open_detection_source(data, split)

    return write


YAML = "path: ../datasets/mine  # as the tool wrote it\ntrain: {}\nval: {}\ntest:\nnc: 2\nnames: ['cat', 'dog']\n"
# Image {n}.png and text {n}.txt of a split {s}, and further files.
LAYOUTS = {
    "Ultralytics": (
        "images/{s}/{n}.png",
        "labels/{s}/{n}.txt",
        {"data.yaml": YAML.format("images/train", "images/val")},
    ),
    "Roboflow": (
        "{s}/images/{n}.png",
        "{s}/labels/{n}.txt",
        {"data.yaml": YAML.format("../train/images", "../val/images")},
    ),
    "own folders": ("{s}_own/{n}.png", "{s}_own/{n}.txt", {"data.yaml": YAML.format("train_own", "['val_own']")}),
    "lists in YAML": (
        "images/{n}.png",
        "labels/{n}.txt",
        {"my.yml": YAML.format("here.txt", "there.txt"), "here.txt": "./images/a.png\n", "there.txt": "images/b.png"},
    ),
    "darknet": (
        "obj/{n}.png",
        "obj/{n}.txt",
        {"train.txt": "data/obj/a.png\n", "valid.txt": "data/obj/b.png", "obj.names": "cat\ndog\n", "obj.data": "x"},
    ),
    "labelImg": ("{s}/{n}.png", "{s}/{n}.txt", {"train/classes.txt": "cat\ndog\n", "val/classes.txt": "cat\ndog"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(write, warnings, layout):
    image, text, files = LAYOUTS[layout]
    for split, name in (("train", "a"), ("val", "b")):
        files = {**files, image.format(s=split, n=name): picture(1), text.format(s=split, n=name): ROW + "\n\n"}
    for split, name in (("train", "a"), ("val", "b")):
        source = write(files, split)
        ((found, *objects),) = contents(source)
        assert found.rsplit("/")[-1] == name
        assert objects == [[OURS], [0], [False]]
        assert source.class_names == ("dog",)  # no cat has a box
    assert warnings == []


@pytest.mark.slow
def test_places_that_are_not_there_are_not_taken_for_others(write, warnings):
    """Nor does `images`, which holds both splits, stand for train/images."""
    files = {f"images/{s}/{s}.png": picture(1) for s in ("train", "test")}
    files |= {f"labels/{s}/{s}.txt": ROW for s in ("train", "test")}
    files["data.yaml"] = YAML.format("../train/images", "../valid/images")
    assert [names(write(files, split)) for split in ("train", "test")] == [["train/train"], ["test/test"]]
    assert warnings == []
    assert names(write({"data.yaml": YAML.format("images/train", "images/train")}, "val")) == ["train/train"]
    assert "/yolo: 1 of 2 images are in several splits of data.yaml: images/train/train.png" in warnings[0]
    assert "/yolo: 1 of 2 images are in no split of data.yaml and are left out: images/test/test.png" in warnings[1]


@pytest.mark.slow
def test_without_names_and_splits(write, warnings):
    files = {"a.png": picture(1), "a.txt": f"{ROW}\n10.0 0.5 0.5 1 1", "b.png": picture(2), "readme.txt": "boxes of b"}
    source = write({**files, "classes.txt": "\n"})
    assert source.class_names == ("1", "10")
    assert contents(source)[0] == ("a", [OURS, [0, 0, HEIGHT, WIDTH]], [0, 1], [False, False])
    (negatives,) = warnings
    assert negatives.endswith("1 of 2 images have no objects, 1 of them no annotation: b.png")


@pytest.mark.slow
def test_bad_lines_are_left_out_and_counted(write, warnings):
    bad = [
        "1 0.5 0.5 0 0.5",  # no width
        "1 0.5 0.5 0.5 -0.5",
        "1 -0.5 0.5 0.5 0.5",  # beside the image
        "1 0.5 0.5 0.5",
        "1 0.5 0.5 0.5 x",
        "1 0.5 0.5 nan 0.5",
        "1 0.5 0.5 0.5 0.5 0.9",  # with a confidence
        "1 3 2 4 4",  # in pixels
    ]
    files = {"images/a.png": picture(1), "labels/a.txt": "\n".join([ROW, *bad]), "labels/gone.txt": ROW}
    assert contents(write(files)) == [("a", [OURS], [0], [False])]
    alone, incomplete, areas = warnings
    assert alone.endswith("1 of 2 annotations have the name of no image and are left out: gone")
    assert "5 of 9 boxes have no class of the list or no four numbers from 0 to 1 and are left out" in incomplete
    assert "3 of 9 boxes have no area within the image and are left out: images/a.png" in areas


@pytest.mark.slow
def test_polygons_and_keypoints(write, warnings):
    polygon = "0 0.25 0.5 0.5 0.125 0.75 0.5 0.5 0.875"
    edges = [0.125 * HEIGHT, 0.25 * WIDTH, 0.875 * HEIGHT, 0.75 * WIDTH]
    assert contents(write({"a.png": picture(1), "a.txt": polygon})) == [("a", [edges], [0], [False])]
    (line,) = warnings
    assert line.endswith("/yolo: 1 of 1 text files have polygons, which become the boxes around them: a")
    keypoints = f"{ROW} 0.1 0.1 0.2 0.2 0.3 0.3"
    source = write({"a.txt": keypoints, "data.yaml": "kpt_shape: [3, 2]\nnames:\n  0: cat\n  1: dog\n"})
    assert contents(source) == [("a", [OURS], [0], [False])]


A = {"images/a.png": picture(1)}
REFUSED = {
    "no images": ({"labels/a.txt": ROW}, "no images in it; known are images/.*jpg and labels"),
    "no text": (A, "none of its 1 images has a text file of its name; known are"),
    "pixels": ({**A, "labels/a.txt": "0 3 2 4 4"}, "1 of 1 boxes have numbers above 1; YOLO's boxes are in parts"),
    "unknown class": (
        {**A, "labels/a.txt": ROW, "labels/classes.txt": "cat"},
        r"^--dataset=yolo:\S+: 1 of 1 boxes \(100 %\) "
        r"have a class that labels/classes.txt does not name.*: a \(class 1\)",
    ),
    "prose": ({**A, "labels/a.txt": "a cat"}, r"1 of 1 images.*: a \(broken annotation, line 1 is a cat in place of"),
    "two lists": (
        {**A, "x.yaml": "names: [a]", "y.yaml": "names: [b]"},
        "x.yaml and y.yaml both have names of classes",
    ),
    "no boxes": ({**A, "labels/a.txt": ""}, "--split=train: no boxes in it"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_read_is_refused(write, case):
    files, message = REFUSED[case]
    with pytest.raises(ConfigError, match=message) as error:
        write(files)
    assert str(error.value).isprintable()


@pytest.mark.parametrize(
    "text",
    [
        "names: [cat, 'big dog', \"it's # 1\"]",
        'nc: 3\nnames:\n- cat\n- big dog\n- "it\'s # 1"\n',
        "names: # three\n  0: cat\n  1: 'big dog'\n\n  2: 'it''s # 1'  # the last",
        "names:\n  [\n    'cat', 'big dog',\n    \"it's # 1\",\n  ]\ntrain: x",
        '\ufeffnames: {0: cat, 1: big dog, 2: "it\'s # 1"}\r\n',
    ],
)
def test_spellings_of_names_in_yaml(tmp_path, text):
    (tmp_path / "data.yaml").write_text(text)
    assert yolo_names.read(str(tmp_path)).names == {0: "cat", 1: "big dog", 2: "it's # 1"}


def test_rows():
    rows = yolo_text.parse(b"\xef\xbb\xbf2 0.5 0.5 0.5 0.25\r\n")
    assert rows == yolo_text.Rows([2], [[0.375, 0.25, 0.625, 0.75]], 0, 0)
    assert np.isnan(yolo_text.parse(b"2 \xff 1 1 1").boxes).all()
