import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.detect.targets import IGNORED, NEGATIVE, POSITIVE, match, sample


def matched(iou, learned=None, ignored=None, **kwargs):
    """`match` of one image."""
    iou = np.asarray(iou, np.float32)
    learned = np.ones(len(iou), bool) if learned is None else learned
    ignored = np.zeros(len(iou), bool) if ignored is None else ignored
    arguments = {"positive": 0.7, "negative": 0.3, **kwargs}
    matches, labels = match(*(tf.constant(x)[None] for x in (iou, learned, ignored)), **arguments)
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


def test_known():
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
    ("count", "most", "wanted"), [(20, 5, [(5, 15), (3, 5), (0, 20)]), (200, 50, [(30, 60), (3, 5), (0, 100)])]
)
def test_sample(count, most, wanted):
    indices, labels = (x.numpy() for x in sample(tf.constant(LABELS, tf.int32), count, most, tf.constant([1, 2])))
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
