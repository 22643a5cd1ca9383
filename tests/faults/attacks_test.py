"""Files of strangers that would run code, reach outside their folder or fill the memory, and
hostile names.

What has a test beside the code that it attacks is not repeated here: Keras files
(refusals_test.py), files for a classifier (export/classifier_test.py), XML with entities, links in
folders, formulas (texts_test.py).
"""

import html.parser
import json
import struct
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from PIL import Image

from cpc_tf.boxes import yolo
from cpc_tf.core.texts import csv_records
from cpc_tf.data import labels, pictures
from cpc_tf.drawing import predictions
from cpc_tf.evaluation.predictions import predictions_csv, read_predictions
from cpc_tf.report import page
from cpc_tf.report.runs import collect
from cpc_tf.use import formats
from cpc_tf.use.formats import Ids
from cpc_tf.use.model import Box, Detected, Prediction
from tests.attacks import declared_gif, declared_png, lying_png
from tests.data.samples import encode
from tests.report import samples

pytestmark = pytest.mark.drawn
SIDE = 60_000
HOSTILE = [
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "]]><x/>",
    "&lt;",
    "$(touch x)",
    "a\u2028b",
    "a\x01\nb",
]


def declared(kind):
    """A small file that says that it has 3,600 megapixels."""
    data = bytearray(encode(np.zeros([8, 8, 3], np.uint8), kind))
    if kind == "PNG":
        return declared_png(SIDE, SIDE)
    if kind == "GIF":
        return declared_gif((4, 4), *[(SIDE, SIDE)] * 3)
    if kind == "BMP":
        data[18:26] = struct.pack("<ii", SIDE, SIDE)
    if kind == "JPEG":
        place = data.index(b"\xff\xc0") + 5
        data[place : place + 4] = struct.pack(">HH", SIDE, SIDE)
    if kind == "TIFF":
        for tag in (256, 257):
            place = data.index(struct.pack("<HHI", tag, 4, 1)) + 8
            data[place : place + 4] = struct.pack("<I", SIDE)
    return bytes(data)


def test_huge_declared_sizes_are_not_decoded(tmp_path):
    kinds = ("PNG", "GIF", "BMP", "JPEG", "TIFF")
    for kind in kinds:
        (tmp_path / f"{kind}.png").write_bytes(declared(kind))
    (batch,) = pictures.batches(pictures.find(str(tmp_path)), lambda image: image, 1)
    assert set(batch.broken.values()) == {"has 3600 megapixels, and less than 100 are decoded"}
    assert len(batch.broken) == len(kinds)


def test_png_with_misplaced_header_is_not_decoded(tmp_path):
    (tmp_path / "1.png").write_bytes(lying_png(encode(np.zeros([8, 8, 3], np.uint8))))
    (batch,) = pictures.batches(pictures.find(str(tmp_path)), lambda image: image, 1)
    assert batch.broken == {0: "cannot be decoded: a PNG that is damaged"}


def test_a_huge_file_is_not_read(tmp_path):
    (tmp_path / "1.png").write_bytes(encode(np.zeros([8, 8, 3], np.uint8)))
    with open(tmp_path / "2.png", "wb") as file:
        file.truncate(900_000_000)
    batch, rest = pictures.batches(pictures.find(str(tmp_path)), lambda image: image, 1)
    assert (batch.indices.tolist(), batch.broken) == ([0], {})
    assert rest.broken == {1: "has 900 MB, and less than 800 are read"}


@pytest.mark.parametrize(
    "name", ["../../x.jpg", "/etc/x.jpg", "a/../../x.jpg", "a//./x.jpg", "gs:/../x.jpg"]
)
def test_drawn_images_stay_in_their_folder(tmp_path, name):
    place = (tmp_path / formats.place(str(tmp_path), name, ".jpg")).resolve()
    assert place.is_relative_to(tmp_path)
    assert place.name == "x.jpg"


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_text_in_each_format(name):
    box = Box(name, 0.5, 0, 0, 4, 4)
    found = Detected(f"{name}.jpg", 9, 9, (box,))
    root = ET.fromstring(formats.voc(found))
    assert [each.tag for each in root] == ["filename", "size", "object"]
    assert root.find("object/name").text == formats.escaped(name)
    coco = json.loads(formats.coco([found], Ids([1], {name: 1})))
    assert (coco["images"][0]["file_name"], coco["categories"][0]["name"]) == (f"{name}.jpg", name)
    record = Prediction(f"{name}.jpg", (name,), (0.5,))
    line = formats.to_line(record).encode()
    assert line.count(b"\n") == 1
    assert json.loads(line)["labels"] == [name]
    assert csv_records([{"name": name}]).count("\n") == 2 + name.count("\n")


@pytest.mark.slow
def test_hostile_names_are_escaped_on_page_and_sheet(tmp_path):
    """Of classes, files, datasets and runs."""
    names = [*HOSTILE, "=cmd|' /C calc'!A0", "$\\frac{$"]
    logits, labels = np.eye(len(names)), np.roll(np.arange(len(names)), 1)
    table = predictions_csv([f"{name}.png" for name in names], logits, labels, names)
    assert not [line for line in table.splitlines() if line.startswith("=")]
    found = {"dataset": names[0], "class_names": names, "num_classes": len(names)}
    samples.write(
        tmp_path / "runs/<img src=x onerror=alert(1)>",
        samples.efficient(**found),
        predictions__csv=table,
    )
    drawn = predictions.draw(
        read_predictions(table, names),
        lambda indices: np.zeros([len(indices), 8, 8, 3], np.uint8),
        names,
    )
    assert drawn.startswith(b"\x89PNG")
    made = page.files(*collect(str(tmp_path / "runs"), page.REPORTS), "<svg onload=alert(1)>")
    text = made["report.html"]
    assert "onerror" in text
    tags = []
    parser = html.parser.HTMLParser()
    parser.handle_starttag = lambda tag, attributes: tags.append((tag, dict(attributes)))
    parser.feed(text)
    assert not [
        tag
        for tag, attributes in tags
        if tag in ("svg", "x") or {"onerror", "onload"} & {*attributes}
    ]
    assert all(
        attributes["src"].startswith("data:image/png;") for tag, attributes in tags if tag == "img"
    )
    assert not [
        line
        for name in made
        if name.endswith(".csv")
        for line in made[name].splitlines()
        if line[0] == "="
    ]


@pytest.mark.parametrize("name", ["../outside.jpg", "/etc/passwd", "a/../../outside.jpg"])
def test_a_table_names_pictures_of_its_folder_only(name):
    assert labels.match("x.csv", labels.Content({name: ("cat",)}), ["1.jpg", "a/2.jpg"]).absent == [
        name
    ]


def test_a_list_of_pictures_is_no_command(tmp_path):
    Image.new("RGB", (4, 4)).save(tmp_path / "1.png")
    names = [
        "$(touch evil).png",
        "; touch evil",
        "| touch evil",
        "-rf",
        "file:///etc/passwd",
        "http://127.0.0.1/x.png",
    ]
    (tmp_path / "list.txt").write_text("\n".join([f"{tmp_path}/1.png", *names]))
    found = [*pictures.batches(pictures.find(f"{tmp_path}/list.txt"), lambda image: image, 1)]
    broken = {i: why for batch in found for i, why in batch.broken.items()}
    assert [*broken] == [1, 2, 3, 4, 5, 6]
    assert not [*tmp_path.glob("**/evil*")]


def test_yaml_makes_no_objects(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (
        "train: !!python/object/apply:os.system ['touch evil']\nnames: [!!python/name:os.system"
        " cat]\n"
    )
    found = yolo.parse_yaml(text)
    assert all(isinstance(each, str) for pairs in found.values() for pair in pairs for each in pair)
    assert not [*tmp_path.iterdir()]
    with pytest.raises(ValueError, match="recursive"):
        yolo.parse_yaml("names: &a [*a]")
