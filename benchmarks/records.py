"""The records of compiled programs, and the tables that are made of them."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Sequence
from typing import Any

from benchmarks.chips import CHIPS, Chip
from cpc_tf.core.files import write_file
from cpc_tf.core.texts import markdown_table

FILE = pathlib.Path(__file__).with_name("tpu.json")
GB = 1e9
TERA = 1e12
Record = dict[str, Any]

# A record has: 'step', 'program' (a hash), 'chip' ('': not compiled), 'images' of a replica,
# 'replicas', 'trained' bytes, the exchanges 'written' in the program, and what `compile.py` prints.


def read(path: pathlib.Path) -> list[Record]:
    """Returns the records of a file, none if there is no file."""
    return json.loads(path.read_text()) if path.exists() else []


def add(path: pathlib.Path, record: Record) -> None:
    """Writes a record, in place of an older one of the step on the chip; one line each, for
    diffs.
    """
    key = (record["step"], record["chip"])
    found = {(other["step"], other["chip"]): other for other in read(path)} | {key: record}
    lines = ",\n".join(json.dumps(found[key]) for key in sorted(found))
    write_file(str(path), f"[\n{lines}\n]\n")


def needed(record: Record) -> int:
    """Returns the bytes of memory that a program needs: variables and images, results elsewhere,
    and what is kept.
    """
    return record["arguments"] + record["outputs"] - record["in_place"] + record["temporaries"]


def least_seconds(record: Record, chip: Chip) -> tuple[float, str]:
    """Returns the seconds that a step takes at least, at the chip's peak and bandwidth, and which
    of them limits it.
    """
    by = {"operations": record["flop"] / chip.peak, "memory": record["bytes"] / chip.bandwidth}
    limit = max(by, key=by.get)
    return by[limit], limit


def tables(records: Sequence[Record]) -> str:
    """Returns the table of what was compiled and that of what is exchanged."""
    return f"{programs(records)}\n\n{wire(records)}"


def programs(records: Sequence[Record]) -> str:
    """Returns the table of compiled programs."""
    columns = ["step", "images a core", "chip", "memory, GB", "arguments, GB", "temporaries, GB"]
    columns += ["TFLOP", "GB moved", "least s"]
    return markdown_table(columns, [_row(record) for record in records if record["chip"]])


def _row(record: Record) -> list[str]:
    chip = CHIPS[record["chip"]]
    start = [record["step"], str(record["images"]), record["chip"]]
    if "error" in record:
        return [*start, f"not compiled: {' '.join(record['error'].split())[:120]}", *["-"] * 5]
    memory = needed(record)
    sizes = [memory, record["arguments"], record["temporaries"]]
    seconds, limit = least_seconds(record, chip)
    fits = "" if memory <= chip.memory else ", too much"
    return [
        *start,
        f"{sizes[0] / GB:.1f}{fits}",
        *(f"{size / GB:.1f}" for size in sizes[1:]),
        f"{record['flop'] / TERA:.2f}",
        f"{record['bytes'] / GB:.0f}",
        f"{seconds:.2f}, {limit}",
    ]


def wire(records: Sequence[Record]) -> str:
    """Returns the table of what a replica contributes to exchanges in a step: one row a step."""
    rows = []
    for step in dict.fromkeys(record["step"] for record in records):
        own = [record for record in records if record["step"] == step]
        compiled = next((record["exchanges"] for record in own if "exchanges" in record), None)
        written = own[0]["written"]
        trained = own[0]["trained"]
        found = written if compiled is None else compiled
        kinds = ", ".join(f"{each['count']} {each['kind']}" for each in found) or "none"
        rest = sum(each["bytes"] for each in found) - trained
        rows.append(
            [step, size(trained), size(rest), kinds, "written" if compiled is None else "compiled"]
        )
    return markdown_table(
        ["step", "gradients", "all else", "operations", "counted in the program as"], rows
    )


def size(count: int) -> str:
    """Returns bytes as text, e.g. '12.0 kB'."""
    for unit, least in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if abs(count) >= least:
            return f"{count / least:.1f} {unit}"
    return f"{count} bytes"
