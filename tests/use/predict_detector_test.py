"""`cpc-tf predict` with a detector: boxes in each format, and drawn."""

import csv
import json
import shutil
import types
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from PIL import Image

import cpc_tf
from cpc_tf.boxes import layout, voc, yolo
from cpc_tf.core.settings import ConfigError
from cpc_tf.data.config import DataConfig
from cpc_tf.use import formats
from cpc_tf.use import predict as run
from cpc_tf.use.model import Box, Detected
from cpc_tf.use.predict import predict
from cpc_tf.use.predict_config import PredictConfig
from tests.samples import write_boxes
from tests.use.models import write_detector

# (ymin, xmin, ymax, xmax) of the white and of the black objects of `write_boxes`.
SQUARE, BAR = (2, 4, 18, 20), (2, 4, 10, 20)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_detector(tmp_path_factory.mktemp("models") / "detector")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Squares (0, 2), bars (1, 3), a broken image, and one of another size that is stored on its
    side.
    """
    root = tmp_path_factory.mktemp("boxes")
    write_boxes(root)
    (root / "JPEGImages/1b.png").write_bytes(b"")
    stored = Image.new("RGB", (40, 20), (128, 128, 128))
    stored.paste((255, 255, 255), (0, 15, 40, 20))  # below; on the left as it is shown
    exif = Image.Exif()
    exif[274] = 6
    stored.save(root / "JPEGImages/2b.png", exif=exif)
    return root / "JPEGImages"


@pytest.fixture(scope="module")
def found(model, folder, tmp_path_factory):
    """(directory with boxes.csv and the drawings, the records) of all boxes."""
    out = tmp_path_factory.mktemp("out")
    options = {
        "drawn": f"{out}/drawn",
        "sheet": f"{out}/sheet.png",
        "least_score": 0.1,
        "batch_size": 2,
    }
    return out, predict(PredictConfig(model, str(folder), f"{out}/boxes.csv", **options))


def test_boxes_are_in_displayed_image_pixels(found):
    out, records = found
    boxes = {record.file: [box[2:] for box in record.boxes] for record in records}
    assert boxes == {
        "0.png": [SQUARE],
        "1.png": [BAR],
        "1b.png": [],
        "2.png": [SQUARE],
        "2b.png": [(0, 0, 40, 5)],
        "3.png": [BAR],
    }
    assert (records[4].height, records[4].width) == (40, 20)
    with open(out / "boxes.csv", newline="") as file:
        head, *lines = csv.reader(file)
    assert head == ["file", "label", "score", "ymin", "xmin", "ymax", "xmax", "error"]
    assert lines[0] == ["0.png", "square", "0.9000", "2.0", "4.0", "18.0", "20.0", ""]
    assert lines[2] == ["1b.png", "", "", "", "", "", "", "cannot be decoded: empty"]
    assert len(lines) == 6


@pytest.mark.slow
def test_boxes_below_the_least_score_are_dropped(model, folder, tmp_path):
    loaded = cpc_tf.Model(model, least_score=0.1)
    found = loaded.predict(folder)
    assert [len(record.boxes) for record in found] == [1, 1, 0, 1, 1, 1]
    found = cpc_tf.predict(loaded, folder, least_score=0.5, output=f"{tmp_path}/boxes.csv")
    assert [len(record.boxes) for record in found] == [1, 0, 0, 1, 1, 0]
    # an image without boxes has a row, too
    assert len((tmp_path / "boxes.csv").read_text().splitlines()) == 7
    assert len(cpc_tf.predict(loaded, folder / "3.png")[0].boxes) == 1


def test_recommended_score_is_the_default_threshold(model, folder, tmp_path):
    path = tmp_path / "detector"
    shutil.copytree(model, path)
    (path / "detector.json").write_text(json.dumps({"levels": None, "recommended_score": 0.3}))
    records = predict(PredictConfig(str(path), str(folder), drawn=f"{tmp_path}/drawn"))
    assert [len(record.boxes) for record in records] == [1, 1, 0, 1, 1, 1]
    drawn = np.asarray(Image.open(tmp_path / "drawn/1.jpg")).astype(int)
    assert np.abs(drawn - np.asarray(Image.open(folder / "1.png"))).max() > 60
    assert cpc_tf.Model(path).least_score == 0.3
    assert cpc_tf.Model(model).least_score == 0.5, "where the card recommends none"


@pytest.mark.slow
def test_coco(model, folder, tmp_path):
    predict(PredictConfig(model, str(folder), f"{tmp_path}/boxes.json", least_score=0.1))
    content = json.loads((tmp_path / "boxes.json").read_text())
    assert content["categories"] == [{"id": 1, "name": "square"}, {"id": 2, "name": "bar"}]
    images = {image["id"]: image for image in content["images"]}
    assert images[5] == {"id": 5, "file_name": "2b.png", "height": 40, "width": 20}
    assert len(images) == 5
    second = content["annotations"][1]
    assert second["score"] == pytest.approx(0.4)
    assert {**second, "score": 0} == {
        **{
            "id": 2,
            "image_id": 2,
            "category_id": 2,
            "iscrowd": 0,
            "bbox": [4, 2, 16, 8],
            "area": 128,
            "score": 0,
        }
    }


TRUE = {
    "categories": [
        {"id": 44, "name": "bar"},
        {"id": 3, "name": "square"},
        {"id": 9, "name": "other"},
    ],
    "images": [
        {"id": 101 + n, "file_name": f"{'x/' * (n % 2)}{name}"}
        for n, name in enumerate(("2.png", "1.png", "0.png"))
    ],
}


def test_ids_of_true_boxes(tmp_path):
    """So that loadRes, which compares the ids of images, takes the annotations."""
    path = tmp_path / "true.json"
    path.write_text(json.dumps(TRUE))
    model = types.SimpleNamespace(class_names=["square", "bar"], category_ids={})
    ids = formats.read_ids(str(path), ["0.png", "1.png"], model)
    assert ids == ([103, 102], {"square": 3, "bar": 44})
    records = [Detected("0.png", 9, 9), Detected("1.png", 9, 9, (Box("bar", 0.9, 1, 2, 3, 4),))]
    (one,) = json.loads(formats.coco(records, ids))["annotations"]
    assert (one["image_id"], one["category_id"]) == (102, 44)
    for files, said in (
        (["9.png"], "1 of 1 images are not among its images: 9.png"),
        (["1.png", "y/1.png"], "several"),
    ):
        with pytest.raises(ConfigError, match=f"^--coco_ids=.*true.json: {said}"):
            formats.read_ids(str(path), files, model)
    with pytest.raises(
        ConfigError, match="has bar, square, other, but no category cat of the model"
    ):
        formats.read_ids(str(path), ["0.png"], types.SimpleNamespace(class_names=["cat"]))


def test_coco_model_categories_keep_their_ids():
    model = types.SimpleNamespace(
        class_names=["square", "bar", "new"], category_ids={"bar": 44, "square": 1}
    )
    assert formats.read_ids("", ["a", "b"], model) == ([1, 2], {"square": 1, "bar": 44, "new": 2})


def test_voc_as_other_tools_read_it():
    """Whole numbers, and the box at the fifth place of an object."""
    boxes = (Box("cat", 0.87654, 0.4, 83.6, 10.2, 99.7), Box("dog", 0.5, 19.6, 39.2, 20, 40))
    root = ET.fromstring(formats.voc(Detected("x/a.png", 20, 100, boxes)))
    first, second = root.findall("object")
    assert [part.tag for part in first] == [
        "name",
        "pose",
        "truncated",
        "difficult",
        "bndbox",
        "score",
    ]
    assert [part.text for part in first if len(part) == 0] == [
        "cat",
        "Unspecified",
        "0",
        "0",
        "0.8765",
    ]
    assert [(edge.tag, int(edge.text)) for edge in first[4]] == [
        ("xmin", 85),
        ("ymin", 1),
        ("xmax", 100),
        ("ymax", 10),
    ]
    assert [int(edge.text) for edge in second[4]] == [
        40,
        19,
        41,
        20,
    ], "less than a pixel is a box of two"


@pytest.mark.slow
def test_voc(model, folder, tmp_path):
    predict(PredictConfig(model, str(folder), f"{tmp_path}/voc/", least_score=0.1))
    assert sorted(path.name for path in (tmp_path / "voc").iterdir()) == [
        "0.xml",
        "1.xml",
        "2.xml",
        "2b.xml",
        "3.xml",
    ]
    read = voc.parse((tmp_path / "voc/1.xml").read_bytes())
    assert read.names == ["bar"]
    assert read.boxes == [[3, 5, 10, 20]]  # as `write_boxes` has it
    assert (read.size, read.filename) == ((32, 32), "1.png")


@pytest.mark.parametrize("scores", [False, True])
def test_yolo(scores):
    boxes = (Box("dog", 0.87654, 10, 50, 20, 100), Box("cat", 0.5, 0, 0, 5, 25))
    lines = formats.yolo(
        Detected("x/a.png", 20, 100, boxes), {"cat": 0, "dog": 1}, scores
    ).splitlines()
    assert [line.split()[5:] for line in lines] == (
        [["0.8765"], ["0.5000"]] if scores else [[], []]
    )
    assert lines[0].startswith("1 0.750000 0.750000 0.500000 0.500000")
    read = yolo.parse("\n".join(lines).encode())
    assert (read.labels, read.boxes) == ([1, 0], [[0.5, 0.5, 1, 1], [0, 0, 0.25, 0.25]])


@pytest.mark.slow
def test_yolo_can_be_learned_from(model, folder, tmp_path):
    """What a person corrects and gives back as --boxes: the folder, with the images beside the
    texts.
    """
    predict(
        PredictConfig(model, str(folder), f"{tmp_path}/yolo", least_score=0.1, boxes_format="yolo")
    )
    assert sorted(path.name for path in (tmp_path / "yolo/labels").iterdir()) == [
        f"{n}.txt" for n in ("0", "1", "2", "2b", "3")
    ]
    (tmp_path / "yolo/images").mkdir()
    for name in ("0.png", "1.png", "2.png", "2b.png", "3.png"):
        (tmp_path / "yolo/images" / name).write_bytes((folder / name).read_bytes())
    assert layout.format_of(f"{tmp_path}/yolo") == (
        "yolo",
        "5 text files with the names of images",
    )
    read = yolo.read(DataConfig(dataset=f"yolo:{tmp_path}/yolo"))
    assert read.class_names == ("bar", "square")
    assert read.annotations["1"].names == ["bar"]
    np.testing.assert_allclose(32 * np.array(read.annotations["1"].boxes), [BAR])


def test_the_drawings(found, folder):
    out, _ = found
    drawn = np.asarray(Image.open(out / "drawn/2b.jpg")).astype(int)
    assert drawn.shape == (40, 20, 3)
    plain = np.asarray(Image.open(folder / "0.png")).astype(int)
    changed = np.abs(np.asarray(Image.open(out / "drawn/0.jpg")).astype(int) - plain).sum(-1) > 120
    assert changed[17, 4:20].mean() > 0.9  # the lower edge of the box
    assert not changed[20:].any()
    bar = np.abs(
        np.asarray(Image.open(out / "drawn/1.jpg")).astype(int)
        - np.asarray(Image.open(folder / "1.png"))
    )
    assert bar.max() < 60, "a score of 0.4 is in the file, but below --drawn_score"
    assert (out / "sheet.png").read_bytes().startswith(b"\x89PNG")


def test_boxes_on_a_thumbnail_match_the_object():
    """An image twice as wide as high, on a square tile."""
    record = Detected("x", 100, 200, (Box("a", 0.9, 0, 100, 50, 200),))
    (box,) = run.on_thumbnail(record)
    assert box[2:] == (40, 80, 80, 160)


def test_box_smaller_than_a_pixel_is_drawn():
    styles = run.styles(["a", "\U0010ffff"])
    assert styles["\U0010ffff"].name == "class 1"  # no font has this letter
    drawn = run.boxes_on(
        np.zeros([20, 30, 3], np.uint8), [Box("a", 0.9, 5, 7, 5.4, 7.4)], styles, named=False
    )
    assert [5, 7] in np.argwhere(drawn.any(-1)).tolist()


@pytest.mark.slow
def test_16_bit_pictures_are_seen_as_in_training(tmp_path):
    pixels = np.full([20, 30], 500, np.uint16)
    pixels[4:10, 5:25] = 1000  # white among values of 0 to 1000
    Image.fromarray(pixels).save(tmp_path / "deep.png")
    (found,) = predict(
        PredictConfig(write_detector(tmp_path / "model", [0, 1000]), f"{tmp_path}/deep.png")
    )
    assert [box[2:] for box in found.boxes] == [(4, 5, 10, 25)]


def test_pictures_with_the_same_place_are_refused(model, folder, tmp_path):
    for name in ("a.png", "a.jpg"):
        (tmp_path / name).write_bytes((folder / "0.png").read_bytes())
    for options in ({"drawn": f"{tmp_path}/drawn"}, {"output": f"{tmp_path}/voc"}):
        with pytest.raises(ConfigError, match=r"a.jpg and a.png differ in their endings only"):
            predict(PredictConfig(model, str(tmp_path), **options))
