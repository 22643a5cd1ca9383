"""Anchors, codes and overlaps of boxes; proposals and detections."""

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.detect import boxes as bx
from cpc_tf.detect.boxes import (
    ANCHOR_WEIGHTS,
    anchor_grid,
    detect,
    encode,
    inside,
    non_max_suppression,
    propose,
)
from cpc_tf.detect.config import InferenceConfig
from tests.detect.samples import oracle, random_boxes

UNIT = tf.constant([[0.0, 0, 1, 1]])
BOX, ANCHOR, EMPTY = (
    tf.constant(box, tf.float32) for box in ([2, 4, 14, 20], [0, 0, 10, 20], [3, 3, 3, 9])
)


def test_iou_known():
    others = [
        [0, 0, 1, 1],
        [0, 0, 0.5, 1],
        [0, 0, 1, 0.5],
        [0, 0, 0.5, 0.5],
        [0.5, 0.5, 1, 1],
        [0.5, 0.5, 1.5, 1.5],
    ]
    wanted = [[1, 0.5, 0.5, 0.25, 0.25, 0.25 / 1.75]]
    np.testing.assert_allclose(bx.iou(UNIT, tf.constant(others)), wanted, rtol=1e-6)


def test_iou_of_nothing_is_0():
    others = tf.constant([[0, 0, 0, 0], [0.5, 0, 0.5, 1], [1, 1, 0, 0], [5, 5, 6, 6]], tf.float32)
    assert not np.any(bx.iou(UNIT, others))
    np.testing.assert_array_equal(bx.area(others), [0, 0, 0, 1])
    np.testing.assert_array_equal(np.diag(bx.iou(others, others)), [0, 0, 0, 1])


def test_coding_known():
    deltas = bx.encode(BOX, ANCHOR)
    np.testing.assert_allclose(deltas, [3, 1, 0.911608, -1.115718], atol=1e-6)
    np.testing.assert_allclose(
        bx.encode(BOX, ANCHOR, bx.ANCHOR_WEIGHTS), deltas / [10, 10, 5, 5], atol=1e-6
    )


@pytest.mark.parametrize("weights", [bx.ANCHOR_WEIGHTS, bx.REGION_WEIGHTS])
def test_coding_round_trip(weights):
    boxes, anchors = random_boxes(50), random_boxes(50, seed=1)
    deltas = bx.encode(tf.constant(boxes), tf.constant(anchors), weights)
    np.testing.assert_allclose(bx.decode(deltas, tf.constant(anchors), weights), boxes, atol=1e-3)


def test_coding_without_area_is_0():
    assert not np.any(bx.encode(BOX, EMPTY))
    assert not np.any(bx.encode(EMPTY, BOX))
    with tf.GradientTape() as tape:
        tape.watch(EMPTY)
        deltas = bx.encode(BOX, EMPTY)
    assert np.all(np.isfinite(tape.gradient(deltas, EMPTY)))
    decoded = bx.decode(tf.constant([1.0, 1, 1, 1]), EMPTY)
    assert np.all(np.isfinite(decoded))
    assert bx.area(decoded) == 0


def test_decoding_is_bounded():
    box = bx.decode(
        tf.constant([0.0, 0, 1e6, -1e6]), tf.constant([0.0, 0, 16, 16]), bx.ANCHOR_WEIGHTS
    )
    np.testing.assert_allclose(box, [8 - 500, 8, 8 + 500, 8])


def test_clip_to_each_image():
    boxes = tf.constant([[[-5.0, -5, 50, 60], [10, 10, 20, 20]]] * 2)
    wanted = [[[0, 0, 40, 30], [10, 10, 20, 20]], [[0, 0, 15, 60], [10, 10, 15, 20]]]
    np.testing.assert_array_equal(bx.clip(boxes, tf.constant([[40, 30], [15, 100]])), wanted)


def test_anchors_known():
    anchors = bx.anchor_grid(1, 2, 4, [32, 64], [0.25, 1, 4])
    first = [[-6, -30, 10, 34], [-14, -14, 18, 18], [-30, -6, 34, 10]]
    second = [[-14, -62, 18, 66], [-30, -30, 34, 34], [-62, -14, 66, 18]]
    np.testing.assert_allclose(anchors[:6], first + second, atol=1e-5)
    np.testing.assert_allclose(anchors[-1], [-62, -10, 66, 22], atol=1e-5)


def batch(count):
    boxes = np.stack([random_boxes(count, seed) for seed in range(2)])
    return boxes, np.random.default_rng(9).normal(size=[2, count]).astype(np.float32)


def suppressed(boxes, scores, *arguments, jit=False):
    function = (
        tf.function(lambda *x: non_max_suppression(*x, *arguments), jit_compile=True)
        if jit
        else None
    )
    indices, valid = (function or (lambda *x: non_max_suppression(*x, *arguments)))(
        *map(tf.constant, (boxes, scores))
    )
    return [i[v] for i, v in zip(indices.numpy(), valid.numpy())]


@pytest.mark.slow
# Also more boxes than a tile of the op, and fewer.
@pytest.mark.parametrize(
    ("boxes", "count", "threshold", "jit"),
    [(40, 40, 0.3, False), (600, 600, 0.5, False), (600, 20, 0.7, True)],
)
def test_equals_tensorflows(boxes, count, threshold, jit):
    boxes, scores = batch(boxes)
    ours = suppressed(boxes, scores, boxes.shape[1], count, threshold, jit=jit)
    for i in range(2):
        np.testing.assert_array_equal(
            ours[i], tf.image.non_max_suppression(boxes[i], scores[i], count, threshold)
        )


@pytest.mark.slow
def test_suppression_equals_definition_with_excluded_boxes():
    boxes, scores = batch(80)
    scores[0, ::3] = -np.inf
    boxes[1, ::2, 2:] = boxes[1, ::2, :2]
    boxes[1, 5] = 0
    for i, ours in enumerate(suppressed(boxes, scores, 80, 80, 0.4)):
        np.testing.assert_array_equal(ours, oracle(boxes[i], scores[i], 80, 0.4))


@pytest.mark.slow
def test_only_the_candidates_are_looked_at():
    boxes, scores = batch(50)
    for i, ours in enumerate(suppressed(boxes, scores, 10, 30, 0.5)):
        best = np.argsort(-scores[i])[:10]
        np.testing.assert_array_equal(ours, best[oracle(boxes[i][best], scores[i][best], 30, 0.5)])


@pytest.mark.slow
def test_more_places_than_boxes():
    boxes, scores = (
        tf.constant([[[0.0, 0, 10, 10], [0, 0, 10, 5], [20, 20, 30, 30]]]),
        tf.constant([[0.1, 0.9, 0.5]]),
    )
    indices, valid = non_max_suppression(boxes, scores, 100, 7, 0.5)
    assert indices.shape == valid.shape == (1, 7)
    np.testing.assert_array_equal(valid[0], [True, True] + [False] * 5)
    # The overlap of the first two is 0.5 exactly, which suppresses.
    np.testing.assert_array_equal(indices[0, :2], [1, 2])


ANCHORS = anchor_grid(4, 6, 8, [8, 16], [1])  # of an image of 32x48
SIZES = tf.constant([[32, 48], [20, 30]])


@pytest.mark.slow
def test_padding_is_not_inside():
    whole, part = inside(tf.constant(ANCHORS), SIZES).numpy()
    assert whole.all()
    centres = (ANCHORS[:, :2] + ANCHORS[:, 2:]) / 2
    np.testing.assert_array_equal(part, (centres[:, 0] < 20) & (centres[:, 1] < 30))


@pytest.mark.slow
def test_proposals():
    boxes = np.array([[3, 5, 17, 22], [2, 24, 30, 47]], np.float32)
    deltas = np.zeros([2, len(ANCHORS), 4], np.float32)
    objectness = np.full([2, len(ANCHORS)], -5, np.float32)
    for place, box, logit in zip([16, 40], boxes, (1, 2)):
        deltas[:, place] = encode(tf.constant(box), tf.constant(ANCHORS[place]), ANCHOR_WEIGHTS)
        objectness[:, place] = logit
    arguments = [tf.constant(x) for x in (objectness, deltas, ANCHORS)]
    proposals, valid = propose(*arguments, SIZES, candidates=2, count=5, iou_threshold=0.7)
    np.testing.assert_allclose(proposals[0, :2], boxes[::-1], atol=1e-4)
    np.testing.assert_array_equal(valid[0], [True, True, False, False, False])
    assert not np.any(proposals[0, 2:])
    # In the smaller image the anchor of the better box lies in the padding; another one comes
    # instead.
    np.testing.assert_allclose(proposals[1, 0], boxes[0], atol=1e-4)
    many, valid = propose(*arguments, SIZES, candidates=100, count=30, iou_threshold=0.7)
    assert valid[0].numpy().sum() > valid[1].numpy().sum() > 2
    assert np.all((many >= 0) & (many <= tf.cast(tf.tile(SIZES, [1, 2]), tf.float32)[:, None]))


IMAGE_SIZES = tf.constant([[90, 80], [100, 100]])


def inputs(count, classes):
    random = np.random.default_rng(0)
    proposals = np.stack([random_boxes(count, i) for i in range(2)])
    proposals = np.minimum(proposals, np.tile(IMAGE_SIZES, [1, 2])[:, None]).astype(np.float32)
    logits = random.normal(0, 2, [2, count, classes + 1]).astype(np.float32)
    deltas = random.normal(0, 0.5, [2, count, classes, 4]).astype(np.float32)
    return logits, deltas, proposals, np.arange(count)[None] < [[count], [count // 2]]


def by_definition(logits, deltas, proposals, valid, size, config):
    """(score, label, box) of one image, best first: every class on its own, then the best of
    all.
    """
    p = np.exp(logits - logits.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    found = []
    for label in range(deltas.shape[1]):
        sides, d = proposals[:, 2:] - proposals[:, :2], deltas[:, label]
        centre = proposals[:, :2] + sides / 2 + d[:, :2] / 10 * sides
        half = sides * np.exp(d[:, 2:] / 5) / 2
        boxes = np.concatenate(
            [np.clip(centre - half, 0, size), np.clip(centre + half, 0, size)], 1
        )
        scores = np.where(valid & (p[:, label] > config.detection_score), p[:, label], -np.inf)
        taken = oracle(boxes, scores, len(boxes), config.detection_nms_iou)
        found += [(scores[i], label, boxes[i]) for i in taken]
    return sorted(found, key=lambda entry: -entry[0])[: config.detections]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "jit"),
    [
        (InferenceConfig(), False),
        (InferenceConfig(detection_score=0.3, detections=7), True),
    ],
)
def test_equals_the_definition(config, jit):
    arguments = inputs(40, 3)
    function = tf.function(detect, jit_compile=True) if jit else detect
    boxes, scores, labels, count = function(*map(tf.constant, arguments), IMAGE_SIZES, config)
    assert boxes.shape == (2, config.detections, 4)
    for i in range(2):
        wanted = by_definition(*(x[i] for x in arguments), IMAGE_SIZES[i].numpy(), config)
        n = int(count[i])
        assert n == len(wanted) > 3
        for ours, theirs in zip((scores, labels, boxes), zip(*wanted)):
            np.testing.assert_allclose(ours[i, :n], theirs, atol=1e-3)
        assert not np.any(boxes[i, n:])
        assert not np.any(scores[i, n:])
        assert np.all(labels[i, n:] == -1)


@pytest.mark.slow
def test_nothing_found():
    logits, deltas, proposals, valid = inputs(40, 3)
    logits[..., -1] = 50  # the background
    detections = detect(
        *map(tf.constant, (logits, deltas, proposals, valid)), IMAGE_SIZES, InferenceConfig()
    )
    assert not np.any(detections.count)
    assert not np.any(detections.boxes)
    assert np.all(detections.labels == -1)
