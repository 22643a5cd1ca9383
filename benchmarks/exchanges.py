"""Counts what the replicas of a program send to each other, in XLA's language (HLO): compiled, or
as it is written.
"""

import math
import re
from collections.abc import Iterable

KINDS = (
    "all-reduce",
    "all-gather",
    "all-to-all",
    "reduce-scatter",
    "collective-permute",
    "collective-broadcast",
)
# 'name = type operation(': of an asynchronous operation the start counts.
LINE = re.compile(rf"= (?P<type>\(.*?\)|\S+) (?P<kind>{'|'.join(KINDS)})(?P<start>-start)?\(")
SHAPE = re.compile(r"\b(?P<dtype>pred|[a-z]+\d+)\[(?P<sizes>[\d,]*)\]")


def exchanges(program: str) -> list[dict]:
    """Returns {'kind', 'dtype', 'count', 'bytes'} of all exchanges, those with most bytes first.

    'count': of operations; 'bytes': of their results together, a replica.
    """
    return _summed(_in_text(program))


def written(program: bytes) -> list[dict]:
    """Returns the same of a serialized program, before the compiler's passes. Needs TensorFlow
    2.15.
    """
    from tensorflow.compiler.xla import xla_data_pb2
    from tensorflow.compiler.xla.service import hlo_pb2

    module = hlo_pb2.HloModuleProto.FromString(program)
    name = xla_data_pb2.PrimitiveType.Name
    return _summed(
        (
            each.opcode,
            [(name(shape.element_type).lower(), shape.dimensions) for shape in _parts(each.shape)],
        )
        for computation in module.computations
        for each in computation.instructions
        if each.opcode in KINDS
    )


def _parts(shape) -> list:
    return list(shape.tuple_shapes) or [shape]


def _in_text(program: str) -> Iterable[tuple[str, list[tuple[str, list[int]]]]]:
    """Yields (kind, dtypes and sizes of the results) of each exchange."""
    for line in program.splitlines():
        match = LINE.search(line)
        if match:
            shapes = [
                (shape["dtype"], [int(side) for side in shape["sizes"].split(",") if side])
                for shape in SHAPE.finditer(match["type"])
            ]
            # Of others than all-reduce, a start has the types (operands, results, ...).
            later = match["start"] and match["kind"] != "all-reduce"
            yield match["kind"], shapes[1:2] if later else shapes


def _summed(found: Iterable[tuple[str, list[tuple[str, list[int]]]]]) -> list[dict]:
    totals = {}
    for kind, shapes in found:
        for index, (dtype, sizes) in enumerate(shapes):
            total = totals.setdefault((kind, dtype), [0, 0])
            total[0] += index == 0
            total[1] += _size(dtype) * math.prod(sizes)
    rows = [
        {"kind": k, "dtype": d, "count": n, "bytes": size} for (k, d), (n, size) in totals.items()
    ]
    return sorted(rows, key=lambda row: -row["bytes"])


def _size(dtype: str) -> int:
    return 1 if dtype == "pred" else max(1, int(re.search(r"\d+", dtype)[0]) // 8)
