"""The memory that a training step needs, estimated from its graph, and what is free.

The estimate walks through the operations in the order in which they were traced: an output takes memory from its
operation on and up to the last one that reads it. Views and reads of variables take none, and an operation value by
value may write where its input was. Not counted: what a convolution needs beside its output, and batches that wait.
docs/speed.md has measured peaks beside estimates.
"""

from __future__ import annotations

import math
import pathlib
from collections.abc import Callable, Iterable, Iterator, Sequence

import tensorflow as tf

from cpc_tf.settings import ConfigError

# Outputs that are memory which is there already.
_NO_MEMORY = {"Const", "Identity", "NoOp", "Placeholder", "PreventGradient", "ReadVariableOp", "StopGradient"}
_VIEWS = {"ExpandDims", "Identity", "IdentityN", "PreventGradient", "Reshape", "Squeeze", "StopGradient"}
_IN_PLACE = {"Add", "AddV2", "BiasAdd", "Mul", "Relu", "ReluGrad", "Select", "SelectV2", "Sub"}
_CGROUPS = (("memory.max", "memory.current"), ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"))


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
    found = []
    for line in _lines(pathlib.Path(root, "proc/meminfo")):
        if line.startswith("MemAvailable:"):
            found.append(1024.0 * int(line.split()[1]))
    for most, used in _CGROUPS:
        numbers = [_lines(pathlib.Path(root, "sys/fs/cgroup", name)) for name in (most, used)]
        if all(lines and lines[0].isdigit() for lines in numbers):  # 'max' is no limit
            found.append(max(0.0, float(numbers[0][0]) - float(numbers[1][0]) + _reclaimable(root, most)))
    return min(found, default=None)


def _reclaimable(root: str, name: str) -> float:
    """Returns the bytes of a control group that hold files and can be taken back."""
    lines = _lines(pathlib.Path(root, "sys/fs/cgroup", name).parent / "memory.stat")
    return sum(float(line.split()[1]) for line in lines if line.startswith(("inactive_file ", "total_inactive_file ")))


def _lines(path: pathlib.Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def estimated(graph: tf.Graph) -> float:
    """Returns the bytes that computing a graph takes at most at one time, without its variables."""
    definition = graph.as_graph_def(add_shapes=True)
    functions = {each.signature.name: each for each in definition.library.function}
    peaks: dict[str, float] = {}

    def of_function(name: str) -> float:
        if name not in peaks:
            peaks[name] = 0.0  # one that calls itself ends here
            if name in functions:
                peaks[name] = _peak(functions[name].node_def, functions[name].ret.values(), of_function)
        return peaks[name]

    return _peak(definition.node, (), of_function)


def _peak(nodes: Sequence[tf.compat.v1.NodeDef], returned: Iterable[str], of_function: Callable) -> float:
    """Returns the most memory of nodes in their order; what is returned stays to the end."""
    views: dict[tuple[str, int], str] = {}  # an output -> the node whose memory it shows
    last: dict[str, int] = {}  # a node -> the last one that reads it
    for number, node in enumerate(nodes):
        sources = [views.get(_output(name), _output(name)[0]) for name in node.input if not name.startswith("^")]
        last.update(dict.fromkeys([node.name, *sources], number))
        if node.op in _VIEWS:
            views.update(((node.name, index), source) for index, source in enumerate(sources))
    last.update(dict.fromkeys((views.get(_output(name), _output(name)[0]) for name in returned), len(nodes)))
    ending: dict[int, list[str]] = {}
    for name, number in last.items():
        ending.setdefault(number, []).append(name)
    live, now, peak = {}, 0.0, 0.0
    for number, node in enumerate(nodes):
        live[node.name] = size = 0.0 if node.op in _NO_MEMORY | _VIEWS else _size(node)
        freed = sum(live.pop(name, 0.0) for name in ending.get(number, ()))
        reused = min(freed, size) if node.op in _IN_PLACE else 0.0
        # A function's outputs are made inside.
        peak = max(peak, now - reused + max([size, *map(of_function, _called(node))]))
        now += size - freed
    return peak


def _output(name: str) -> tuple[str, int]:
    """Returns the node and the number of an output: 'node', 'node:number', or 'node:output:number' in functions."""
    node, *_, number = f"{name}:0".split(":") if ":" not in name else name.split(":")
    return node, int(number)


def _called(node: tf.compat.v1.NodeDef) -> Iterator[str]:
    """Yields the names of the functions that a node calls."""
    return (value.func.name for value in node.attr.values() if value.HasField("func"))


def _size(node: tf.compat.v1.NodeDef) -> float:
    """Returns the bytes of the outputs of a node; those of unknown shape count as none."""
    kinds = node.attr
    if node.op == "IteratorGetNext":
        dtypes = list(kinds["output_types"].list.type)
    else:
        kind = next((kinds[name].type for name in ("DstT", "T", "dtype") if name in kinds), tf.float32.as_datatype_enum)
        dtypes = [kind] * len(kinds["_output_shapes"].list.shape)
    total = 0.0
    for shape, kind in zip(kinds["_output_shapes"].list.shape, dtypes):
        sides = [dim.size for dim in shape.dim]
        if not shape.unknown_rank and min(sides, default=0) >= 0 and kind:
            dtype = tf.as_dtype(kind)
            total += math.prod(sides) * (dtype.size if dtype.is_numpy_compatible else 0)
    return total
