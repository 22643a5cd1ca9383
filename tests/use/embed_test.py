"""`cpc-tf embed`: features beside their files, and what is drawn and written of them."""

import csv
import dataclasses
import json
import shutil
import sys

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.core.settings import ConfigError
from cpc_tf.data import pictures, views
from cpc_tf.data.decode import decode
from cpc_tf.drawing import plots
from cpc_tf.encoders.config import EncoderConfig
from cpc_tf.encoders.features import Encoder
from cpc_tf.encoders.load import load_patch_encoder
from cpc_tf.use.embed import check, draw_neighbours, embed, write_features
from cpc_tf.use.embed_config import EmbedConfig
from tests.conftest import make_tiny
from tests.encoders.conftest import write_theirs
from tests.modules import GEOMETRY, write_card, write_module
from tests.samples import write_pictures

pytestmark = [pytest.mark.slow, pytest.mark.drawn]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    path = tmp_path_factory.mktemp("module") / "hub"
    with pytest.MonkeyPatch.context() as patch:
        make_tiny(patch)
        write_module(path, EncoderConfig(encoder="small"))
        yield str(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("own")
    write_pictures(root, {"a": 4})
    (root / "a/blue/copy.png").write_bytes((root / "a/green/2.png").read_bytes())
    (root / "a/empty.jpg").write_bytes(b"")
    (root / "others.csv").write_text("file,label\nb/no.png,red\n")
    (root / "classifier").mkdir()
    (root / "classifier/classifier.json").write_text("{}")
    return root


def rows(path):
    with open(path, newline="") as file:
        return list(csv.reader(file))


@pytest.fixture(scope="module")
def done(encoder, folder, tmp_path_factory):
    """(directory, what embed returned, what it told) of a call with all"""
    out, told = tmp_path_factory.mktemp("out"), []
    (out / "labels.csv").write_text(
        "file,label\na/red/0.png,red\na/red/1.png,red\na/green/1.png,green\na/no.png,red\n"
    )
    config = EmbedConfig(
        encoder=encoder,
        pictures=str(folder),
        output=f"{out}/features.npz",
        batch_size=5,
        map=f"{out}/map.png",
        labels=f"{out}/labels.csv",
        neighbours=f"{folder}/a/red/0.png",
        sheet=f"{out}/sheet.png",
        duplicates=f"{out}/repeats.csv",
        duplicate_similarity=0.9999,
        to_label=3,
        to_label_output=f"{out}/to_label.csv",
    )
    return out, embed(config, told.append), told


def test_features_are_those_of_picture_and_mirror_image(done, encoder, folder):
    out, found, told = done
    loaded = load_patch_encoder(encoder, patch_size=16, endpoint="feature_map")
    assert len(found.names) == 13
    for name, features in [*zip(found.names, found.features)][::5]:
        image = views.resize(decode((folder / name).read_bytes()), GEOMETRY.resize)
        image = tf.image.convert_image_dtype(
            views.centre_crop(image, GEOMETRY.image_size), "float32"
        )
        maps = loaded.outputs(tf.stack([image, image[:, ::-1]]))["feature_map"]
        np.testing.assert_allclose(features, tf.reduce_mean(maps, [0, 1, 2]), rtol=1e-4, atol=1e-5)
    assert "the mean of feature_map over an image of 16 x 16 px" in told[0]


def test_features_of_folder_come_from_the_cache(done, encoder, folder, monkeypatch):
    _, found, _ = done
    monkeypatch.setattr(Encoder, "encode_batch", None)
    again = embed(EmbedConfig(encoder, str(folder)))
    np.testing.assert_array_equal(again.features, found.features)
    assert again.broken == found.broken


def test_12_bit_images_are_scaled_by_the_card(encoder, folder, tmp_path):
    shutil.copytree(encoder, tmp_path / "hub")
    card = json.loads((tmp_path / "hub/encoder.json").read_text())
    (tmp_path / "hub/encoder.json").write_text(json.dumps({**card, "levels": [0, 4080]}))
    pixels = tf.io.decode_png((folder / "a/red/0.png").read_bytes())
    (tmp_path / "deep.png").write_bytes(tf.io.encode_png(16 * tf.cast(pixels, tf.uint16)).numpy())
    seen = Encoder(tmp_path / "hub")
    seen.encode_batch = lambda images: images
    deep, flat = seen.features([tmp_path / "deep.png", folder / "a/red/0.png"])


def test_the_file_of_features(done):
    out, found, _ = done
    saved = np.load(out / "features.npz")
    np.testing.assert_array_equal(saved["features"], found.features)
    assert saved["names"].tolist() == found.names
    assert saved["broken"].tolist() == ["a/empty.jpg"] == [*found.broken]
    write_features(f"{out}/features.csv", found.names, found.features, {}, "", "")
    header, *lines = rows(out / "features.csv")
    assert header[:2] == ["file", "feature_0"]
    assert [line[0] for line in lines] == found.names
    np.testing.assert_allclose(
        np.array([line[1:] for line in lines], float), found.features, rtol=1e-5
    )


def test_the_tables(done):
    out, found, _ = done
    assert rows(out / "repeats.csv") == [
        ["file", "repeats", "similarity"],
        ["a/green/2.png", "a/blue/copy.png", "1.0000"],
    ]
    header, *lines = rows(out / "to_label.csv")
    assert header == ["file", "label"]
    # not filled in
    check(EmbedConfig("module", "pictures", to_label=1, to_label_output=f"{out}/to_label.csv"))
    named = {name for name, label in lines if label == ""} & {*found.names}
    assert len(named) == 3
    assert not named & {"a/red/0.png", "a/red/1.png", "a/green/1.png"}  # which have a label


def test_the_drawings(done):
    out, _, told = done
    for name in ("map.png", "sheet.png"):
        assert (out / name).read_bytes().startswith(b"\x89PNG")
        assert any(name in line for line in told)


def test_images_with_undrawable_names_are_numbered_on_sheet(tmp_path, monkeypatch, caplog):
    for name in ("\u0623.png", "\u0628.png"):
        (tmp_path / name).write_bytes(tf.io.encode_png(np.zeros([4, 4, 3], np.uint8)).numpy())
    files, drawn = pictures.find(str(tmp_path)), []
    monkeypatch.setattr(plots, "tile", lambda axis, image, text, **_: drawn.append(text))
    draw_neighbours([(np.zeros([4, 4, 3], np.uint8), files.names[0], [(1, 0.5)])], files)
    assert drawn == ["image 0", "0.50\nimage 1"]
    assert "image 0 is \u0623.png, image 1 is \u0628.png" in caplog.text


def test_pictures_are_resized_as_in_pre_training(tmp_path):
    write_card(
        tmp_path, EncoderConfig(encoder="tiny"), dataclasses.replace(GEOMETRY, resize_mode="pad")
    )
    prepared = Encoder(f"random:{tmp_path}").prepare(tf.zeros([8, 16, 3], tf.uint8)).numpy()
    assert (prepared[:4] == views.GREY).all()
    assert (prepared[4:12] == 0).all()


def test_a_third_party_module_sees_whole_pictures(folder, tmp_path):
    write_theirs(tmp_path / "mean", lambda images: tf.reduce_mean(images, [1, 2]))
    told = []
    found = embed(
        EmbedConfig(str(tmp_path / "mean"), f"{folder}/a/red/0.png", image_size=20), told.append
    )
    image = decode((folder / "a/red/0.png").read_bytes()).numpy()
    np.testing.assert_allclose(found.features[0], image.mean((0, 1)) / 255, atol=0.01)
    assert "over an image of 20 x 20 px and its mirror image" in told[0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"output": "x.parquet"}, "pip install pyarrow"),
        ({"encoder": "{}/classifier"}, "is a classifier"),
        ({"pictures": "{}/a/empty.jpg"}, "none can be read.*empty"),
        ({"to_label": 2, "to_label_output": "{}/others.csv"}, "not an empty table"),
        ({"labels": "{}/others.csv"}, "none of its files is an image.*b/no.png"),
        ({"neighbours": "{}/a/empty.jpg"}, "cannot be read.*empty"),
    ],
)
def test_what_cannot_work_is_refused(encoder, folder, tmp_path, changes, message, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    values = {
        "encoder": encoder,
        "pictures": f"{folder}/a/red/0.png",
        "sheet": f"{tmp_path}/sheet.png",
        **changes,
    }
    with pytest.raises(ConfigError, match=message):
        embed(
            EmbedConfig(
                **{k: v.format(folder) if isinstance(v, str) else v for k, v in values.items()}
            )
        )
