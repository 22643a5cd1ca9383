"""docs/paper.md has each of the paper's figures once, and its commands, followed as a reader does, lead to the report.

They are those of a row that a seed draws: CPC_TF_SEED=7 python -m pytest tests/paper/proof_test.py
"""

import csv
import json
import os
import random
import re
import shlex
from typing import NamedTuple

import pytest

from cpc_tf import cli
from cpc_tf.commands import TASKS
from cpc_tf.settings import to_flagfile
from studies.paper import figures as paper
from studies.paper.chains import CHAINS
from studies.paper.rows import SECTIONS
from tests import processes
from tests.binaries import ROOT
from tests.paper import made_up

PAGE = (ROOT / "docs/paper.md").read_text()
HOLD = [row for section in SECTIONS for row in section.rows if row.holds]
# By default a linear classifier on an encoder that predicts rotations.
SEED = int(os.environ.get("CPC_TF_SEED", "7"))
KINDS = {"Figure 3": "linear", "Table 1": "linear", "Table 2": "efficient", "Table 3": "efficient", "Table 4": "detect"}
TABLES = {"Figure 3": "table1", "Table 1": "table1", "Table 2": "table2", "Table 3": "table3", "Table 4": "table4"}
SMALL = {f"cpc_tf.{kind}": ROOT / f"tests/paper/{kind}.flags" for kind in ("pretrain", *set(KINDS.values()))}


class Line(NamedTuple):
    """A row of a table: the section, its four cells."""

    section: str
    text: str
    figures: str
    commands: str
    state: str


def rows_of_page():
    """The rows of all tables of the paper's sections."""
    found = []
    for part in PAGE.partition("\n## Commands\n")[0].split("\n## ")[1:]:
        title, *lines = part.splitlines()
        cells = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]
        found += [Line(title, *of) for of in cells[2:]]
    return found


def commands_of(row):
    """The commands to which a row links, in order, each once; comments left out."""
    found = []
    for title in re.findall(r"\[([^\]]*)\]\(#", row.commands):
        code = PAGE.partition(f"\n### {title}\n\n```bash\n")[2].partition("```")[0]
        lines = re.sub(r" \\\n\s*", " ", code).splitlines()
        found += [line for line in lines if not line.startswith("#")]
    return list(dict.fromkeys(found))


def _printed(*figures):
    return " / ".join("-" if figure is None else str(figure) for figure in figures)


def test_the_page_has_each_figure_of_the_papers_tables_once():
    wanted = {
        "Figure 3": [(f"{rung}: {adds}", brought or "-") for rung, (adds, brought) in paper.LADDER.items()],
        "Table 1": [(name, _printed(*of)) for lines in paper.TABLE_1.values() for name, *of in lines],
        "Table 2": [
            (f"{name}, {title}", _printed(*of))
            for metric, title in (("top1", "top-1"), ("top5", "top-5"))
            for name, of in {**paper.TABLE_2[metric], "Gain in data-efficiency": paper.GAIN[metric]}.items()
        ],
        "Table 3": [(name, _printed(*of)) for lines in paper.TABLE_3.values() for name, *of in lines],
        "Table 4": [(name, _printed(*of[:2])) for lines in paper.TABLE_4.values() for name, *of in lines],
    }
    for title, lines in wanted.items():
        assert [(row.text, row.figures) for row in rows_of_page() if row.section == title] == lines


@pytest.mark.parametrize("row", HOLD, ids=lambda row: row.text[:40])
def test_the_settings_of_a_row_are_those_of_its_preset(row, monkeypatch):
    monkeypatch.chdir(ROOT)
    preset, *settings = row.holds.split()
    assert any(preset in CHAINS[key].presets for key in row.chains)
    task = TASKS[preset.split("/")[1].split("_")[0]]
    assert {f"--{setting}" for setting in settings} <= set(
        to_flagfile(cli.parse(task.config, [f"--preset={preset}"])).splitlines()
    )


def test_every_preset_of_the_papers_data_leads_to_a_row():
    papers = {name for name in cli.preset_names() if re.match("imagenet(_ladder)?/|voc/", name)}
    assert {name for chain in CHAINS.values() for name in chain.presets} == papers


def drawn(seed):
    """A row that runs and needs nothing but data."""
    known = [row for row in rows_of_page() if row.section in KINDS and "](#" in row.commands]
    return random.Random(seed).choice([row for row in known if not re.search("not possible|TF-Hub", row.state)])


def small(command, data_dir):
    """The module of a command `cpc-tf NAME` and its flags, with what makes it small."""
    program, name, *words = shlex.split(command)
    assert program == "cpc-tf", command
    module = f"cpc_tf.{name}"
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
    *_, run, report = lines = sorted(commands_of(row), key=lambda line: line.startswith("cpc-tf report "))
    for line in lines:
        done = processes.run("tests.paper.quick", *small(line, tmp_path / "data"), cwd=tmp_path)
        assert done.returncode == 0, f"{line}\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
    result = json.loads((tmp_path / value_of("workdir", run) / "result.json").read_text())
    (path,) = (tmp_path / value_of("output", report)).glob(f"*-{TABLES[row.section]}.csv")
    with open(path) as file:
        found = [line for line in csv.DictReader(file) if line["source"] == "measured"]
    figures = {each for line in found for each in line.values()}
    percent = 100 * result["map11" if KINDS[row.section] == "detect" else "top1"]
    assert str(round(percent, 4)) in figures
