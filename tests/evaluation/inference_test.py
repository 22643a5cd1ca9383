"""Functions on all replicas, and the features of a dataset in batches."""

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.core.settings import ConfigError
from cpc_tf.evaluation.inference import (
    Features,
    encode_dataset,
    feature_batches,
    on_replicas,
    own_images,
)
from cpc_tf.training import cluster
from cpc_tf.training.strategy import make_strategy


@pytest.fixture(params=["one", "four"])
def strategy(request):
    return (
        make_strategy("single")
        if request.param == "one"
        else request.getfixturevalue("four_replicas")
    )


@pytest.mark.slow
@pytest.mark.parametrize("program", ["plain", "fixed", "xla", "tpu"])
def test_rows_are_those_of_a_loop(strategy, program, monkeypatch):
    """Each replica computes its own rows only, and one program serves all batches where another
    would cost much.
    """
    if program == "tpu":  # as which the strategy is taken here
        monkeypatch.setattr(tf.distribute, "TPUStrategy", type(strategy))
    with strategy.scope():
        factor = tf.Variable(3.0)
    seen = []

    def function(batch, extra):
        seen.append(batch["x"].shape)
        return {"sum": batch["x"] * factor + extra, "parts": (tf.cast(batch["y"], tf.int32),)}

    replicas = strategy.num_replicas_in_sync
    apply = on_replicas(
        function, strategy, 3, "on" if program == "xla" else "off", fixed=program == "fixed"
    )
    most = 3 * replicas
    for count in (most, 1, replicas, 2 * replicas, most - 1):
        x = np.random.default_rng(count).normal(size=[count, 3]).astype(np.float32)
        y, extra = np.arange(count), np.ones([count, 1], np.float32)
        found = apply({"x": tf.constant(x), "y": tf.constant(y)}, extra)
        wanted = [[3 * value + 1 for value in row] for row in x]
        np.testing.assert_allclose(found["sum"], wanted, rtol=1e-6)
        np.testing.assert_array_equal(found["parts"][0], y)
    assert seen == [
        tf.TensorShape([n, 3])
        for n in ((3, 1, 2) if program == "plain" else (3,))
        for _ in range(replicas)
    ]
    with pytest.raises(
        ValueError, match=f"^{most + 1} rows, and the replicas take {most} at a time$"
    ):
        apply({"x": tf.zeros([most + 1, 3]), "y": tf.zeros([most + 1])}, tf.zeros([most + 1, 1]))


def test_many_functions_raise_no_retracing_warning(caplog):
    tf.get_logger().addHandler(caplog.handler)
    for _ in range(6):
        on_replicas(lambda x: x, make_strategy("single"), 3)(tf.zeros([3]))
    tf.get_logger().removeHandler(caplog.handler)
    assert "retracing" not in caplog.text


def test_process_needs_only_images_of_its_replicas(two_replicas, monkeypatch):
    """Two processes of one replica each are played by two replicas."""
    assert own_images(two_replicas, 3) is None
    monkeypatch.setattr(cluster, "addresses", lambda strategy: ["first:1", "second:1"])
    numbers, apart = tf.range(6), []
    for process in (0, 1):
        monkeypatch.setattr(cluster, "process", lambda strategy, process=process: process)
        own = own_images(two_replicas, 3)
        apart.append([int(place) for place in range(12) if own(place)])
    assert apart == [[0, 1, 2, 6, 7, 8], [3, 4, 5, 9, 10, 11]]

    def where(x):
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        return tf.stack([x, tf.fill(tf.shape(x), replica)], 1)

    apply = on_replicas(where, two_replicas, 3)
    for count in (6, 2):  # the last batch, too
        assert apply(numbers[:count]).numpy().tolist() == [[i, i // 3] for i in range(count)]


@pytest.mark.parametrize(("size", "batch"), [(10, 4), (7, 16)])
def test_feature_batches_cover_each_epoch_and_resume_anywhere(size, batch):
    features = Features(np.arange(size, dtype=np.float32).reshape(-1, 1, 1, 1), np.arange(size))
    batches = list(
        feature_batches(features, global_batch=batch, seed=3).take(2 * size).as_numpy_iterator()
    )
    labels = np.concatenate([b["label"] for b in batches])
    for epoch in labels[: 2 * size * batch // size * size].reshape(-1, size):
        assert sorted(epoch) == list(range(size))
    assert (labels[:size] != labels[size : 2 * size]).any()
    np.testing.assert_array_equal(
        np.concatenate([b["latents"] for b in batches])[:, 0, 0, 0], labels
    )
    resumed = next(
        feature_batches(features, global_batch=batch, seed=3, start_step=5).as_numpy_iterator()
    )
    np.testing.assert_array_equal(resumed["label"], batches[5]["label"])


@pytest.mark.parametrize(("hosts", "replicas"), [(1, 4), (2, 2)])
def test_replicas_get_rows_of_the_single_device_batch(hosts, replicas):
    features = Features(np.zeros([10, 1, 1, 1], np.float32), np.arange(10))
    (whole,) = (
        feature_batches(features, global_batch=8, seed=3, start_step=5).take(1).as_numpy_iterator()
    )
    found = []
    for host in range(hosts):
        options = {
            "seed": 3,
            "start_step": 5,
            "shard": (host, hosts),
            "per_batch": 8 // hosts // replicas,
        }
        own = feature_batches(features, global_batch=8, **options).take(replicas)
        found += [batch["label"] for batch in own.as_numpy_iterator()]
    np.testing.assert_array_equal(np.concatenate(found), whole["label"])


def test_data_that_end_early_are_no_features():
    batches = [{"patches": tf.zeros([4, 1]), "label": tf.zeros([4], tf.int64)}] * 2
    with pytest.raises(
        ConfigError, match="^encoding: the data ended after 8 of 10 images; a file of the"
    ):
        encode_dataset(batches, lambda patches: patches, 10, "encoding")


def test_encode_dataset_takes_the_first_examples_in_order(capsys):
    batches = [
        {"patches": tf.fill([4, 1, 1, 2, 2, 3], i), "label": tf.fill([4], tf.constant(i, tf.int64))}
        for i in range(10)
    ]
    features = encode_dataset(
        batches, lambda p: tf.cast(p[..., 0, 0, :1], tf.float32), 10, "encoding"
    )
    assert features.latents.shape == (10, 1, 1, 1)
    np.testing.assert_array_equal(features.labels, [0] * 4 + [1] * 4 + [2] * 2)
    np.testing.assert_array_equal(features.latents[:, 0, 0, 0], features.labels)
    assert "encoding: 10/10 100 %" in capsys.readouterr().out
