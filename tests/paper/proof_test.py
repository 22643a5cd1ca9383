"""A row of docs/paper.md, drawn by a seed, from made-up data to the report by the page alone.

Another row: CPC_TF_SEED=7 python -m pytest tests/paper/proof_test.py
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

# By default a linear classifier on an encoder that predicts rotations.
SEED = int(os.environ.get("CPC_TF_SEED", "7"))
KINDS = {"Figure 3": "linear", "Table 1": "linear", "Table 2": "efficient", "Table 3": "efficient", "Table 4": "detect"}
TABLES = {"Figure 3": "table1", "Table 1": "table1", "Table 2": "table2", "Table 3": "table3", "Table 4": "table4"}
SMALL = {f"cpc_tf.{kind}": ROOT / f"tests/paper/{kind}.flags" for kind in ("pretrain", *set(KINDS.values()))}


def drawn(seed):
    """A row that runs and needs nothing but data."""
    known = [row for row in rows_of(PAGE) if row.section in KINDS and "](#" in row.commands]
    return random.Random(seed).choice(
        [row for row in known if "not possible" not in row.state and "TF-Hub" not in row.state]
    )


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


@pytest.mark.slow
def test_a_row_runs_from_the_page_alone(tmp_path):
    row = drawn(SEED)
    print(f"CPC_TF_SEED={SEED}: {row.section}, {row.text}")
    (tmp_path / "flags").symlink_to(ROOT / "flags")
    made_up.write_imagenet(tmp_path / "data")
    if KINDS[row.section] == "detect":
        made_up.write_voc(tmp_path / "data")
    *_, run, report = lines = sorted(commands_of(PAGE, row), key=lambda line: " cpc_tf.report " in line)
    for line in lines:
        done = processes.run("tests.paper.quick", *small(line, tmp_path / "data"), cwd=tmp_path)
        assert done.returncode == 0, f"{line}\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
    result = json.loads((tmp_path / value_of("workdir", run) / "result.json").read_text())
    (path,) = (tmp_path / value_of("output", report)).glob(f"*-{TABLES[row.section]}.csv")
    with open(path) as file:
        found = [line for line in csv.DictReader(file) if line["source"] == "measured"]
    figures = {each for line in found for each in line.values()}
    assert str(result["map11" if KINDS[row.section] == "detect" else "top1"]) in figures
