"""`cpc-tf data`: what it prints of folders as people have them, and the table that it writes."""

import csv

import numpy as np
import pytest

from cpc_tf.core.settings import ConfigError
from cpc_tf.data import catalog
from cpc_tf.data.config import ImageConfig, PicturesConfig
from cpc_tf.encoders import features as encoder
from cpc_tf.encoders.features import Encoder
from cpc_tf.use.data import DataSummaryConfig, summarize
from tests.boxes.samples import CAT, pairs, xml
from tests.data.samples import encode, write_files


@pytest.fixture
def listed(tmp_path, capsys):
    """Writes {path: content}, a number for an image of this level; returns the lines printed and
    the table.
    """

    def listed(files, **settings):
        write_files(
            tmp_path / "x",
            {
                name: encode(np.full([4, 6, 3], own, np.uint8)) if isinstance(own, int) else own
                for name, own in files.items()
            },
        )
        settings = {
            name: str(own).replace("HERE", f"{tmp_path}/x") for name, own in settings.items()
        }
        module = settings.pop("encoder", "")
        data = PicturesConfig(data_dir=f"{tmp_path}/cache", **settings)
        summarize(DataSummaryConfig(output=f"{tmp_path}/table.csv", encoder=module, data=data))
        lines = capsys.readouterr().out.replace(f"{tmp_path}/", "").splitlines()
        with open(tmp_path / "table.csv") as file:
            return lines, [*csv.DictReader(file)]

    return listed


FOLDERS = {
    f"{name}/{i}.png": 20 * i + place for place, name in enumerate(("cat", "dog")) for i in range(5)
}


def test_class_folders(listed):
    lines, rows = listed({**FOLDERS, "dog/copy.png": 1}, labelled="HERE")
    assert lines[0] == "--labelled=x"
    assert lines[1:3] == [
        "  train: 9 images of 2 classes: cat 4, dog 5",
        "  test: 2 images of 2 classes: cat 1, dog 1",
    ]
    assert "  cpc-tf classify: all 11 labels of train, tested by cross-validation" in lines
    assert "  cpc-tf linear, efficient: 9 labels of train, tested on 2 of test" in lines
    assert "  height x width: from 4 x 6 to 4 x 6 px, median 4 x 6 px" in lines
    assert "  1 image is a copy of another, e.g. dog/copy.png (dog/0.png)" in lines
    assert lines[-1] == "done: table.csv (11 images)"
    assert {row["label"] for row in rows} == {"cat", "dog"}
    assert [row["copy_of"] for row in rows if row["file"] == "dog/copy.png"] == ["dog/0.png"]


def test_the_table_can_be_given_back_as_labels(listed, tmp_path):
    own = (
        "file,label,group\ncat/0.png,cat;dog,p1\ncat/1.png,no"
        " class,p1\ncat/2.png,,\ndog/0.png,dog,\n"
    )
    lines, rows = listed({**FOLDERS, "labels.csv": own}, labelled="HERE", labels="HERE/labels.csv")
    assert "  2 images are in 1 group of --labels" in lines
    assert "; 7 without a label" in lines[1]
    assert [row["label"] for row in rows][:4] == ["cat;dog", "no class", "", ""]
    again, rows_again = listed({}, labelled="HERE", labels=tmp_path / "table.csv")
    assert rows_again == rows
    assert again[1] == lines[1]
    assert (
        "columns of --labels that are not used: split, copy_of, height, width, bytes; splits are"
        " folders" in again[2]
    )


def test_nested_split_folders_have_the_training_classes(listed, tmp_path):
    """As Kaggle has them, with images of no class in one of the splits."""
    files = {
        f"seg_{split}/seg_{split}/{name}": own
        for split in ("train", "test")
        for name, own in FOLDERS.items()
    }
    files |= {f"seg_pred/seg_pred/{i}.png": 100 + i for i in range(2)}
    lines, _ = listed(files, labelled="HERE", top_folders="splits")
    assert lines[1] == "  seg_pred: 2 images; 2 without a label"
    assert lines[3] == "  seg_train: 10 images of 2 classes: cat 5, dog 5"
    data = PicturesConfig(
        labelled=f"{tmp_path}/x", top_folders="splits", data_dir=f"{tmp_path}/cache"
    )
    assert catalog.open_labelled(data, "seg_train", "split").class_counts().tolist() == [5, 5]


def test_copies_with_other_classes_are_named(listed):
    lines, _ = listed({**FOLDERS, "dog/also.png": 0, "cat/also.png": 20}, labelled="HERE")
    assert (
        "  1 image has another label than a copy: dog/also.png (cat/0.png); remove one of each, or"
        " correct its label" in lines
    )


def test_boxes(listed):
    files = {
        **pairs(*(f"JPEGImages/{i}" for i in range(10))),
        "Annotations/3.xml": xml(CAT, ("dog", *CAT[1:])),
    }
    lines, rows = listed(files, dataset="voc:HERE")
    assert lines[1] == "  train: 8 images, 9 boxes of 2 classes: cat 8, dog 1"
    assert lines[2] == "  test: 2 images, 2 boxes of 1 class: cat 2"
    assert [row["label"] for row in rows if row["file"] == "JPEGImages/3.png"] == ["cat;dog"]


def test_the_objects_of_a_folder_of_boxes(tmp_path, capsys):
    write_files(
        tmp_path / "x", pairs(*(f"{name}/{i}" for name in ("train", "valid") for i in range(3)))
    )
    summarize(
        DataSummaryConfig(boxes=f"{tmp_path}/x", data=PicturesConfig(data_dir=f"{tmp_path}/cache"))
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "  format: VOC, from 6 XML files with the names of images"
    # Boxes of 4 x 4 px in images of 8 x 12 px.
    start = "  objects to learn: sides of 4 to 4 px, median 4 px; objects as shown: "
    (line,) = (line for line in lines if line.startswith(start))
    assert "on a canvas of 224 x 352 px; --area_scale=" in line


class Pixels(Encoder):
    """The pixels are the features."""

    geometry = ImageConfig(resize=8, image_size=8)
    intensity_range, digest = None, "pixels"

    def __init__(self, path):
        assert path == "module"

    def prepare(self, image):
        return image

    def encode_batch(self, images):
        return images.reshape([len(images), -1]).astype(np.float32)


def test_pictures_of_the_test_that_are_nearly_learned(listed, monkeypatch):
    monkeypatch.setattr(encoder, "Encoder", Pixels)
    random = np.random.default_rng(0)
    # 378 numbers, which are projected
    one, *others = random.integers(0, 255, [6, 9, 14, 3], np.uint8)
    files = {f"train/cat/{i}.png": encode(pixels) for i, pixels in enumerate(others[:3])}
    # of one split: not told
    files |= {
        "train/cat/one.png": encode(one),
        "train/cat/two.png": encode(one ^ 2),
    }
    files |= {"test/cat/near.png": encode(one ^ 1), "test/cat/far.png": encode(others[4])}
    lines, _ = listed(files, labelled="HERE", encoder="module")
    (line,) = (line for line in lines if "nearly" in line)
    assert line.startswith(
        "  1 image is nearly the same as one of another split (cosine of their features at least"
        " 0.95), e.g. "
    )
    assert line.partition("e.g. ")[2].startswith("test/cat/near.png (train/cat/")
    assert line.endswith(", 1.00)")


def test_what_is_no_folder_is_refused(listed):
    with pytest.raises(
        ConfigError,
        match="^--dataset=photos: does not name your own images; name them by --labelled",
    ):
        listed({})
