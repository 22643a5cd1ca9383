import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.detect.suppression import non_max_suppression
from tests.detect.samples import oracle, random_boxes


def batch(count, images=2):
    boxes = np.stack([random_boxes(count, seed) for seed in range(images)])
    scores = np.random.default_rng(9).normal(size=[images, count]).astype(np.float32)
    return tf.constant(boxes), tf.constant(scores)


def run(boxes, scores, *arguments, jit=False):
    function = tf.function(lambda boxes, scores: non_max_suppression(boxes, scores, *arguments), jit_compile=jit)
    indices, valid = (x.numpy() for x in function(boxes, scores))
    assert all(np.all(row[: row.sum()]) for row in valid), "the valid ones come first"
    return [i[v] for i, v in zip(indices, valid)]


# Also more boxes than a tile of the op, and fewer.
@pytest.mark.parametrize(("boxes", "count", "threshold"), [(40, 40, 0.3), (600, 600, 0.5), (600, 20, 0.7)])
@pytest.mark.parametrize("jit", [False, True])
def test_equals_tensorflows(boxes, count, threshold, jit):
    boxes, scores = batch(boxes)
    ours = run(boxes, scores, boxes.shape[1], count, threshold, jit=jit)
    for i in range(2):
        np.testing.assert_array_equal(ours[i], tf.image.non_max_suppression(boxes[i], scores[i], count, threshold))


def test_equals_the_definition_with_boxes_not_to_be_taken():
    boxes, scores = (x.numpy() for x in batch(80))
    scores[0, ::3] = -np.inf
    boxes[1, ::2, 2:] = boxes[1, ::2, :2]
    boxes[1, 5] = 0
    for i, ours in enumerate(run(tf.constant(boxes), tf.constant(scores), 80, 80, 0.4)):
        np.testing.assert_array_equal(ours, oracle(boxes[i], scores[i], 80, 0.4))


def test_only_the_candidates_are_looked_at():
    boxes, scores = batch(50)
    for i, ours in enumerate(run(boxes, scores, 10, 30, 0.5)):
        best = np.argsort(-scores[i].numpy())[:10]
        assert set(ours) <= set(best)
        assert ours[0] == best[0]


def test_more_places_than_boxes():
    boxes = tf.constant([[[0.0, 0, 10, 10], [0, 0, 10, 5], [20, 20, 30, 30]]])
    scores = tf.constant([[0.1, 0.9, 0.5]])
    indices, valid = non_max_suppression(boxes, scores, 100, 7, 0.5)
    assert indices.shape == valid.shape == (1, 7)
    np.testing.assert_array_equal(valid[0], [True, True] + [False] * 5)
    # The overlap of the first two is 0.5 exactly, which is enough.
    np.testing.assert_array_equal(indices[0, :2], [1, 2])


def test_nothing_to_take():
    boxes, scores = batch(20)
    assert all(len(ours) == 0 for ours in run(boxes, scores - np.inf, 20, 5, 0.5, jit=True))
