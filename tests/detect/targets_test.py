"""Matching, sampling, targets and losses against known answers and definitions."""

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.detect.boxes import ANCHOR_WEIGHTS, anchor_grid, decode
from cpc_tf.detect.config import HeadConfig, RpnConfig
from cpc_tf.detect.targets import (
    IGNORED,
    NEGATIVE,
    POSITIVE,
    Draws,
    PaddedObjects,
    Samples,
    anchor_samples,
    make_objects,
    match,
    region_losses,
    region_samples,
    rpn_losses,
    sample,
)


def matched(iou, real, keep_best):
    """`match` of one image."""
    objects = PaddedObjects(None, tf.constant(np.where(real, 0, -1))[None])
    matches, labels = match(tf.constant(iou, tf.float32)[None], objects, 0.7, 0.3, keep_best)
    return matches[0].numpy(), labels[0].numpy()


def oracle(iou, real, positive, negative, keep_best):
    """By the definition, candidate by candidate."""
    objects = [i for i in range(len(iou)) if real[i]]
    matches, labels = [], []
    for j in range(iou.shape[1]):
        best = max(objects, key=lambda i: (iou[i, j], -i), default=0)
        overlap = iou[best, j] if objects else -1
        label = POSITIVE if overlap >= positive else NEGATIVE if overlap < negative else IGNORED
        if keep_best and any(0 < iou[i, j] == max(iou[i]) for i in objects):
            label = POSITIVE
        matches.append(best)
        labels.append(label)
    return matches, labels


def test_matches_known():
    overlaps = [[0.15, 0.45, 0.2, 0.6], [0.3, 0.65, 0.05, 0.1], [0.05, 0.4, 0.25, 0.4]]
    matches, labels = matched(overlaps, [True] * 3, keep_best=True)
    np.testing.assert_array_equal(matches, [1, 1, 2, 0])
    np.testing.assert_array_equal(labels, [-1, 1, 0, 1])
    # Exactly at the thresholds: positive from 0.7 on, background below 0.3.
    below = [np.nextafter(np.float32(x), np.float32(0)) for x in (0.7, 0.3)]
    _, labels = matched([[0.7, below[0], 0.3, below[1]]], [True], keep_best=False)
    np.testing.assert_array_equal(labels, [POSITIVE, IGNORED, IGNORED, NEGATIVE])


@pytest.mark.parametrize("keep_best", [False, True])
def test_equals_the_definition(keep_best):
    random = np.random.default_rng(0)
    for number in range(20):
        iou = (random.integers(0, 20, [5, 30]) / 20 + 0.01).astype(np.float32)  # with ties
        iou[random.integers(0, 5)] = 0
        real = random.uniform(size=5) < (0.6 if number else 0)  # once there is no object
        wanted = oracle(iou, real, 0.7, 0.3, keep_best)
        np.testing.assert_array_equal(matched(iou, real, keep_best), wanted)


LABELS = np.array([[1] * 30 + [0] * 60 + [-1] * 10, [1] * 3 + [0] * 5 + [-1] * 92, [0] * 100])


@pytest.mark.parametrize(
    ("count", "wanted"), [(20, [(5, 15), (3, 5), (0, 20)]), (200, [(30, 60), (3, 5), (0, 100)])]
)
def test_sample(count, wanted):
    indices, labels = (
        x.numpy()
        for x in sample(tf.constant(LABELS, tf.int32), count, 0.25, Draws(tf.constant([1, 2]), 3))
    )
    assert indices.shape == labels.shape == (3, min(count, 100))
    for i, counts in enumerate(wanted):
        taken = indices[i][labels[i] != IGNORED]
        assert len(set(taken)) == len(taken)
        np.testing.assert_array_equal(LABELS[i][taken], labels[i][labels[i] != IGNORED])
        assert ((labels[i] == POSITIVE).sum(), (labels[i] == NEGATIVE).sum()) == counts


def test_sampling_part_of_a_batch_equals_the_whole():
    draws = Draws(tf.constant([1, 2]), 3)
    whole, rest = (
        sample(tf.constant(LABELS[i:], tf.int32), 20, 0.25, draws._replace(first=i)) for i in (0, 1)
    )
    for all_rows, rows in zip(whole, rest):
        np.testing.assert_array_equal(all_rows[1:], rows)


@pytest.mark.slow
def test_sample_is_random_and_reproducible():
    def draw(seed):
        return sample(tf.constant(LABELS, tf.int32), 10, 0, Draws(tf.stack([0, seed]), 3))[0]

    draws = np.stack([draw(seed) for seed in range(30)])
    np.testing.assert_array_equal(draw(0), draws[0])
    compiled = tf.function(draw, jit_compile=True)
    np.testing.assert_array_equal(compiled(tf.constant(-7)), draw(-7))
    # Each of the 100 negative ones of the last image comes 3 times on average; the images differ.
    assert len(np.unique(draws[:, 2])) > 90
    assert (draws[:, 2] != draws[:, 0]).any()


DRAWS = Draws(tf.constant([3, 4]), 1)
SIDE = 64
ANCHORS = tf.constant(anchor_grid(8, 8, 8, [8, 16, 32], [0.5, 1, 2]))
EVERYWHERE = tf.ones([1, ANCHORS.shape[0]], tf.bool)
RPN = RpnConfig(rpn_samples=64)
BORDER = [[0, 0, 9, 30], [50, 0, 64, 20], [0, 40, 30, 64], [40, 50, 64, 64]]
GRID = [[y, x, y + 6, x + 6] for y in range(0, 60, 6) for x in range(0, 60, 6)]


def objects(boxes, labels=None):
    labels = range(len(boxes)) if labels is None else labels
    return make_objects(tf.constant([boxes], tf.float32), tf.constant([list(labels)], tf.int64))


def regions(proposals, valid, objects, **config):
    """The boxes and samples of one image, as arrays."""
    drawn = region_samples(
        tf.constant([proposals], tf.float32),
        tf.constant([valid]),
        objects,
        HeadConfig(**config),
        DRAWS,
    )
    return drawn[0][0].numpy(), Samples(*(values[0].numpy() for values in drawn[1]))


def test_padding_and_objects_without_area_are_left_out():
    made = objects([[0, 0, 9, 9], [0, 0, 9, 9], [5, 5, 5, 9], [1, 1, 4, 4]], [2, -1, 0, 1])
    np.testing.assert_array_equal(made.labels, [[2, -1, -1, 1]])
    assert not np.any(made.boxes[0, 1:3])


@pytest.mark.parametrize("boxes", [[[0, 0, SIDE, SIDE]], BORDER, GRID, [[20, 20, 20.5, 20.5]]])
def test_each_object_has_a_matching_anchor(boxes):
    samples = anchor_samples(
        ANCHORS, EVERYWHERE, objects(boxes), RpnConfig(rpn_samples=1000), DRAWS
    )
    positive = samples.positive[0].numpy()
    # 36 anchors of a side of 6 lie on the nodes of the grid; the others have some that they overlap
    # most.
    reached = decode(
        samples.deltas[0], tf.gather(ANCHORS, samples.indices[0]), ANCHOR_WEIGHTS
    ).numpy()[positive]
    labels = samples.labels[0].numpy()[positive]
    np.testing.assert_allclose(reached, np.array(boxes, np.float32)[labels], atol=1e-3)
    assert len(set(labels)) >= 0.5 * len(boxes)
    assert not np.any(samples.deltas[0].numpy()[~positive])


@pytest.mark.parametrize("boxes", [[[0, 0, SIDE, SIDE]], BORDER, GRID])
def test_each_object_is_a_region_of_its_own(boxes):
    counts = {"region_samples": len(boxes) + 5, "region_positive_fraction": 1}
    drawn, samples = regions(np.zeros([5, 4]), [False] * 5, objects(boxes), **counts)
    labels = samples.labels[samples.positive]
    assert sorted(labels) == list(range(len(boxes)))
    np.testing.assert_allclose(drawn[samples.positive], np.array(boxes)[labels])
    assert not np.any(samples.deltas)
    # The rest is padding.
    np.testing.assert_array_equal(samples.valid, samples.positive)
    assert not np.any(drawn[~samples.positive])


def test_image_without_objects_is_all_background():
    made = objects([[0, 0, 0, 0]], [-1])
    anchors = anchor_samples(ANCHORS, EVERYWHERE, made, RPN, DRAWS)
    drawn, samples = regions(
        [[0, 0, 10, 10], [5, 5, 30, 30], [1, 1, 2, 2]], [True, True, False], made
    )
    for these in (anchors, samples):
        assert not np.any(these.positive)
        assert not np.any(these.deltas)
    assert np.all(anchors.valid)
    assert samples.valid.sum() == 2
    assert drawn.shape == (4, 4)


def test_anchors_outside_are_not_learned_from():
    inside = tf.constant(np.arange(ANCHORS.shape[0])[None] < 9)
    samples = anchor_samples(
        ANCHORS, inside, objects([[40, 40, 60, 60], [0, 8, 8, 16]]), RPN, DRAWS
    )
    drawn = samples.indices[0].numpy()[samples.valid[0]]
    assert len(drawn) > 2
    assert np.all(drawn < 9)
    # No anchor inside overlaps the first object. The second is an anchor outside, but is left to
    # the best one inside.
    assert set(samples.labels[0].numpy()[samples.positive[0]]) == {1}


def test_regions_are_drawn_a_quarter_from_objects():
    near = [[10 + i * 0.1, 10, 40, 40] for i in range(30)]
    far = [[50, 50 + i * 0.1, 60, 60] for i in range(30)]
    drawn, samples = regions(
        near + far, [True] * 60, objects([[10, 10, 40, 40]], [6]), region_samples=16
    )
    assert samples.valid.all()
    np.testing.assert_array_equal(samples.positive, [True] * 4 + [False] * 12)
    np.testing.assert_array_equal(samples.labels, [6] * 4 + [0] * 12)
    assert np.all(drawn[:4, 0] < 20)
    assert np.all(drawn[4:, 0] == 50)


def drawn_samples(valid, positive, labels=(0, 0, 0, 0)):
    deltas = np.where(np.array(positive)[:, None], [1, 2, 3, 4], 0)
    values = ([4, 0, 2, 1], valid, positive, list(labels), deltas.astype(np.float32))
    return Samples(*(tf.constant([x]) for x in values))


def softplus(x):
    return np.log1p(np.exp(x))


def test_rpn_losses_by_hand():
    logits, deltas = tf.constant([[1.0, -2, 0.5, 7, 3]]), tf.reshape(tf.range(20.0), [1, 5, 4])
    losses = rpn_losses(
        logits, deltas, drawn_samples([True, True, True, False], [True, False, False, False])
    )
    assert losses["rpn_class"].numpy() == pytest.approx(
        (softplus(-3) + softplus(1) + softplus(0.5)) / 3, rel=1e-5
    )
    # Sample 0 is anchor 4: its code is 16 to 19, wanted is 1 to 4.
    assert losses["rpn_box"].numpy() == pytest.approx(4 * 15 / 3)


def test_region_losses_by_hand():
    random = np.random.default_rng(0)
    logits, deltas = (
        random.normal(size=shape).astype(np.float32) for shape in ([1, 4, 4], [1, 4, 3, 4])
    )
    drawn = drawn_samples([True, True, True, False], [True, True, False, False], [2, 0, 0, 0])
    losses = region_losses(tf.constant(logits), tf.constant(deltas), drawn)
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    # The third one is background, the last of the four logits.
    wanted = -(log_p[0, 0, 2] + log_p[0, 1, 0] + log_p[0, 2, 3]) / 3
    assert losses["region_class"].numpy() == pytest.approx(wanted, rel=1e-5)
    distances = np.abs(deltas[0, [0, 1], [2, 0]] - [1, 2, 3, 4]).sum()
    assert losses["region_box"].numpy() == pytest.approx(distances / 3, rel=1e-5)


def test_images_weigh_equally_whatever_their_sample_count():
    one, other = (
        drawn_samples(valid, [False] * 4) for valid in ([True] * 4, [True, False, False, False])
    )
    both = Samples(*(tf.concat(pair, 0) for pair in zip(one, other)))
    logits, deltas = tf.constant([[1.0, -2, 0.5, 7, 3], [2.0, 3, 1, 0, 5]]), tf.zeros([2, 5, 4])
    of_each = [
        rpn_losses(logits[i : i + 1], deltas[:1], drawn)["rpn_class"]
        for i, drawn in enumerate((one, other))
    ]
    assert float(rpn_losses(logits, deltas, both)["rpn_class"]) == pytest.approx(
        np.mean(of_each), rel=1e-6
    )


def test_without_samples_all_losses_are_0():
    none = drawn_samples([False] * 4, [False] * 4)
    losses = rpn_losses(tf.ones([1, 5]), tf.ones([1, 5, 4]), none)
    losses.update(region_losses(tf.ones([1, 4, 4]), tf.ones([1, 4, 3, 4]), none))
    assert [loss.numpy() for loss in losses.values()] == [0, 0, 0, 0]
