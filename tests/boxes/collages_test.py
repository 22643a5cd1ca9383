"""The embedded collages: boxes on their objects, splits that share no pixel, the same pixels
always.
"""

import hashlib

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds
from PIL import Image

from cpc_tf.boxes import collages
from cpc_tf.boxes.source import VocRecords
from cpc_tf.data import datasets, photos

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def builder(tmp_path_factory):
    with datasets.quiet():
        made = collages.Collages(
            config=collages.config(39, 13), data_dir=str(tmp_path_factory.mktemp("tfds"))
        )
    return datasets.prepare(made, progress=False)


def plain_colours(split):
    """Stands in for photos.regions: a colour for each photograph, red in training and green in
    testing.
    """
    levels = [10 * number + 10 for number in range(len(photos.CLASSES))]
    colours = [(level, 0, 255) if split == "train" else (0, level, 255) for level in levels]
    return [Image.new("RGB", (300, 300), colour) for colour in colours]


@pytest.mark.parametrize("split", ["train", "test"])
def test_objects_are_in_their_boxes_and_nowhere_else(monkeypatch, split):
    monkeypatch.setattr(photos, "regions", plain_colours)
    channel = ["train", "test"].index(split)
    counts, sides = [], []
    for number, (key, example) in enumerate(collages._examples(split, 60, seed=3)):
        assert key == number
        assert example["image/filename"] == f"{split}_{number:05}.png"
        image = tf.io.decode_png(example["image"]).numpy()
        assert (image[..., 1 - channel] == 0).all(), "nothing of the other split"
        assert (image[..., 2] == 255).all()
        height, width = image.shape[:2]
        assert 128 <= height <= 160 <= width <= 200
        expected = np.zeros([height, width], int)
        y, x = np.mgrid[1 : height + 1, 1 : width + 1]  # VOC counts from 1
        for thing in example["objects"]:
            box = np.array(thing["bbox"]) * [height, width, height, width]
            ymin, xmin, ymax, xmax = np.round(box).astype(int)
            np.testing.assert_allclose(box, [ymin, xmin, ymax, xmax], atol=1e-9)
            name = collages.CLASSES[thing["label"]]
            inside = (y >= ymin) & (y <= ymax) & (x >= xmin) & (x <= xmax)
            assert (expected[inside] > 0).sum() <= 0.2 * 3 * inside.sum()
            expected[inside] = 10 * photos.CLASSES.index(name) + 10
            sides.append((ymax - ymin + 1, xmax - xmin + 1))
        found = image[..., channel]
        np.testing.assert_array_equal(found[expected > 0], expected[expected > 0])
        background = np.unique(found[expected == 0])
        assert len(background) == 1
        assert photos.CLASSES[background[0] // 10 - 1] in collages.BACKGROUNDS
        assert collages.CLASSES[example["objects"][0]["label"]] == collages.CLASSES[number % 13]
        counts.append(len(example["objects"]))
    assert set(counts) == {1, 2, 3, 4}
    longer, shorter = np.max(sides, axis=1), np.min(sides, axis=1)
    assert 32 <= longer.min() < 40
    assert 105 < longer.max() <= 112
    assert (shorter / longer).min() > 0.48
    assert 0.3 < np.mean([height < width for height, width in sides]) < 0.7


def test_splits_hold_all_classes_and_are_deterministic(builder):
    train, test = (VocRecords(builder, split, window=100) for split in ("train", "test"))
    assert (train.num_examples, test.num_examples) == (39, 13)
    assert train.class_names == collages.CLASSES
    assert sorted(collages.CLASSES + collages.BACKGROUNDS) == sorted(photos.CLASSES)
    assert isinstance(builder.info.features["objects"].feature["bbox"], tfds.features.BBoxFeature)
    labels, digest = set(), hashlib.sha256()
    for source in (train, test):
        for example in source.ordered().as_numpy_iterator():
            labels |= {*example["labels"].tolist()}
            assert not example["difficult"].any()
            digest.update(tf.io.decode_png(example["encoded"]).numpy().tobytes())
            digest.update(np.round(example["boxes"]).astype(np.int32).tobytes())
    assert labels == set(range(13))
    assert digest.hexdigest()[:16] == "1ea892c6eb6c4b9a", "new pixels need a new VERSION"


def test_split_size_does_not_change_the_other_split(builder):
    few = [example for _, example in collages._examples("train", 5, seed=0)]
    wanted = {example["image/filename"][:-4]: example["image"] for example in few}
    found = {
        e["name"].numpy().decode(): e["encoded"].numpy()
        for e in VocRecords(builder, "train", 9).ordered()
    }
    assert {name: found[name] for name in wanted} == wanted
    assert (collages.config().train, collages.config().test) == (600, 200)
