"""A stand-in for a TPU pod: traces a replica's step as TPUStrategy would, collectives and all,
without a TPU.

It is TensorFlow's own strategy for TPUs, its variables, its rules of aggregation and its
collectives, but for what asks the TPU itself. One replica's copy of each variable exists, on the
CPU. Nothing is run.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import tensorflow as tf
from tensorflow.compiler.tf2xla.ops.gen_xla_ops import xla_replica_id
from tensorflow.python.distribute import tpu_strategy
from tensorflow.python.distribute.distribute_lib import UpdateContext

_CPU = "/job:localhost/replica:0/task:0/device:CPU:0"


class _Extended(tpu_strategy.TPUExtended):
    """TPUStrategy's implementation, as it is inside a program for the TPU."""

    def __init__(self, strategy: tf.distribute.Strategy, replicas: int):
        # Not TPUExtended's own, which asks for the TPU.
        tf.distribute.StrategyExtended.__init__(self, strategy)
        self._device_assignment = SimpleNamespace(num_replicas=replicas)
        self._tpu_devices = np.array([[_CPU]], object)
        self._host_device = _CPU
        self._logical_device_stack = [0]
        # whether a replica's program is traced, and how many sums it has
        self.inside = False
        self._sums = 0
        self._use_var_policy = True
        self._use_spmd_for_xla_partitioning = False
        self._using_custom_device = False

    def _reduce_to(self, reduce_op, value, destinations, options):
        if not self.inside or isinstance(value, (int, float)):
            return super()._reduce_to(reduce_op, value, destinations, options)
        if reduce_op == tf.distribute.ReduceOp.MEAN:
            value = tf.math.scalar_mul(1.0 / self._num_replicas_in_sync, value)
        return self._sum(value)

    def _sum(self, value: tf.Tensor) -> tf.Tensor:
        """The sum over all replicas: TPUStrategy's CrossReplicaSum, which CPUs lack, becomes the
        same in a program.
        """
        self._sums += 1
        same = {
            "group_size": self._num_replicas_in_sync,
            "group_key": 1,
            "instance_key": self._sums,
        }
        return tf.raw_ops.CollectiveReduceV2(
            input=value, **same, ordering_token=[], merge_op="Add", final_op="Id"
        )

    def _update(self, var, fn, args, kwargs, group):
        with UpdateContext(0):
            found = fn(var.values[0], *args, **kwargs)
        return found if group else (found,)


class _Replica(tpu_strategy._TPUReplicaContext):
    """A replica whose number is known when the program runs; it has the only copy of each
    variable.
    """

    @property
    def replica_id_in_sync_group(self) -> tf.Tensor:
        return xla_replica_id()


class Pod(tf.distribute.TPUStrategy):
    """TPUStrategy on so many cores, none of which is there."""

    def __init__(self, replicas: int):
        tf.distribute.Strategy.__init__(self, _Extended(self, replicas))

    def run(self, fn, args=(), kwargs=None, options=None):
        """Runs a function on replica 0, on the CPU; models try out their encoders."""
        with tpu_strategy._TPUReplicaContext(self, 0):
            return fn(*args, **(kwargs or {}))

    def in_replica(self, function: Callable) -> Callable:
        """Returns the function, called in the context of a replica."""

        def call(*args):
            self.extended.inside = True
            try:
                with _Replica(self, 0):
                    return function(*args)
            finally:
                self.extended.inside = False

        return call

    def program(self, function: Callable, *inputs: tf.TensorSpec) -> bytes:
        """Returns the program of a replica as serialized HLO, before the compiler's passes."""
        step = tf.function(self.in_replica(function), autograph=False, jit_compile=True)
        return step.experimental_get_compiler_ir(*inputs)(stage="hlo_serialized")
