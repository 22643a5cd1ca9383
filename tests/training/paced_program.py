"""Stands for a training: writes records with known times, or fails."""

import json
import pathlib
import sys

given = dict(word[2:].partition("=")[::2] for word in sys.argv[1:])
if "fail" in given:
    sys.exit("error: --fail=yes: as wanted")
workdir = pathlib.Path(given["workdir"])
workdir.mkdir()
records = []
for number, seconds in enumerate((90.0, 92.0, 95.0, 98.0), 1):
    record = {"step": 10 * number, "wall_seconds": seconds, "cpu_seconds": 2 * seconds}
    records.append({**record, "between_wall_seconds": 0.25, "between_cpu_seconds": 1.0})
(workdir / "metrics.jsonl").write_text("".join(json.dumps(each) + "\n" for each in records))
