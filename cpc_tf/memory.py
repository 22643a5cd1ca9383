"""The memory that a training step needs, estimated from its graph, and what is free.

The estimate walks through the operations in the order in which they were traced. Each output takes memory from its
operation on and up to the last one that reads it; views and reads of variables take none, and an operation value by
value may write where its input was. Memory that is given back is taken again by outputs of the same size alone: the
system's allocator keeps it for the process, with gaps between outputs that wait, which larger ones do not fit into.
Not counted: what a convolution needs beside its output, TensorFlow's own copies of the graph, and batches that wait.
docs/speed.md has measured peaks beside estimates.
"""

from __future__ import annotations

import math
import pathlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

import tensorflow as tf
from tensorflow.python.framework import (
    op_def_registry,
)  # nothing public says in which order outputs are named

from cpc_tf.core.settings import ConfigError

NodeDef = tf.compat.v1.NodeDef
_Output = tuple[str, int]  # a node, and which of its outputs

# Outputs that are memory which is there already.
_NO_MEMORY = {
    "Const",
    "Identity",
    "NoOp",
    "Placeholder",
    "PreventGradient",
    "ReadVariableOp",
    "StopGradient",
}
_VIEWS = {
    "ExpandDims",
    "Identity",
    "IdentityN",
    "PreventGradient",
    "Reshape",
    "Squeeze",
    "StopGradient",
}
_IN_PLACE = {"Add", "AddV2", "BiasAdd", "Mul", "Relu", "ReluGrad", "Select", "SelectV2", "Sub"}
_CGROUPS = (
    ("memory.max", "memory.current"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
)


def refuse_too_large(needed: float, flag: str, what: str, remedy: str) -> None:
    """Raises ConfigError if this machine has not so many bytes of memory left.

    Args:
      needed: bytes.
      flag: what made them so many, with its value.
      what: what needs them.
      remedy: what needs less.
    """
    free = available()
    if free is not None and needed > free:
        raise ConfigError(
            f"{flag}: {what} needs about {needed / 1e9:.3g} GB of memory, and {free / 1e9:.3g} GB are free; {remedy}"
        )


def available(root: str = "/") -> float | None:
    """Returns the bytes that this process may still take, by the system and its control groups; None if unknown."""
    limits = []
    for line in _lines(pathlib.Path(root, "proc/meminfo")):
        if line.startswith("MemAvailable:"):
            limits.append(1024.0 * int(line.split()[1]))
    for most, used in _CGROUPS:
        numbers = [_lines(pathlib.Path(root, "sys/fs/cgroup", name)) for name in (most, used)]
        if all(lines and lines[0].isdigit() for lines in numbers):  # 'max' is no limit
            # Memory that holds files can be taken back.
            statistics = _lines(pathlib.Path(root, "sys/fs/cgroup", most).parent / "memory.stat")
            files = [
                line
                for line in statistics
                if line.startswith(("inactive_file ", "total_inactive_file "))
            ]
            reclaimable = sum(float(line.split()[1]) for line in files)
            limits.append(max(0.0, float(numbers[0][0]) - float(numbers[1][0]) + reclaimable))
    return min(limits, default=None)


def _lines(path: pathlib.Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def estimated(graph: tf.Graph) -> float:
    """Returns the bytes that computing a graph takes at most, without its variables."""
    definition = graph.as_graph_def(add_shapes=True)
    functions = {each.signature.name: each for each in definition.library.function}
    taken: dict[str, float] = {}

    def of_function(name: str) -> float:
        if name not in taken:
            taken[name] = 0.0  # one that calls itself ends here
            if name in functions:
                taken[name] = _taken(
                    functions[name].node_def, functions[name].ret.values(), of_function
                )
        return taken[name]

    return _taken(definition.node, (), of_function)


def _taken(
    nodes: Sequence[NodeDef], returned: Iterable[str], of_function: Callable[[str], float]
) -> float:
    """Returns the bytes that nodes take in their order; what a function returns counts where it is called."""
    named = {node.name: node for node in nodes}
    views: dict[_Output, _Output] = {}  # an output -> the one whose memory it shows
    last: dict[_Output, int] = {}  # an output -> the last node that reads it

    def root(name: str) -> _Output:
        output = _output(name, named)
        return views.get(output, output)

    for number, node in enumerate(nodes):
        sources = [root(name) for name in node.input if not name.startswith("^")]
        last.update(dict.fromkeys(sources, number))
        if node.op in _VIEWS:
            views.update(((node.name, index), source) for index, source in enumerate(sources))
    elsewhere = {root(name) for name in returned}
    ending: dict[int, list[_Output]] = {}
    for output, number in last.items():
        ending.setdefault(number, []).append(output)
    total, inside, live, free = 0.0, 0.0, {}, Counter()

    def give_back(outputs: Iterable[_Output]) -> None:
        free.update(live.pop(output) for output in outputs if output in live)

    for number, node in enumerate(nodes):
        called = [value.func.name for value in node.attr.values() if value.HasField("func")]
        inside = max([inside, *map(of_function, called)])
        if node.op in _IN_PLACE:
            give_back(ending.get(number, ()))
        made = {(node.name, index): size for index, size in enumerate(_sizes(node))}
        for output, size in made.items():
            if output in elsewhere:
                continue
            live[output] = size
            if free[size]:
                free[size] -= 1
            else:
                total += size
        give_back(ending.get(number, ()))
        give_back(output for output in made if output not in last)
    return total + inside


def _output(name: str, named: dict[str, NodeDef]) -> _Output:
    """Returns what a node names as its input: 'node', 'node:number' or, within a function, 'node:output:number'."""
    node, *kind, number = name.split(":") if ":" in name else (name, 0)
    number = int(number)
    if not kind or node not in named:
        return node, number
    made, definition = named[node].attr, op_def_registry.get(named[node].op)
    for each in definition.output_arg if definition else ():
        if each.name == kind[0]:
            break
        several = len(made[each.type_list_attr].list.type) if each.type_list_attr else 1
        number += made[each.number_attr].i if each.number_attr else several
    return node, number


def _sizes(node: NodeDef) -> Iterator[float]:
    """Yields the bytes of the outputs of a node; those of unknown shape count as none."""
    if node.op in _NO_MEMORY | _VIEWS:
        return
    kinds = node.attr
    shapes = kinds["_output_shapes"].list.shape
    lists = (list(kinds[name].list.type) for name in ("output_types", "Tout", "T") if name in kinds)
    kind = next(
        (kinds[name].type for name in ("DstT", "T", "dtype") if name in kinds),
        tf.float32.as_datatype_enum,
    )
    dtypes = next(filter(None, lists), [kind] * len(shapes))
    for shape, kind in zip(shapes, dtypes):
        sides = [dim.size for dim in shape.dim]
        is_known = kind and not shape.unknown_rank and min(sides, default=0) >= 0
        dtype = tf.as_dtype(kind or tf.float32)
        yield (
            float(math.prod(sides) * dtype.size) if is_known and dtype.is_numpy_compatible else 0.0
        )
