"""Counts what the replicas of a program send to each other, from its text in XLA's language (HLO). Needs no package."""

import math
import re

KINDS = ("all-reduce", "all-gather", "all-to-all", "reduce-scatter", "collective-permute", "collective-broadcast")
# 'name = type operation(': of an asynchronous operation the start counts.
LINE = re.compile(rf"= (?P<type>\(.*?\)|\S+) (?P<kind>{'|'.join(KINDS)})(?P<start>-start)?\(")
SHAPE = re.compile(r"\b(?P<dtype>pred|[a-z]+\d+)\[(?P<sizes>[\d,]*)\]")


def exchanges(program: str) -> list[dict]:
    """Returns {'kind', 'dtype', 'count', 'bytes'} of all exchanges, those with most bytes first.

    'count': of operations; 'bytes': of their results together, a replica.
    """
    found = {}
    for line in program.splitlines():
        match = LINE.search(line)
        if not match:
            continue
        shapes = list(SHAPE.finditer(match["type"]))
        if match["start"] and match["kind"] != "all-reduce":  # (operands, results, ...)
            shapes = shapes[1:2]
        for index, shape in enumerate(shapes):
            entry = found.setdefault((match["kind"], shape["dtype"]), [0, 0])
            entry[0] += index == 0
            entry[1] += _size(shape["dtype"]) * math.prod(int(side) for side in shape["sizes"].split(",") if side)
    rows = [{"kind": k, "dtype": d, "count": n, "bytes": size} for (k, d), (n, size) in found.items()]
    return sorted(rows, key=lambda row: -row["bytes"])


def _size(dtype: str) -> int:
    return 1 if dtype == "pred" else max(1, int(re.search(r"\d+", dtype)[0]) // 8)
