"""What the detector learns: matching, sampling, targets and losses against known answers and definitions."""

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.detect.boxes import ANCHOR_WEIGHTS, anchor_grid, decode
from cpc_tf.detect.config import HeadConfig, RpnConfig
from cpc_tf.detect.targets import (
    IGNORED,
    NEGATIVE,
    POSITIVE,
    Objects,
    Samples,
    anchor_samples,
    make_objects,
    match,
    region_losses,
    region_samples,
    rpn_losses,
    sample,
)


def matched(iou, learned=None, ignored=None, **kwargs):
    """`match` of one image."""
    iou = np.asarray(iou, np.float32)
    learned = np.ones(len(iou), bool) if learned is None else learned
    ignored = np.zeros(len(iou), bool) if ignored is None else ignored
    arguments = {"positive": 0.7, "negative": 0.3, **kwargs}
    objects = Objects(None, None, *(tf.constant(x)[None] for x in (learned, ignored)))
    matches, labels = match(tf.constant(iou)[None], objects, **arguments)
    return matches[0].numpy(), labels[0].numpy()


def oracle(iou, learned, ignored, positive, negative, keep_best):
    """By the definition, candidate by candidate."""
    objects = [i for i in range(len(iou)) if learned[i]]
    matches, labels = [], []
    for j in range(iou.shape[1]):
        best = max(objects, key=lambda i: (iou[i, j], -i), default=0)
        overlap = iou[best, j] if objects else -1
        label = POSITIVE if overlap >= positive else NEGATIVE if overlap < negative else IGNORED
        if label == NEGATIVE and any(iou[i, j] >= negative for i in range(len(iou)) if ignored[i]):
            label = IGNORED
        if keep_best and any(0 < iou[i, j] == max(iou[i]) for i in objects):
            label = POSITIVE
        matches.append(best)
        labels.append(label)
    return matches, labels


def test_matches_known():
    iou = [[0.15, 0.45, 0.2, 0.6], [0.3, 0.65, 0.05, 0.1], [0.05, 0.4, 0.25, 0.4]]
    matches, labels = matched(iou, keep_best=True)
    np.testing.assert_array_equal(matches, [1, 1, 2, 0])
    np.testing.assert_array_equal(labels, [-1, 1, 0, 1])


@pytest.mark.parametrize("keep_best", [False, True])
def test_equals_the_definition(keep_best):
    random = np.random.default_rng(0)
    for _ in range(20):
        iou = (random.integers(0, 20, [5, 30]) / 20 + 0.01).astype(np.float32)  # with ties
        iou[random.integers(0, 5)] = 0
        learned = random.uniform(size=5) < 0.6
        ignored = ~learned & (random.uniform(size=5) < 0.5)
        wanted = oracle(iou, learned, ignored, 0.7, 0.3, keep_best)
        for ours, theirs in zip(matched(iou, learned, ignored, keep_best=keep_best), wanted):
            np.testing.assert_array_equal(ours, theirs)


def test_without_objects_all_is_background():
    _, labels = matched(np.full([3, 4], 0.9), learned=np.zeros(3, bool), keep_best=True)
    np.testing.assert_array_equal(labels, [NEGATIVE] * 4)


def test_object_that_no_candidate_overlaps_makes_none_positive():
    _, labels = matched([[0, 0, 0]], keep_best=True)
    np.testing.assert_array_equal(labels, [NEGATIVE] * 3)


LABELS = np.array([[1] * 30 + [0] * 60 + [-1] * 10, [1] * 3 + [0] * 5 + [-1] * 92, [0] * 100])


@pytest.mark.parametrize(
    ("count", "fraction", "wanted"), [(20, 0.25, [(5, 15), (3, 5), (0, 20)]), (200, 0.25, [(30, 60), (3, 5), (0, 100)])]
)
def test_sample(count, fraction, wanted):
    indices, labels = (x.numpy() for x in sample(tf.constant(LABELS, tf.int32), count, fraction, tf.constant([1, 2])))
    assert indices.shape == labels.shape == (3, min(count, 100))
    for i, (positive, negative) in enumerate(wanted):
        taken = indices[i][labels[i] != IGNORED]
        assert len(set(taken)) == len(taken)
        np.testing.assert_array_equal(LABELS[i][taken], labels[i][labels[i] != IGNORED])
        assert (labels[i] == POSITIVE).sum() == positive
        assert (labels[i] == NEGATIVE).sum() == negative


def test_sample_is_random_and_reproducible():
    def draw(seed):
        return sample(tf.constant(LABELS, tf.int32), 10, 0, tf.stack([0, seed]))[0]

    draws = np.stack([draw(seed) for seed in range(40)])
    np.testing.assert_array_equal(draw(0), draws[0])
    compiled = tf.function(draw, jit_compile=True)
    for seed in (7, -7):
        np.testing.assert_array_equal(compiled(tf.constant(seed)), draw(seed))
    # Each of the 100 negative ones of the last image comes 4 times on average; the images differ.
    assert len(np.unique(draws[:, 2])) > 90
    assert (draws[:, 2] != draws[:, 0]).any()


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


def drawn_samples(valid, positive, labels=None):
    count = len(valid)
    deltas = np.zeros([1, count, 4], np.float32)
    deltas[0, np.array(positive)] = [1, 2, 3, 4]
    return Samples(
        tf.constant([[4, 0, 2, 1][:count]]),
        tf.constant([valid]),
        tf.constant([positive]),
        tf.constant([labels or [0] * count]),
        tf.constant(deltas),
    )


def softplus(x):
    return np.log1p(np.exp(x))


def test_rpn_by_hand():
    logits = tf.constant([[1.0, -2, 0.5, 7, 3]])
    deltas = tf.reshape(tf.range(20.0), [1, 5, 4])
    losses = rpn_losses(logits, deltas, drawn_samples([True, True, True, False], [True, False, False, False]))
    assert losses["rpn_class"].numpy() == pytest.approx((softplus(-3) + softplus(1) + softplus(0.5)) / 3, rel=1e-5)
    # Sample 0 is anchor 4: its differences are 16 to 19, wanted are 1 to 4.
    assert losses["rpn_box"].numpy() == pytest.approx(4 * 15 / 3)


def test_regions_by_hand():
    random = np.random.default_rng(0)
    logits, deltas = (
        random.normal(size=[1, 4, 4]).astype(np.float32),
        random.normal(size=[1, 4, 3, 4]).astype(np.float32),
    )
    drawn = drawn_samples([True, True, True, False], [True, True, False, False], [2, 0, 0, 0])
    losses = region_losses(tf.constant(logits), tf.constant(deltas), drawn)
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    # The third one is background, the last of the four logits.
    wanted = -(log_p[0, 0, 2] + log_p[0, 1, 0] + log_p[0, 2, 3]) / 3
    assert losses["region_class"].numpy() == pytest.approx(wanted, rel=1e-5)
    distances = np.abs(deltas[0, 0, 2] - [1, 2, 3, 4]).sum() + np.abs(deltas[0, 1, 0] - [1, 2, 3, 4]).sum()
    assert losses["region_box"].numpy() == pytest.approx(distances / 3, rel=1e-5)


def test_without_samples_all_is_0():
    none = drawn_samples([False] * 4, [False] * 4)
    losses = {
        **rpn_losses(tf.ones([1, 5]), tf.ones([1, 5, 4]), none),
        **region_losses(tf.ones([1, 4, 4]), tf.ones([1, 4, 3, 4]), none),
    }
    assert [loss.numpy() for loss in losses.values()] == [0, 0, 0, 0]
