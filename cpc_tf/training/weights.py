"""Looks at the weights before they are saved, on the devices: finite, and the same on all replicas."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from cpc_tf.settings import RunEnded
from cpc_tf.texts import listed
from cpc_tf.training import agreement


class ReplicasDiffer(RunEnded):
    """Replicas that must hold the same weights do not."""

    status = 3


class Weights:
    """What all replicas of a training must hold alike.

    Args:
      strategy: of the run.
      variables: that are trained. Statistics are none: third-party modules have them from each replica's images.
    """

    def __init__(self, strategy: tf.distribute.Strategy, variables: Sequence[tf.Variable]):
        self._strategy = strategy
        self._variables = [variable for variable in variables if variable.dtype.is_floating]
        one = strategy.num_replicas_in_sync == 1 and not isinstance(strategy, tf.distribute.TPUStrategy)
        run = strategy.run if not one else (lambda function: function())
        self._sums = (lambda: run(self._own_sums)) if one else tf.function(lambda: run(self._own_sums), autograph=False)

    def check(self, when: Callable[[], str] = str) -> str | None:
        """Returns the name of a variable whose norm is not finite: its values are not, or too large to be squared.

        None if the norms of all variables are finite.

        Args:
          when: returns the end of the message of an error.

        Raises:
          ReplicasDiffer: the replicas hold different values; those that differ from most are named.
        """
        if not self._variables:
            return None
        norms, sums = (map(np.asarray, self._strategy.experimental_local_results(of)) for of in self._sums())
        rows = [[_first(~np.isfinite(norm)), agreement.number(own.tobytes())] for norm, own in zip(norms, sums)]
        bad, numbers = agreement.gathered(self._strategy, rows).T
        if (bad >= 0).all():
            return self._variables[bad[0]].name
        if len(set(numbers.tolist())) > 1:
            names = agreement.replica_names(self._strategy)
            odd = [names[index] for index in agreement.odd_ones(numbers.tolist())]
            others = "" if len(odd) == len(names) else f" from those of the other {len(names) - len(odd)} replicas"
            raise ReplicasDiffer(
                f"the weights of {listed(odd)} differ{others}, though all make the same updates, {when()}"
            )
        return None

    def _own_sums(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns of each variable of this replica the norm, float32 [V], and the sum of its bits as int32, int64 [V].

        That sum has no rounding, and one bit that differs changes it.
        """
        values = [tf.cast(variable, tf.float32) for variable in self._variables]
        bits = [tf.reduce_sum(tf.cast(tf.bitcast(value, tf.int32), tf.int64)) for value in values]
        return tf.stack([tf.norm(value) for value in values]), tf.stack(bits)


def _first(which: np.ndarray) -> int:
    """Returns the index of the first that is true, -1 if none is."""
    return int(which.argmax()) if which.any() else -1
