import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.detect.targets import region_losses, rpn_losses
from cpc_tf.detect.targets import Samples


def samples(valid, positive, labels=None):
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
    losses = rpn_losses(logits, deltas, samples([True, True, True, False], [True, False, False, False]))
    assert losses["rpn_class"].numpy() == pytest.approx((softplus(-3) + softplus(1) + softplus(0.5)) / 3, rel=1e-5)
    # Sample 0 is anchor 4: its differences are 16 to 19, wanted are 1 to 4.
    assert losses["rpn_box"].numpy() == pytest.approx(4 * 15 / 3)


def test_regions_by_hand():
    random = np.random.default_rng(0)
    logits, deltas = (
        random.normal(size=[1, 4, 4]).astype(np.float32),
        random.normal(size=[1, 4, 3, 4]).astype(np.float32),
    )
    drawn = samples([True, True, True, False], [True, True, False, False], [2, 0, 0, 0])
    losses = region_losses(tf.constant(logits), tf.constant(deltas), drawn)
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    # The third one is background, the last of the four logits.
    wanted = -(log_p[0, 0, 2] + log_p[0, 1, 0] + log_p[0, 2, 3]) / 3
    assert losses["region_class"].numpy() == pytest.approx(wanted, rel=1e-5)
    distances = np.abs(deltas[0, 0, 2] - [1, 2, 3, 4]).sum() + np.abs(deltas[0, 1, 0] - [1, 2, 3, 4]).sum()
    assert losses["region_box"].numpy() == pytest.approx(distances / 3, rel=1e-5)


def test_without_samples_all_is_0():
    none = samples([False] * 4, [False] * 4)
    losses = {
        **rpn_losses(tf.ones([1, 5]), tf.ones([1, 5, 4]), none),
        **region_losses(tf.ones([1, 4, 4]), tf.ones([1, 4, 3, 4]), none),
    }
    assert [loss.numpy() for loss in losses.values()] == [0, 0, 0, 0]
