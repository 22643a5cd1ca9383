import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.detect.config import InferenceConfig
from cpc_tf.detect.suppression import detect
from tests.detect.samples import oracle, random_boxes

SIZES = tf.constant([[90, 80], [100, 100]])


def inputs(count, classes, seed=0):
    random = np.random.default_rng(seed)
    proposals = np.stack([random_boxes(count, seed + i) for i in range(2)])
    proposals = np.minimum(proposals, np.tile(SIZES, [1, 2])[:, None]).astype(np.float32)
    logits = random.normal(0, 2, [2, count, classes + 1]).astype(np.float32)
    deltas = random.normal(0, 0.5, [2, count, classes, 4]).astype(np.float32)
    valid = np.arange(count)[None] < [[count], [count // 2]]
    return logits, deltas, proposals, valid


def by_definition(logits, deltas, proposals, valid, size, config):
    """(score, label, box) of one image, best first: every class on its own, then the best of all."""
    p = np.exp(logits - logits.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    found = []
    for label in range(deltas.shape[1]):
        sides, d = proposals[:, 2:] - proposals[:, :2], deltas[:, label]
        centre = proposals[:, :2] + sides / 2 + d[:, :2] / 10 * sides
        half = sides * np.exp(d[:, 2:] / 5) / 2
        boxes = np.concatenate([np.clip(centre - half, 0, size), np.clip(centre + half, 0, size)], 1)
        scores = np.where(valid & (p[:, label] > config.detection_score), p[:, label], -np.inf)
        taken = oracle(boxes, scores, len(boxes), config.detection_nms_iou)
        found += [(scores[i], label, boxes[i]) for i in taken]
    return sorted(found, key=lambda entry: -entry[0])[: config.detections]


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("config", [InferenceConfig(), InferenceConfig(detection_score=0.3, detections=7)])
def test_equals_the_definition(config, jit):
    arguments = inputs(40, 3)
    function = tf.function(lambda *x: detect(*x, SIZES, config), jit_compile=jit)
    boxes, scores, labels, count = function(*map(tf.constant, arguments))
    assert boxes.shape == (2, config.detections, 4)
    for i in range(2):
        wanted = by_definition(*(x[i] for x in arguments), SIZES[i].numpy(), config)
        n = int(count[i])
        assert n == len(wanted) > 3
        np.testing.assert_allclose(scores[i, :n], [entry[0] for entry in wanted], atol=1e-5)
        np.testing.assert_array_equal(labels[i, :n], [entry[1] for entry in wanted])
        np.testing.assert_allclose(boxes[i, :n], [entry[2] for entry in wanted], atol=1e-3)
        assert not np.any(boxes[i, n:])
        assert not np.any(scores[i, n:])
        assert np.all(labels[i, n:] == -1)


def test_nothing_found():
    logits, deltas, proposals, valid = inputs(40, 3)
    logits[..., -1] = 50  # the background
    detections = detect(*map(tf.constant, (logits, deltas, proposals, valid)), SIZES, InferenceConfig())
    assert not np.any(detections.count)
    assert not np.any(detections.boxes)
    assert np.all(detections.labels == -1)
