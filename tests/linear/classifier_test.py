"""The linear classifier, and the batches of the features that it learns from."""

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.evaluation.features import Features, encode_dataset, feature_batches
from cpc_tf.linear.classifier import LinearClassifier
from cpc_tf.settings import ConfigError


def test_classifier_is_the_papers():
    classifier = LinearClassifier(7)
    latents = np.random.default_rng(0).normal(2, 3, [4, 3, 3, 5]).astype(np.float32)
    logits = classifier(latents, training=True)
    # Batch norm without scale: an offset per feature; the 1x1 convolution: a matrix and a bias.
    assert sorted(tuple(v.shape) for v in classifier.trainable_variables) == [(1, 1, 5, 7), (5,), (7,)]
    normal = (latents - latents.mean((0, 1, 2))) / np.sqrt(latents.var((0, 1, 2)) + 1e-3)
    wanted = (normal @ classifier.logits.kernel.numpy()[0, 0]).mean((1, 2))
    np.testing.assert_allclose(logits, wanted, atol=1e-4)


@pytest.mark.parametrize(("size", "batch"), [(10, 4), (7, 16)])
def test_feature_batches_see_each_example_once_an_epoch_and_resume_anywhere(size, batch):
    features = Features(np.arange(size, dtype=np.float32).reshape(-1, 1, 1, 1), np.arange(size))
    batches = list(feature_batches(features, global_batch=batch, seed=3).take(2 * size).as_numpy_iterator())
    labels = np.concatenate([b["label"] for b in batches])
    for epoch in labels[: 2 * size * batch // size * size].reshape(-1, size):
        assert sorted(epoch) == list(range(size))
    assert (labels[:size] != labels[size : 2 * size]).any()
    np.testing.assert_array_equal(np.concatenate([b["latents"] for b in batches])[:, 0, 0, 0], labels)
    resumed = next(feature_batches(features, global_batch=batch, seed=3, start_step=5).as_numpy_iterator())
    np.testing.assert_array_equal(resumed["label"], batches[5]["label"])


@pytest.mark.parametrize(("hosts", "replicas"), [(1, 4), (2, 2)])
def test_replicas_get_their_rows_of_the_batch_of_one_device(hosts, replicas):
    features = Features(np.zeros([10, 1, 1, 1], np.float32), np.arange(10))
    (whole,) = feature_batches(features, global_batch=8, seed=3, start_step=5).take(1).as_numpy_iterator()
    found = []
    for host in range(hosts):
        options = {"seed": 3, "start_step": 5, "shard": (host, hosts), "per_batch": 8 // hosts // replicas}
        own = feature_batches(features, global_batch=8, **options).take(replicas)
        found += [batch["label"] for batch in own.as_numpy_iterator()]
    np.testing.assert_array_equal(np.concatenate(found), whole["label"])


def test_data_that_end_early_are_no_features():
    batches = [{"patches": tf.zeros([4, 1]), "label": tf.zeros([4], tf.int64)}] * 2
    with pytest.raises(ConfigError, match="^encoding: the data ended after 8 of 10 images; a file of the"):
        encode_dataset(batches, lambda patches: patches, 10, "encoding")


def test_encode_dataset_takes_the_first_examples_in_order(capsys):
    batches = [
        {"patches": tf.fill([4, 1, 1, 2, 2, 3], i), "label": tf.fill([4], tf.constant(i, tf.int64))} for i in range(10)
    ]
    features = encode_dataset(batches, lambda p: tf.cast(p[..., 0, 0, :1], tf.float32), 10, "encoding")
    assert features.latents.shape == (10, 1, 1, 1)
    np.testing.assert_array_equal(features.labels, [0] * 4 + [1] * 4 + [2] * 2)
    np.testing.assert_array_equal(features.latents[:, 0, 0, 0], features.labels)
    assert "encoding: 10/10 100 %" in capsys.readouterr().out
