"""Two rows of docs/paper.md, drawn by a seed, from made-up data to the report by the page alone.

Other rows: CPC_TF_SEED=7 python -m pytest tests/paper/proof_test.py
"""

import csv
import json
import os
import random
import re
import shlex

import pytest

from tests import processes
from tests.binaries import ROOT
from tests.paper import made_up
from tests.paper.page import PAGE, commands_of, rows_of

# By default a linear and an efficient row that share their pre-training.
SEED = int(os.environ.get("CPC_TF_SEED", "357"))
KINDS = {"Figure 3": "linear", "Table 1": "linear", "Table 2": "efficient", "Table 3": "efficient", "Table 4": "detect"}
TABLES = {"Figure 3": "table1", "Table 1": "table1", "Table 2": "table2", "Table 3": "table3", "Table 4": "table4"}
SMALL = {f"cpc_tf.{kind}": ROOT / f"tests/paper/{kind}.flags" for kind in ("pretrain", *set(KINDS.values()))}


def drawn(seed):
    """Two rows of two kinds that run and need nothing but data."""
    known = [row for row in rows_of(PAGE) if row.section in KINDS and "](#" in row.commands]
    rows = [row for row in known if "not possible" not in row.state and "TF-Hub" not in row.state]
    while True:
        seed, (one, other) = seed + 1000, random.Random(seed).sample(rows, 2)
        if KINDS[one.section] != KINDS[other.section] and one.commands != other.commands:
            return one, other


def small(command, data_dir):
    """The words of a command after `python -m`, with what makes it small."""
    python, m, module, *words = shlex.split(command)
    assert (python, m) == ("python", "-m"), command
    more = [f"--flagfile={SMALL[module]}", f"--data_dir={data_dir}"] if module in SMALL else []
    if re.search("pretrain_(rotation|instance)", command):
        more.append("--patch_size=65")  # whole images: a grid of one patch
    return [module, *words, *more]


def value_of(flag, command):
    """The value of a flag of a command."""
    return re.search(rf"--{flag}=(\S+)", command)[1]


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    """A folder with the repository's presets and made-up data."""
    room = tmp_path_factory.mktemp("paper")
    (room / "flags").symlink_to(ROOT / "flags")
    made_up.write_imagenet(room / "data")
    made_up.write_voc(room / "data")
    return room


@pytest.mark.slow
def test_two_rows_run_from_the_page_alone(room):
    rows = drawn(SEED)
    print(f"CPC_TF_SEED={SEED}:", *(f"{row.section}, {row.text}" for row in rows), sep="\n  ")
    lines = dict.fromkeys(line for row in rows for line in commands_of(PAGE, row))
    for line in sorted(lines, key=lambda line: " cpc_tf.report " in line):  # reports when all is there
        done = processes.run("tests.paper.quick", *small(line, room / "data"), cwd=room)
        assert done.returncode == 0, f"{line}\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
    for row in rows:
        *_, run, report = commands_of(PAGE, row)
        result = json.loads((room / value_of("workdir", run) / "result.json").read_text())
        (path,) = (room / value_of("output", report)).glob(f"*-{TABLES[row.section]}.csv")
        with open(path) as file:
            found = [line for line in csv.DictReader(file) if line["source"] == "measured"]
        figures = {each for line in found for each in line.values()}
        assert str(result["map11" if KINDS[row.section] == "detect" else "top1"]) in figures, row
