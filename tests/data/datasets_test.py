"""TFDS builders: names, splits, labels, concurrent preparation."""

import os
import pathlib
import threading
import time
import types

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds
from absl import logging
from tensorflow_datasets.core.utils import tqdm_utils

from cpc_tf.boxes.source import VocRecords
from cpc_tf.core.files import remove_leftovers
from cpc_tf.core.settings import ConfigError
from cpc_tf.data import datasets, photos, pipeline
from cpc_tf.data.datasets import TfdsSource


def open_builder(name, data_dir, split):
    return TfdsSource(datasets.find(name, data_dir), split, window=100)


def labels(source):
    return [int(example["label"]) for example in source.ordered()]


@pytest.mark.slow
def test_prepared_builder_is_opened_by_name_with_subsplit(photos_dir):
    source = open_builder("photos/19", photos_dir, "train[:10%]")
    assert source.num_examples == 38
    assert source.class_names == photos.CLASSES
    part = labels(source)
    assert part == labels(open_builder("photos/19", photos_dir, "train"))[:38]
    both = open_builder("photos/19", photos_dir, "train[:5]+test[5:7]")
    assert len(labels(both)) == both.num_examples == 7
    without = open_builder("photos/19", photos_dir, "unlabelled[:50%]")
    assert without.class_names == ()
    assert labels(without) == [-1] * without.num_examples


@pytest.mark.parametrize("split", ["valid", "train[:0%]", "train[", "", "train[:10%"])
def test_bad_split_names_the_flag_and_its_value(photos_dir, split, refused):
    said = refused(open_builder, "photos/19", photos_dir, split)
    assert said.startswith(f"--split={split}: ")
    if split == "valid":
        assert said.endswith(": photos has the splits test, train, unlabelled")


def test_unknown_name_hints_at_a_close_one(tmp_path, refused):
    said = refused(open_builder, "cifar11", str(tmp_path), "train")
    assert said.startswith("--dataset=cifar11: no such dataset; did you mean cifar10")


@pytest.mark.slow
def test_a_damaged_file_of_records_is_named(sharded):
    source = TfdsSource(sharded(3, 2), "train", window=4)
    assert source.damaged() == []
    path = pathlib.Path(source._files[1])
    sound = path.read_bytes()
    path.write_bytes(sound[:40] + bytes([sound[40] ^ 1]) + sound[41:])
    said = rf"^{path}: is truncated; move the folder away"
    with pytest.raises(ConfigError, match=said), pipeline.fetching(source):
        labels(source)
    path.write_bytes(sound)


@pytest.mark.slow
def test_several_files_are_read_at_the_same_time(sharded, monkeypatch):
    """Each record waits until a record of another file has been read, too."""
    source, read, meeting = (
        TfdsSource(sharded(3, 3), "train", window=12),
        tf.data.TFRecordDataset,
        threading.Barrier(2),
    )

    def meet():
        meeting.wait(timeout=60)
        return True

    def waiting(*arguments, **options):
        return read(*arguments, **options).filter(
            lambda record: tf.numpy_function(meet, [], tf.bool)
        )

    monkeypatch.setattr(tf.data, "TFRecordDataset", waiting)
    assert len(list(source.stream(seed=0).take(6))) == 6


@pytest.mark.slow
def test_the_order_of_a_seed_does_not_change(sharded):
    """A run of an earlier version goes on with the images that it would have seen."""
    source = TfdsSource(sharded(4, 3, 5), "train", window=9)
    got = [
        int(tf.io.decode_png(example["encoded"])[0, 0, 0])
        for example in source.stream(seed=7).take(24)
    ]
    assert got == [0, 6, 4, 1, 2, 7, 8, 5, 3, 10, 9, 11, 7, 2, 10, 3, 11, 8, 1, 0, 9, 5, 4, 6]


TEXT = tfds.features.Text()
FLOATS = tfds.features.Image(shape=(9, 7, 1), dtype=np.float32)


def test_other_features(sharded):
    builder = sharded(1)
    for make, features, message in (
        (TfdsSource, {"text": TEXT}, "has no images, its features are text"),
        (
            TfdsSource,
            {"image": FLOATS},
            "its images are float32; only uint8 and uint16 can be read",
        ),
        (VocRecords, {"image": FLOATS}, "lacks 'objects', a feature of voc"),
    ):
        builder.info.features = tfds.features.FeaturesDict(features)
        with pytest.raises(ConfigError, match=f"^--dataset=sharded: {message}$"):
            make(builder, "train", window=1)
    builder.info.features = tfds.features.FeaturesDict(
        {"picture": tfds.features.Image(), "label": TEXT}
    )
    assert TfdsSource(builder, "train", window=1).class_names == ()


def new_builder(data_dir):
    config = photos.PhotosConfig(name="tiny", unlabelled=2)
    with datasets.quiet():
        return photos.Photos(config=config, data_dir=str(data_dir))


@pytest.fixture
def few_crops(monkeypatch):
    monkeypatch.setattr(photos, "TRAIN_PER_CLASS", 1)
    monkeypatch.setattr(photos, "TEST_PER_CLASS", 1)


@pytest.mark.slow
@pytest.mark.usefixtures("few_crops")
def test_other_process_is_done_while_this_one_prepares(tmp_path, monkeypatch):
    late = new_builder(tmp_path)
    write = late._download_and_prepare

    def other_is_faster(**kwargs):
        new_builder(tmp_path).download_and_prepare()
        write(**kwargs)

    monkeypatch.setattr(late, "_download_and_prepare", other_is_faster)
    source = TfdsSource(datasets.prepare(late, progress=False), "train", window=7)
    assert len(labels(source)) == 19
    assert [path.name for path in (tmp_path / "photos" / "tiny").iterdir()] == ["1.0.0"], (
        "nothing left aside"
    )


@pytest.mark.slow
@pytest.mark.usefixtures("few_crops")
def test_preparing_says_one_line(tmp_path, capfd):
    verbosity, late = logging.get_verbosity(), new_builder(tmp_path)
    datasets.prepare(new_builder(tmp_path), progress=False)
    # which was not there yet
    assert datasets.prepare(late, progress=False).info.splits["test"].num_examples == 19
    out, err = capfd.readouterr()
    assert (
        out.splitlines()
        == [f"preparing dataset photos/tiny/1.0.0 in {tmp_path}/photos/tiny/1.0.0"] * 2
    )
    assert err == ""
    assert logging.get_verbosity() == verbosity


LONG = "see https://host/" + "x" * 200


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("no network", "no network"),
        ("no network\nat all\n", r"no network \(all of it is above\)"),
        (LONG, r"see https://host/x*\.\.\. .* \(all of it is above\)"),
    ],
)
def test_failed_preparation_is_one_line_after_its_output(
    tmp_path, monkeypatch, warnings, said, error
):
    builder = new_builder(tmp_path)
    monkeypatch.setattr(
        builder, "download_and_prepare", lambda: (_ for _ in ()).throw(OSError(said))
    )
    with pytest.raises(ConfigError, match=f"^--dataset=photos: cannot be prepared: {error}$"):
        datasets.prepare(builder)
    whole = [f"--dataset=photos: TensorFlow Datasets says:\n{said.strip()}"]
    assert warnings == (whole if "above" in error else [])


def test_what_to_download_by_hand_is_said_whole(tmp_path, warnings):
    with pytest.raises(
        ConfigError, match="^--dataset=imagenet2012: cannot be prepared: Manual directory "
    ) as refused:
        datasets.find("imagenet2012", str(tmp_path))
    assert str(refused.value).isprintable()
    (said,) = warnings
    assert {"ILSVRC2012_img_train.tar", "ILSVRC2012_img_val.tar."} <= set(said.split())


def test_leftovers_of_killed_preparations_are_removed(tmp_path, refused):
    def prepare():
        (tmp_path / "1.0.0").mkdir(exist_ok=True)
        raise ValueError("enough of it")

    builder = types.SimpleNamespace(
        name="made",
        data_dir=str(tmp_path / "1.0.0"),
        info=types.SimpleNamespace(full_name="made", splits={}),
    )
    builder.is_prepared, builder.download_and_prepare = (lambda: False), prepare
    outside, hours_ago = tmp_path / "outside", time.time() - 2 * 3600
    outside.mkdir()
    (outside / "precious").write_text("")
    for name in ("1.0.0.incompleteABCDEF", "1.0.0.incompleteGHIJKL", "1.0.1.incompleteABCDEF"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "link").symlink_to(outside)
        (tmp_path / name / "shard").write_text("")
        os.utime(tmp_path / name / "shard", (hours_ago, hours_ago))
        os.utime(tmp_path / name, (hours_ago, hours_ago))
    os.utime(outside / "precious", (hours_ago, hours_ago))
    os.utime(tmp_path / "1.0.0.incompleteGHIJKL/shard")  # at work
    refused(datasets.prepare, builder)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"1.0.0", "1.0.0.incompleteGHIJKL", "1.0.1.incompleteABCDEF", "outside"}
    assert (outside / "precious").exists()
    remove_leftovers(str(tmp_path / "nowhere"), ".*")  # no error


@pytest.mark.parametrize("shown", [True, False])
def test_progress_bars_keep_the_user_setting(shown, monkeypatch):
    monkeypatch.setattr(tqdm_utils, "_active", shown)
    for progress in (True, False):
        with datasets.quiet(progress):
            assert tqdm_utils._active is (shown and progress)
        assert tqdm_utils._active is shown
