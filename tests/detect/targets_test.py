import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.detect.boxes import anchor_grid
from cpc_tf.detect.boxes import ANCHOR_WEIGHTS, decode
from cpc_tf.detect.config import HeadConfig, RpnConfig
from cpc_tf.detect.targets import anchor_samples, make_objects, region_samples

SEED = tf.constant([3, 4])
SIDE = 64
ANCHORS = tf.constant(anchor_grid(8, 8, 8, [8, 16, 32], [0.5, 1, 2]))
EVERYWHERE = tf.ones([1, ANCHORS.shape[0]], tf.bool)
RPN = RpnConfig(rpn_samples=64)
HEAD = HeadConfig(region_samples=16, region_positive_fraction=0.5)
BORDER = [[0, 0, 9, 30], [50, 0, 64, 20], [0, 40, 30, 64], [40, 50, 64, 64]]
GRID = [[y, x, y + 6, x + 6] for y in range(0, 60, 6) for x in range(0, 60, 6)]


def objects(boxes, labels=None, difficult=None, **kwargs):
    labels = range(len(boxes)) if labels is None else labels
    difficult = None if difficult is None else tf.constant([difficult])
    return make_objects(tf.constant([boxes], tf.float32), tf.constant([list(labels)], tf.int32), difficult, **kwargs)


def test_padding_and_objects_without_area_are_left_out():
    made = objects([[0, 0, 9, 9], [0, 0, 9, 9], [5, 5, 5, 9], [1, 1, 4, 4]], [2, -1, 0, 1])
    np.testing.assert_array_equal(made.learned, [[True, False, False, True]])
    assert not np.any(made.ignored)
    assert not np.any(made.boxes[0, 1:3])


@pytest.mark.parametrize("learn", [True, False])
def test_difficult_objects(learn):
    made = objects(
        [[0, 0, 16, 16], [40, 40, 56, 56], [0, 0, 9, 9]], [0, 1, -1], [False, True, True], learn_difficult=learn
    )
    np.testing.assert_array_equal(made.learned, [[True, learn, False]])
    np.testing.assert_array_equal(made.ignored, [[False, not learn, False]])
    on_it = tf.constant([[[40.0, 40, 56, 56], [10, 30, 20, 40]]])
    _, samples = region_samples(on_it, tf.ones([1, 2], tf.bool), made, HEAD, SEED)
    drawn = set(samples.indices[0].numpy()[samples.valid[0]])
    assert (0 in drawn) == learn
    assert 1 in drawn


@pytest.mark.parametrize("boxes", [[[0, 0, SIDE, SIDE]], BORDER, GRID, [[20, 20, 20.5, 20.5]]])
def test_each_object_has_an_anchor_that_leads_to_it(boxes):
    made = objects(boxes)
    samples = anchor_samples(ANCHORS, EVERYWHERE, made, RpnConfig(rpn_samples=1000), SEED)
    positive = samples.positive[0].numpy()
    anchors = tf.gather(ANCHORS, samples.indices[0])
    assert np.all(np.isfinite(samples.deltas))
    # 36 anchors of a side of 6 lie on the nodes of the grid; the others have some that they overlap most.
    reached = decode(samples.deltas[0], anchors, ANCHOR_WEIGHTS).numpy()[positive]
    labels = samples.labels[0].numpy()[positive]
    np.testing.assert_allclose(reached, np.array(boxes, np.float32)[labels], atol=1e-3)
    assert len(set(labels)) >= 0.5 * len(boxes)
    assert not np.any(samples.deltas[0].numpy()[~positive])


@pytest.mark.parametrize("boxes", [[[0, 0, SIDE, SIDE]], BORDER, GRID])
def test_each_object_is_a_region_of_its_own(boxes):
    made = objects(boxes)
    none = tf.zeros([1, 5, 4])
    config = HeadConfig(region_samples=len(boxes) + 5, region_positive_fraction=1)
    regions, samples = region_samples(none, tf.zeros([1, 5], tf.bool), made, config, SEED)
    positive = samples.positive[0].numpy()
    assert sorted(samples.labels[0].numpy()[positive]) == list(range(len(boxes)))
    np.testing.assert_allclose(regions[0].numpy()[positive], np.array(boxes)[samples.labels[0].numpy()[positive]])
    assert not np.any(samples.deltas)
    # The rest is padding.
    np.testing.assert_array_equal(samples.valid[0], positive)
    assert not np.any(regions[0].numpy()[~positive])


def test_image_without_objects_is_all_background():
    made = objects([[0, 0, 0, 0]], [-1])
    samples = anchor_samples(ANCHORS, EVERYWHERE, made, RPN, SEED)
    proposals = tf.constant([[[0.0, 0, 10, 10], [5, 5, 30, 30], [1, 1, 2, 2]]])
    regions, region = region_samples(proposals, tf.constant([[True, True, False]]), made, HEAD, SEED)
    for these in (samples, region):
        assert not np.any(these.positive)
        assert not np.any(these.deltas)
    assert np.all(samples.valid)
    assert region.valid.numpy().sum() == 2
    assert regions.shape == (1, 4, 4)


def test_anchors_outside_are_not_learned_from():
    inside = tf.constant(np.arange(ANCHORS.shape[0])[None] < 9)
    samples = anchor_samples(ANCHORS, inside, objects([[40, 40, 60, 60], [0, 8, 8, 16]]), RPN, SEED)
    drawn = samples.indices[0].numpy()[samples.valid[0]]
    assert len(drawn) > 2
    assert np.all(drawn < 9)
    # No anchor inside overlaps the first object. The second is an anchor outside, but is left to the best one inside.
    assert set(samples.labels[0].numpy()[samples.positive[0]]) == {1}


def test_regions_are_drawn_a_quarter_from_objects():
    near = [[10 + i * 0.1, 10, 40, 40] for i in range(30)]
    far = [[50, 50 + i * 0.1, 60, 60] for i in range(30)]
    made = objects([[10, 10, 40, 40]], [6])
    config = HeadConfig(region_samples=16)
    regions, samples = region_samples(tf.constant([near + far]), tf.ones([1, 60], tf.bool), made, config, SEED)
    assert samples.positive.numpy().sum() == 4
    assert samples.valid.numpy().sum() == 16
    np.testing.assert_array_equal(samples.labels[0], [6] * 4 + [0] * 12)
    assert np.all(regions[0, :4, 0] < 20)
    assert np.all(regions[0, 4:, 0] == 50)
