"""The linear classifier."""

import numpy as np

from cpc_tf.linear.classifier import LinearClassifier


def test_classifier_is_the_papers():
    classifier = LinearClassifier(7)
    latents = np.random.default_rng(0).normal(2, 3, [4, 3, 3, 5]).astype(np.float32)
    logits = classifier(latents, training=True)
    # Batch norm without scale: an offset per feature; the 1x1 convolution: a matrix and a bias.
    assert sorted(tuple(v.shape) for v in classifier.trainable_variables) == [(1, 1, 5, 7), (5,), (7,)]
    normal = (latents - latents.mean((0, 1, 2))) / np.sqrt(latents.var((0, 1, 2)) + 1e-3)
    wanted = (normal @ classifier.logits.kernel.numpy()[0, 0]).mean((1, 2))
    np.testing.assert_allclose(logits, wanted, atol=1e-4)
