"""Damaged pictures are trained on as far as they are sound; what changes meanwhile is named."""

import itertools
import os

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.augment.config import AugmentConfig
from cpc_tf.data import check, pipeline
from cpc_tf.data.config import GeometryConfig
from cpc_tf.data.views import PatchGrid
from cpc_tf.settings import ConfigError
from tests.data.samples import encode, open_folder, write_files
from tests.faults.targets import damaged

pytestmark = pytest.mark.slow
GEOMETRY = GeometryConfig(resize=12, image_size=8, patch_size=4, patch_stride=2)


def trained_on(source, steps=6):
    """Some batches, as a training fetches them."""
    batches = pipeline.batches(source, PatchGrid(), GEOMETRY, AugmentConfig(augment="none"), global_batch=4, seed=1)
    return list(itertools.islice(batches.as_numpy_iterator(), steps))


def test_damaged_pictures_are_left_out_and_the_others_trained_on(tmp_path, monkeypatch):
    monkeypatch.setattr(check, "_MOST_LEFT_OUT", 1)
    random = np.random.default_rng(0)
    pixels = random.integers(0, 256, [9, 13, 3], np.uint8)
    corpus = [encode(pixels, kind) for kind in ("PNG", "JPEG", "BMP", "GIF")]
    write_files(tmp_path, {f"x/{number}.jpg": damaged(random, corpus) for number in range(60)})
    source = open_folder(str(tmp_path / "x"), "train", str(tmp_path / "cache"))
    assert 3 < source.num_examples < 60
    assert len(trained_on(source, 10)) == 10
    assert source.changed() == []


@pytest.mark.parametrize("spoil", [os.unlink, lambda path: path.write_bytes(b"BM" + bytes([0, 255]) * 8)])
def test_a_file_that_changes_while_it_is_trained_on_is_named(root, tmp_path, spoil):
    source = open_folder(str(root), "train", str(tmp_path / "cache"))
    with pipeline.fetching(source):
        trained_on(source)
    spoil(root / "train/b/2.png")
    with pytest.raises(ConfigError, match=rf"^{root}/train/b/2.png: changed or gone since"), pipeline.fetching(source):
        trained_on(source)


def test_errors_of_another_cause_are_not_blamed_on_files(root, tmp_path):
    source = open_folder(str(root), "train", str(tmp_path / "cache"))
    with pytest.raises(tf.errors.OutOfRangeError), pipeline.fetching(source):
        raise tf.errors.OutOfRangeError(None, None, "something else")
