"""The embedding map: what is where, and in which colour."""

import io

import numpy as np
import pytest
from PIL import Image
from threadpoolctl import threadpool_limits

from cpc_tf.core.settings import ConfigError
from cpc_tf.drawing import map as embedding_map
from cpc_tf.drawing.map import Places

pytestmark = pytest.mark.drawn


def clusters(count=60):
    """Features of two kinds of images, red and blue, far apart; thumbnails in their colours;
    labels.
    """
    random = np.random.default_rng(0)
    labels = np.arange(count) % 2
    features = random.normal(size=[count, 8]) + 20 * labels[:, None]
    thumbnails = np.zeros([count, 16, 16, 3], np.uint8)
    thumbnails[labels == 0, ..., 0] = thumbnails[labels == 1, ..., 2] = 255
    return features.astype(np.float32), thumbnails, labels


def pixels(png):
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB")).astype(int)


@pytest.fixture(autouse=True)
def _one_thread():
    """Several threads for so few images wait for each other, which costs most."""
    with threadpool_limits(1):
        yield


def test_similar_pictures_are_drawn_together():
    features, thumbnails, labels = clusters()
    drawn = pixels(embedding_map.draw(features, thumbnails, labels, ["red", "blue"]))
    red, blue = (np.argwhere((drawn == color).all(-1)) for color in ((255, 0, 0), (0, 0, 255)))
    assert min(len(red), len(blue)) > 1000
    apart = np.abs(red.mean(0) - blue.mean(0))
    assert apart.max() > 2 * max(red.std(0)[apart.argmax()], blue.std(0)[apart.argmax()])


def test_class_name_is_placed_at_its_densest_part():
    """Not half way between two heaps, where others are."""
    heaps = np.array([[0, 0], [0.1, 0], [0, 0.1], [10, 10], [10, 10.1]])
    assert embedding_map._middle(heaps).tolist() == [0, 0]


def test_a_name_at_an_edge_is_not_cut():
    corners = np.array([[0.0, 0.5], [1.0, 0.5], [0.5, 0.0], [0.5, 1.0]])
    names = ["a name of some length"] * 4
    white = np.full([4, 16, 16, 3], 255, np.uint8)
    drawn = pixels(embedding_map.draw_at(Places(corners, ""), white, [0, 1, 2, 3], names))
    assert (drawn[:, [0, -1]] == 255).all()


@pytest.mark.slow
def test_map_keeps_neighbours_and_is_deterministic():
    features, _, labels = clusters()
    where, again = (embedding_map.places(features, "tsne").where for _ in range(2))
    np.testing.assert_array_equal(where, again)
    apart = np.linalg.norm(where[:, None] - where, axis=2) + 1e9 * np.eye(len(where))
    np.testing.assert_array_equal(labels[apart.argmin(1)], labels)


@pytest.mark.parametrize("shape", [(1, 5), (2, 1), (5, 3)])
@pytest.mark.parametrize("method", embedding_map.METHODS)
def test_few_or_equal_pictures_have_places(shape, method):
    where = embedding_map.places(np.ones(shape, np.float32), method).where
    assert where.shape == (shape[0], 2)
    assert np.isfinite(where).all()


@pytest.mark.slow
def test_a_single_picture_is_drawn():
    assert pixels(embedding_map.draw(np.ones([1, 1]), np.full([1, 8, 8, 3], 128, np.uint8))).size


def test_unknown_and_rare_classes_are_grey():
    labels = [-1, *range(25), *range(19)]
    colors, entries = embedding_map._colors(len(labels), labels, [f"class {i}" for i in range(25)])
    assert [name for _, name, _ in entries] == [
        *(f"class {i}" for i in range(19)),
        "no label or others",
    ]
    assert len(np.unique(colors, axis=0)) == 20
    np.testing.assert_array_equal(colors[0], colors[25])


def test_features_that_are_not_finite_are_refused():
    with pytest.raises(ConfigError, match="not finite"):
        embedding_map.draw(np.full([4, 2], np.nan), np.zeros([4, 8, 8, 3], np.uint8))
