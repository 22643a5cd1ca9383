"""Counts what evaluations compute outside the replicas, and looks into the programs that the
replicas run.
"""

from __future__ import annotations

import collections
import contextlib
import re
from collections.abc import Iterator
from typing import NamedTuple

import pytest
import tensorflow as tf
from tensorflow.python.framework import op_callbacks  # what tf.debugging's dumps are made with

from cpc_tf.evaluation import inference


class Traffic(NamedTuple):
    """What a run did."""

    # Types of the operations that ran outside of compiled functions, and names of these functions.
    eager: list[str]
    # Of the programs that all replicas run, one for each time one was traced.
    graphs: list[tf.Graph]

    def between_batches(self) -> set[str]:
        """The types of operations between two batches of the same evaluation; empty if none had
        two.
        """
        calls = [index for index, name in enumerate(self.eager) if name.startswith("__inference")]
        programs = {graph.name for graph in self.graphs}
        found = set()
        for last, then in zip(calls, calls[1:]):
            name = self.eager[last]
            if (
                name == self.eager[then]
                and re.fullmatch(r"__inference_(.*)_\d+", name)[1] in programs
            ):
                found.update(self.eager[last + 1 : then])
        return found


@contextlib.contextmanager
def watched() -> Iterator[Traffic]:
    """Watches all that runs meanwhile."""
    found, run = Traffic([], []), inference._run

    def count(op_type, inputs, attrs, outputs, op_name=None, graph=None):
        if graph is None:
            found.eager.append(op_type if isinstance(op_type, str) else op_type.decode())

    def traced(*args):
        found.graphs.append(tf.compat.v1.get_default_graph())
        return run(*args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inference, "_run", traced)
        op_callbacks.add_op_callback(count)
        try:
            yield found
        finally:
            op_callbacks.remove_op_callback(count)


def largest_constant(graph: tf.Graph) -> int:
    """The elements of the largest tensor that a program holds: a constant in it or in a function,
    or a captured one.
    """
    nodes = graph.as_graph_def()
    constants = [node.attr["value"].tensor for node in nodes.node if node.op == "Const"]
    for function in nodes.library.function:
        constants += [node.attr["value"].tensor for node in function.node_def if node.op == "Const"]
    sizes = [tf.TensorShape(constant.tensor_shape).num_elements() for constant in constants]
    captured = [outer for outer, _ in graph.captures if outer.dtype != tf.resource]
    return max([0, *sizes, *(tensor.shape.num_elements() for tensor in captured)])


def devices_of_variables(graph: tf.Graph) -> collections.Counter:
    """{device: how many variables of it a program reads}; raises AssertionError if another device
    reads one.
    """
    homes = {
        inner.name: outer.device for outer, inner in graph.captures if outer.dtype == tf.resource
    }
    for operation in graph.get_operations():
        for tensor in operation.inputs:
            if tensor.name in homes and operation.device:
                own = tf.DeviceSpec.from_string(homes[tensor.name]).device_index
                assert tf.DeviceSpec.from_string(operation.device).device_index == own, (
                    operation.name
                )
    return collections.Counter(homes.values())
