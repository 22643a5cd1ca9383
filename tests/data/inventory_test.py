"""What tells the data of a run from others: files, their sizes, labels and boxes."""

import json
import os

import pytest

from cpc_tf.data import catalog
from cpc_tf.data.config import PicturesConfig
from cpc_tf.data.datasets import TfdsSource
from cpc_tf.detect.scoring import objects_of_classes
from tests import samples
from tests.boxes.samples import open_voc_folder
from tests.data.samples import open_folder


def test_files_have_their_sizes_and_labels(tmp_path):
    root = samples.write_pictures(tmp_path / "pictures", {"train": 1, "val": 1}, ("cat", "dog"))
    found = open_folder(root, cache=tmp_path / "cache").inventory()
    sizes = {
        name: (tmp_path / "pictures" / name).stat().st_size
        for name in ("train/cat/0.png", "train/dog/0.png")
    }
    assert found["files"] == {name: [size, name.split("/")[1]] for name, size in sizes.items()}
    assert (found["images"], found["classes"], found["edition"]) == (2, ["cat", "dog"], "")
    assert json.loads(json.dumps(found)) == found


def test_multi_label_image_has_one_mark(tmp_path):
    root = samples.write_pictures(tmp_path / "pictures", {"train": 1}, ("cat", "dog"))
    table = tmp_path / "labels.csv"
    marks = []
    for rows in ("cat/0.png,cat;out\ndog/0.png,dog\n", "cat/0.png,cat\ndog/0.png,dog;out\n"):
        table.write_text(rows)
        data = PicturesConfig(
            labelled=f"{root}/train", labels=str(table), data_dir=str(tmp_path / "cache")
        )
        files = catalog.open_labelled(data, "train", "split").inventory()["files"]
        marks.append([mark for _, mark in files.values()])
    assert marks == [["cat;out", "dog"], ["cat", "dog;out"]]


def test_changed_box_changes_the_mark_of_its_image(tmp_path, monkeypatch):
    root = tmp_path / "voc"
    samples.write_boxes(root)

    def opened():
        source = open_voc_folder(root, cache=tmp_path / "cache")
        found = source.inventory()
        return source, found["digest"], {name: mark for name, (_, mark) in found["files"].items()}

    source, digest, marks = opened()
    assert opened()[1] == digest
    assert len(marks) == 4
    # Names and objects are known without reading a file.
    monkeypatch.setattr(source, "ordered", None)
    assert (source.objects.names, objects_of_classes(source).tolist()) == (
        [*"0123"],
        [[2, 2], [0, 0]],
    )
    xml = root / "Annotations/1.xml"
    one_class = xml.read_text()
    xml.write_text(one_class.replace("<xmin>5", "<xmin>6"))
    moved = opened()[2]
    assert [name for name, mark in moved.items() if mark != marks[name]] == ["JPEGImages/1.png"]
    xml.write_text(one_class)
    other = root / "Annotations/3.xml"
    other.write_text(other.read_text().replace("bar", "aardvark"))  # the first of three classes now
    _, another, renamed = opened()
    assert [name for name, mark in renamed.items() if mark != marks[name]] == ["JPEGImages/3.png"]
    assert another != digest


@pytest.mark.slow
def test_records_are_known_by_their_edition_and_files(sharded):
    builder = sharded(3, 2, skip=1)
    found = TfdsSource(builder, "train", window=4).inventory()
    paths = [piece.filename for piece in builder.info.splits["train"].file_instructions]
    wanted = {
        f"{number}.tfrecord[1:{end}]": [os.stat(paths[number]).st_size, ""]
        for number, end in ((0, 4), (1, 3))
    }
    assert (found["edition"], found["images"], found["files"]) == ("sharded/1.0.0", 5, wanted)
