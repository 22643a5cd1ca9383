import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.evaluation.replicas import on_replicas
from cpc_tf.training.strategy import make_strategy


@pytest.fixture(params=["one", "two", "four"])
def strategy(request):
    return make_strategy("single") if request.param == "one" else request.getfixturevalue(f"{request.param}_replicas")


@pytest.mark.parametrize("program", ["plain", "fixed", "xla"])
def test_rows_are_those_of_a_loop(strategy, program):
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


def test_a_replica_computes_only_its_own_rows(two_replicas):
    with two_replicas.scope():
        own = tf.VariableSynchronization.ON_READ
        rows = tf.Variable(0, synchronization=own, aggregation=tf.VariableAggregation.SUM)

    def count(x):
        rows.assign_add(x.shape[0])
        return x

    on_replicas(count, two_replicas, 3)(tf.zeros([6, 2]))
    assert [int(copy) for copy in two_replicas.experimental_local_results(rows)] == [3, 3]
