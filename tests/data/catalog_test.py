"""From --dataset to a source."""

import pytest

from cpc_tf.data import catalog
from cpc_tf.data.config import DataConfig
from cpc_tf.data.sources import photos, tfds_source
from cpc_tf.data.sources.folder import FolderSource
from cpc_tf.data.sources.tfds_source import TfdsSource
from cpc_tf.settings import ConfigError


def test_photos_with_a_number(photos_dir):
    source = catalog.open_source("photos/19", photos_dir, "unlabelled", window=5)
    assert isinstance(source, TfdsSource)
    assert source.num_examples == 19


def test_photos_without_a_number_has_3800_unlabelled(tmp_path, monkeypatch):
    configs = []

    def only_look(builder, progress):
        configs.append(builder.builder_config)
        raise ConfigError("seen")

    monkeypatch.setattr(tfds_source, "prepare", only_look)
    for dataset in ("photos", "photos/3800", "photos/20000"):
        with pytest.raises(ConfigError, match="seen"):
            catalog.open_source(dataset, str(tmp_path))
    assert [(config.name, config.unlabelled) for config in configs] == [
        ("3800", 3800),
        ("3800", 3800),
        ("20000", 20000),
    ]
    assert photos.UNLABELLED == 3800


@pytest.mark.parametrize("dataset", ["photos/many", "photos/0", "photos/-1", "photos/1.5", "photos/10/2"])
def test_bad_number_of_photos(dataset, tmp_path):
    with pytest.raises(ConfigError, match=f"^--dataset={dataset}: after the slash"):
        catalog.open_source(dataset, str(tmp_path))


def test_folder(tmp_path, write_folder):
    root = write_folder(tmp_path / "with:colon", ["a.png", "b.png"])
    source = catalog.open_source(f"folder:{root}", str(tmp_path / "cache"))
    assert isinstance(source, FolderSource)
    assert source.num_examples == 2


def test_images_of_a_folder_with_boxes_have_no_labels(tmp_path, write_folder):
    write_folder(tmp_path / "voc" / "JPEGImages", ["a.png", "b.png"])
    dataset = f"voc:{tmp_path / 'voc'}"
    source = catalog.open_source(dataset, str(tmp_path / "cache"))
    assert isinstance(source, FolderSource)
    assert source.num_examples == 2
    data = DataConfig(dataset=dataset, data_dir=str(tmp_path / "cache"))
    with pytest.raises(ConfigError, match=r"^--train_on=train: no labels there in --dataset=voc:.*/voc; a classifier"):
        catalog.open_labelled(data, "train", "train_on")
    with pytest.raises(ConfigError, match=r"^--dataset=voc:.*/nowhere: no such folder"):
        catalog.open_source(f"voc:{tmp_path}/nowhere")


def test_tfds_name(photos_dir):
    source = catalog.open_source("photos/19", photos_dir, "test")
    same = TfdsSource(tfds_source.find("photos/19", photos_dir), "test", window=5)
    assert source.num_examples == same.num_examples == 950


def test_splits_of_tfds_are_compared_by_their_labels(photos_dir):
    data = DataConfig(dataset="photos/19", data_dir=photos_dir)
    pair = catalog.open_pair(data, "test")
    assert (pair.source.num_examples, pair.test_source.num_examples) == (3800, 950)
    assert pair.summary.split("\n")[1].startswith(
        "  --split=train: 3800 pictures of 19 classes, 200 of each: astronaut"
    )
    assert pair.summary.split("\n")[3:] == [
        "  not used: 19 pictures without labels; pre-training takes them by --split=unlabelled"
    ]
    few = DataConfig(dataset="photos/19", data_dir=photos_dir, split="train[:3]")
    with pytest.raises(
        ConfigError, match=r"^--test_split=test: pictures of (16|17|18) classes that --split=train\[:3\] has"
    ):
        catalog.open_pair(few, "test")


def test_labels_of_large_tfds_are_not_counted(photos_dir, monkeypatch):
    monkeypatch.setattr(tfds_source, "_MOST_COUNTED", 0)
    monkeypatch.setattr(tfds_source.TfdsSource, "labels", None)
    lines = catalog.open_pair(DataConfig(dataset="photos/19", data_dir=photos_dir), "test").summary.split("\n")
    assert lines[1].startswith("  --split=train: 3800 pictures of 19 classes, not counted")
    assert "whether both splits have the same classes is not known" in lines[3]


def test_unknown_name(tmp_path):
    with pytest.raises(ConfigError, match="^--dataset=photo: no such dataset"):
        catalog.open_source("photo", str(tmp_path))
