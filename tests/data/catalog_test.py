"""From --dataset to a source: every kind is opened (refusals: tests/refusals_test.py); the summary
of the data.
"""

import pytest

from cpc_tf.boxes.catalog import BoxesFolder
from cpc_tf.core.settings import ConfigError
from cpc_tf.data import catalog, datasets
from cpc_tf.data.catalog import SplitSummary, summarized
from cpc_tf.data.config import DataConfig
from cpc_tf.data.datasets import TfdsSource
from cpc_tf.data.folder import FolderSource
from cpc_tf.data.source import SplitInfo
from tests import samples
from tests.boxes.samples import open_boxes

pytestmark = pytest.mark.usefixtures("unchecked")


def images(dataset, data_dir="", split="train", **settings):
    return catalog.open_source(
        DataConfig(dataset=dataset, data_dir=str(data_dir), **settings), split
    )


def boxes(dataset, data_dir="", split="train", *arguments):
    return open_boxes(DataConfig(dataset=dataset, data_dir=str(data_dir)), split, *arguments)


@pytest.mark.slow
def test_folders(tmp_path, cache):
    root = samples.write_boxes(tmp_path / "with:colon")
    for source, kind in (
        (images(f"folder:{root}", cache), FolderSource),
        (images(f"voc:{root}", cache, "train+test"), FolderSource),
        (boxes(f"voc:{root}", cache), BoxesFolder),
    ):
        assert isinstance(source, kind)
        assert source.num_examples == 4
    with pytest.raises(
        ConfigError, match=r"^--train_on=train: no labels .* --dataset=voc:.*:colon; a classifier"
    ):
        catalog.open_labelled(
            DataConfig(dataset=f"voc:{root}", data_dir=cache), "train", "train_on"
        )
    with pytest.raises(ConfigError, match="^--test_split=extra: voc:.*:colon has train"):
        boxes(f"voc:{root}", cache, "extra", "test_split")


def test_a_number_is_the_size_of_a_split(tmp_path, monkeypatch):
    found = []

    def only_look(builder, progress):
        found.append(builder.builder_config)
        raise ConfigError("seen")

    monkeypatch.setattr(datasets, "prepare", only_look)
    for make, dataset, name, size in (
        (images, "photos", "3800", 3800),
        (images, "photos/20000", "20000", 20000),
        (boxes, "collages", "600_200", 600),
        (boxes, "collages/20", "20_200", 20),
    ):
        with pytest.raises(ConfigError, match="seen"):
            make(dataset, tmp_path)
        config = found.pop()
        assert (config.name, getattr(config, "unlabelled", 0) or config.train) == (name, size)


@pytest.mark.slow
def test_splits_of_tfds_are_compared_by_their_labels(photos_dir, monkeypatch):
    pair = catalog.open_pair(DataConfig(dataset="photos/19", data_dir=photos_dir), "test")
    assert (pair.source.num_examples, pair.test_source.num_examples) == (380, 95)
    lines = pair.summary.split("\n")
    assert lines[1].startswith("  --split=train: 380 images of 19 classes, 20 of each: astronaut")
    assert lines[3:] == [
        "  not used: 19 images without labels; pre-training takes them by --split=unlabelled"
    ]
    held_out = catalog.open_pair(
        DataConfig(dataset="photos/19", data_dir=photos_dir), "test", "train[100:140]"
    )
    every, (some, tested) = [*held_out.source.identities()], held_out[3:] + held_out[1:2]
    assert [every.index(each) for each in some.identities()] == [*range(100, 140)]
    assert some.labels().tolist() == held_out.source.labels()[100:140].tolist()
    assert not {*every} & {*tested.identities()}
    assert "--validation_split=train[100:140]: 40 images of" in held_out.summary
    few = DataConfig(dataset="photos/19", data_dir=photos_dir, split="train[:3]")
    said = r"^--test_split=test: images of (16|17|18) classes that --split=train\[:3\] lacks"
    with pytest.raises(ConfigError, match=said):
        catalog.open_pair(few, "test")
    with_unlabelled = DataConfig(
        dataset="photos/19", data_dir=photos_dir, split="train+unlabelled[:3]"
    )
    said = (
        r"^--split=train\+unlabelled\[:3\]: no labels in it, in .* \(unlabelled\[:3\] is a usual"
        r" name"
    )
    with pytest.raises(ConfigError, match=said):
        catalog.open_pair(with_unlabelled, "test")
    # to pre-train on
    assert catalog.open_source(with_unlabelled, with_unlabelled.split).num_examples == 383
    with monkeypatch.context() as patch:  # as where another name has label -1
        patch.setattr(datasets, "_UNLABELLED", ("other",))
        with pytest.raises(
            ConfigError,
            match="3 of 383 images have no label; a classifier needs a split in which all",
        ):
            catalog.open_pair(with_unlabelled, "test")
    # Labels in many records are not counted.
    monkeypatch.setattr(datasets, "_MOST_COUNTED", 0)
    monkeypatch.setattr(TfdsSource, "labels", None)
    lines = catalog.open_pair(
        DataConfig(dataset="photos/19", data_dir=photos_dir), "test"
    ).summary.split("\n")
    assert lines[1].startswith("  --split=train: 380 images of 19 classes, not counted")
    assert "not checked whether both splits have the same classes" in lines[3]


SPLITS = {"train": 50, "valid": 12, "extra": 3, "unlabelled": 200}


def test_what_is_used_and_what_is_not():
    train = SplitSummary(
        "split",
        "train",
        SplitInfo("train", SPLITS, ("left out: b", "holds: a")),
        48,
        {"cat": 20, "dog": 28},
    )
    valid = SplitSummary(
        "test_split", "val", SplitInfo("valid", SPLITS, ("holds: a",)), 12, {"cat": 12, "dog": 0}
    )
    assert summarized(
        DataConfig(dataset="folder:x"), [train, valid], ["learned but never tested: dog"]
    ).split("\n") == [
        "--dataset=folder:x",
        "  --split=train: 48 images of 2 classes: cat 20, dog 28",
        "  --test_split=val (found as valid): 12 images of 1 class: cat 12",
        "  left out: b",
        "  holds: a",
        "  learned but never tested: dog",
        "  not used: the split extra (3 images)",
        "  not used: 200 images without labels; pre-training takes them by --split=unlabelled",
    ]


def test_splits_of_tfds_syntax_are_used():
    about = SplitInfo("", {"train": 50, "validation": 9, "test": 12})
    text = summarized(
        DataConfig(), [SplitSummary("split", "train[:50%]+test", about, 37, classes=19)]
    )
    assert text.split("\n")[1:] == [
        (
            "  --split=train[:50%]+test: 37 images of 19 classes, not counted since all records"
            " would have to be read"
        ),
        "  not used: the split validation (9 images)",
    ]


def test_summary_has_at_most_twenty_printable_lines():
    used = [SplitSummary("split", "train", SplitInfo(), 1)]
    lines = summarized(
        DataConfig(dataset="folder:x"), used, [f"line {i}\x1b" * 400 for i in range(50)]
    )
    assert len(lines.split("\n")) == 20
    assert lines.endswith("  and 33 more lines")
    assert all(len(line) < 1000 and line.isprintable() for line in lines.split("\n"))
