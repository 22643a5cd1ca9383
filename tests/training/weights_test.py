import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.training.strategy import make_strategy
from cpc_tf.training.weights import ReplicasDiffer, Weights


def variables(strategy):
    with strategy.scope():
        return [tf.Variable([[1.0, -2.0]]), tf.Variable(3, dtype=tf.int64), tf.Variable([0.5, 0.25, 8.0])]


def flip_a_bit(copy):
    """Flips the lowest bit of the last value."""
    copy.assign(tf.bitcast(tf.bitwise.bitwise_xor(tf.bitcast(copy, tf.int32), [0, 0, 1]), tf.float32))


@pytest.mark.parametrize("replicas", [2, 4])
def test_a_replica_whose_weights_have_another_bit_is_named(replicas, two_replicas, four_replicas):
    strategy = two_replicas if replicas == 2 else four_replicas
    trained = variables(strategy)
    weights = Weights(strategy, trained)
    assert weights.check() is None
    flip_a_bit(strategy.experimental_local_results(trained[2])[1])
    odd = "CPU:0, CPU:1 differ, though" if replicas == 2 else "CPU:1 differ from those of the other 3 replicas, though"
    with pytest.raises(ReplicasDiffer, match=f"the weights of {odd} all make the same updates, at step 3$") as ended:
        weights.check(lambda: "at step 3")
    assert ended.value.status == 3


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("bad", [np.nan, 1e38])
def test_a_variable_whose_norm_is_not_finite_is_named(bad, replicas, two_replicas):
    strategy = two_replicas if replicas == 2 else make_strategy("single")
    trained = variables(strategy)
    trained[2].assign([bad, bad, 0.0])
    assert Weights(strategy, trained).check() == trained[2].name
