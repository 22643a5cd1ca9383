import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.evaluation.replicas import on_replicas, own_images
from cpc_tf.training import cluster
from cpc_tf.training.strategy import make_strategy


@pytest.fixture(params=["one", "four"])
def strategy(request):
    return make_strategy("single") if request.param == "one" else request.getfixturevalue("four_replicas")


@pytest.mark.slow
@pytest.mark.parametrize("program", ["plain", "fixed", "xla", "tpu"])
def test_rows_are_those_of_a_loop(strategy, program, monkeypatch):
    """Each replica computes its own rows only, and one program serves all batches where another would cost much."""
    if program == "tpu":  # as which the strategy is taken here
        monkeypatch.setattr(tf.distribute, "TPUStrategy", type(strategy))
    with strategy.scope():
        factor = tf.Variable(3.0)
    seen = []

    def function(batch, extra):
        seen.append(batch["x"].shape)
        return {"sum": batch["x"] * factor + extra, "parts": (tf.cast(batch["y"], tf.int32),)}

    replicas = strategy.num_replicas_in_sync
    apply = on_replicas(function, strategy, 3, "on" if program == "xla" else "off", fixed=program == "fixed")
    most = 3 * replicas
    for count in (most, 1, replicas, 2 * replicas, most - 1):
        x = np.random.default_rng(count).normal(size=[count, 3]).astype(np.float32)
        y, extra = np.arange(count), np.ones([count, 1], np.float32)
        found = apply({"x": tf.constant(x), "y": tf.constant(y)}, extra)
        wanted = [[3 * value + 1 for value in row] for row in x]
        np.testing.assert_allclose(found["sum"], wanted, rtol=1e-6)
        np.testing.assert_array_equal(found["parts"][0], y)
    assert seen == [
        tf.TensorShape([n, 3]) for n in ((3, 1, 2) if program == "plain" else (3,)) for _ in range(replicas)
    ]
    with pytest.raises(ValueError, match=f"^{most + 1} rows, and the replicas take {most} at a time$"):
        apply({"x": tf.zeros([most + 1, 3]), "y": tf.zeros([most + 1])}, tf.zeros([most + 1, 1]))


def test_many_functions_are_not_taken_for_one_that_is_traced_each_time(caplog):
    tf.get_logger().addHandler(caplog.handler)
    for _ in range(6):
        on_replicas(lambda x: x, make_strategy("single"), 3)(tf.zeros([3]))
    tf.get_logger().removeHandler(caplog.handler)
    assert "retracing" not in caplog.text


def test_each_process_needs_the_images_that_its_replicas_compute(two_replicas, monkeypatch):
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
