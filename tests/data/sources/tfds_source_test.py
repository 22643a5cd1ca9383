"""TFDS builders: names, splits, labels, concurrent preparation."""

import pathlib

import pytest
import tensorflow_datasets as tfds
from absl import logging

from cpc_tf.data.pipeline import fetch
from cpc_tf.data.sources import photos, tfds_source
from cpc_tf.data.sources.tfds_source import TfdsSource
from cpc_tf.settings import ConfigError


def open_builder(name, data_dir, split):
    return TfdsSource(tfds_source.find(name, data_dir), split, window=100)


def labels(source):
    return [int(example["label"]) for example in source.ordered()]


def test_labels_and_class_names(sharded):
    source = TfdsSource(sharded(3, 2), "train", window=4)
    assert source.class_names == ("0", "1", "2")
    assert labels(source) == [0, 1, 2, 0, 1]


def test_prepared_builder_is_opened_by_name_with_subsplit(photos_dir):
    source = open_builder("photos/19", photos_dir, "train[:10%]")
    assert source.num_examples == 380
    assert source.class_names == photos.CLASSES
    part = labels(source)
    assert part == labels(open_builder("photos/19", photos_dir, "train"))[:380]
    both = open_builder("photos/19", photos_dir, "train[:5]+test[5:7]")
    assert len(labels(both)) == both.num_examples == 7


def test_unlabelled_split_has_no_classes(photos_dir):
    source = open_builder("photos/19", photos_dir, "unlabelled[:50%]")
    assert source.class_names == ()
    assert labels(source) == [-1] * source.num_examples


@pytest.mark.parametrize("split", ["valid", "train[:0%]", "train[", "", "train[:10%"])
def test_bad_split_names_the_flag_and_its_value(photos_dir, split):
    with pytest.raises(ConfigError, match=f"^--split={split}: ".replace("[", r"\[")) as error:
        open_builder("photos/19", photos_dir, split)
    assert "\n" not in str(error.value)


def test_absent_split_says_which_there_are(photos_dir):
    with pytest.raises(ConfigError, match="^--split=valid: photos has the splits test, train, unlabelled$"):
        open_builder("photos/19", photos_dir, "valid")


def test_unknown_name_hints_at_a_close_one(tmp_path):
    with pytest.raises(ConfigError, match="^--dataset=cifar11: no such dataset; did you mean cifar10") as error:
        open_builder("cifar11", str(tmp_path), "train")
    assert "\n" not in str(error.value)


def test_a_damaged_file_of_records_is_named(sharded):
    source = TfdsSource(sharded(3, 2), "train", window=4)
    assert source.damaged() == []
    path = pathlib.Path(source._files[1])
    sound = path.read_bytes()
    path.write_bytes(sound[:40] + bytes([sound[40] ^ 1]) + sound[41:])
    said = rf"^{path}: cannot be read to the end; move the folder away"
    with pytest.raises(ConfigError, match=said), fetch.fetching(source):
        labels(source)
    path.write_bytes(sound)


def test_builder_without_images(sharded):
    builder = sharded(1)
    builder.info.features = tfds.features.FeaturesDict({"text": tfds.features.Text()})
    with pytest.raises(ConfigError, match="^--dataset=sharded: has no images, its features are text$"):
        TfdsSource(builder, "train", window=1)


def test_other_image_feature_without_label(sharded):
    builder = sharded(1)
    builder.info.features = tfds.features.FeaturesDict(
        {"picture": tfds.features.Image(), "label": tfds.features.Text()}
    )
    source = TfdsSource(builder, "train", window=1)
    assert source.class_names == ()


def new_builder(data_dir):
    config = photos.PhotosConfig(name="tiny", unlabelled=2)
    with tfds_source.quiet():
        return photos.Photos(config=config, data_dir=str(data_dir))


@pytest.fixture
def few_crops(monkeypatch):
    monkeypatch.setattr(photos, "TRAIN_PER_CLASS", 1)
    monkeypatch.setattr(photos, "TEST_PER_CLASS", 1)


@pytest.mark.usefixtures("few_crops")
def test_other_process_is_done_while_this_one_prepares(tmp_path, monkeypatch):
    late = new_builder(tmp_path)
    write = late._download_and_prepare

    def other_is_faster(**kwargs):
        new_builder(tmp_path).download_and_prepare()
        write(**kwargs)

    monkeypatch.setattr(late, "_download_and_prepare", other_is_faster)
    source = TfdsSource(tfds_source.prepare(late, progress=False), "train", window=7)
    assert len(labels(source)) == 19
    assert [path.name for path in (tmp_path / "photos" / "tiny").iterdir()] == ["1.0.0"], "nothing left aside"


@pytest.mark.usefixtures("few_crops")
def test_other_process_is_done_before_this_one_begins(tmp_path):
    late = new_builder(tmp_path)
    tfds_source.prepare(new_builder(tmp_path), progress=False)
    assert TfdsSource(tfds_source.prepare(late, progress=False), "test", window=7).num_examples == 19


@pytest.mark.usefixtures("few_crops")
def test_preparing_is_quiet(tmp_path, capfd):
    verbosity = logging.get_verbosity()
    tfds_source.prepare(new_builder(tmp_path), progress=False)
    out, err = capfd.readouterr()
    assert out == ""
    assert [line for line in err.splitlines() if "preparing dataset photos/tiny" not in line] == []
    assert logging.get_verbosity() == verbosity


@pytest.fixture
def shown(monkeypatch):
    """The warnings that a user sees: those of TFDS itself are muted, and are others in its next version."""

    def warn(message, *values):
        if logging.get_verbosity() >= logging.WARNING:
            found.append(message % values)

    found = []
    monkeypatch.setattr(logging, "warning", warn)
    return found


LONG = "see https://host/" + "x" * 200


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("no network", "no network"),
        ("no network\nat all\n", r"no network \(all of it is above\)"),
        (LONG, r"see https://host/x*\.\.\. .* \(all of it is above\)"),
    ],
)
def test_failed_preparation_is_one_line_after_all_that_was_said(tmp_path, monkeypatch, shown, said, error):
    builder = new_builder(tmp_path)
    monkeypatch.setattr(builder, "download_and_prepare", lambda: (_ for _ in ()).throw(OSError(said)))
    with pytest.raises(ConfigError, match=f"^--dataset=photos: cannot be prepared: {error}$"):
        tfds_source.prepare(builder)
    whole = [f"--dataset=photos: TensorFlow Datasets says:\n{said.strip()}"]
    assert shown == (whole if "above" in error else [])


def test_what_to_download_by_hand_is_said_whole(tmp_path, shown):
    with pytest.raises(ConfigError, match="^--dataset=imagenet2012: cannot be prepared: Manual directory ") as refused:
        tfds_source.find("imagenet2012", str(tmp_path))
    assert str(refused.value).isprintable()
    (said,) = shown
    assert {"ILSVRC2012_img_train.tar", "ILSVRC2012_img_val.tar."} <= set(said.split())
