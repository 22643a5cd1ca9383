"""docs/paper.md has each of the paper's figures once, and `python -m studies paper` runs its
commands.
"""

import datetime
import json
import os
import re
from typing import NamedTuple

import pytest

from cpc_tf.core import cli
from cpc_tf.core.commands import COMMANDS, TASKS
from cpc_tf.core.settings import ConfigError, to_flagfile
from cpc_tf.drawing import plots
from cpc_tf.efficient import run as efficient
from cpc_tf.encoders import networks
from cpc_tf.export import run as export
from cpc_tf.pretrain import patch_sheet
from studies.paper import command
from studies.paper import figures as paper
from studies.paper.chains import CHAINS
from studies.paper.rows import NOT, SECTIONS, STATES
from tests import modules
from tests.binaries import ROOT
from tests.paper import made_up

PAGE = (ROOT / "docs/paper.md").read_text()
ROWS = [(section.title, row) for section in SECTIONS for row in section.rows]
HOLD = [row for _, row in ROWS if row.holds]
# A row of each kind: --table, --row, and ours. One is run each day; CPC_TF_ROWS=all runs all.
KINDS = [
    ("3", "VAT + Entropy Min.", r"[\d.]+"),
    ("1", "Rotation", r"[\d.]+ / [\d.]+"),
    ("fig3", "BU", r"[\d.]+ / [\d.]+"),
    ("2", "CPC features, top-1", r"[\d.]+"),
    ("4", "CPC v2", r"[\d.]+"),
]
TODAY = (
    KINDS
    if os.environ.get("CPC_TF_ROWS") == "all"
    else [KINDS[datetime.date.today().toordinal() % len(KINDS)]]
)
SMALL = {
    name: ROOT / f"tests/paper/{name}.flags"
    for name in ("pretrain", "linear", "efficient", "detect")
}


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


def _printed(*figures):
    return " / ".join("-" if figure is None else str(figure) for figure in figures)


def test_page_has_each_figure_of_the_tables_once():
    wanted = {
        "Figure 3": [
            (f"{rung}: {adds}", brought or "-") for rung, (adds, brought) in paper.LADDER.items()
        ],
        "Table 1": [
            (name, _printed(*of)) for lines in paper.TABLE_1.values() for name, *of in lines
        ],
        "Table 2": [
            (f"{name}, {title}", _printed(*of))
            for metric, title in (("top1", "top-1"), ("top5", "top-5"))
            for name, of in {
                **paper.TABLE_2[metric],
                "Gain in data-efficiency": paper.GAIN[metric],
            }.items()
        ],
        "Table 3": [
            (name, _printed(*of)) for lines in paper.TABLE_3.values() for name, *of in lines
        ],
        "Table 4": [
            (name, _printed(*of[:2])) for lines in paper.TABLE_4.values() for name, *of in lines
        ],
    }
    for title, lines in wanted.items():
        assert [(row.text, row.figures) for row in rows_of_page() if row.section == title] == lines
    assert {re.match(r"\*(.*?)\*", row.state)[1] for row in rows_of_page()} == {*STATES}
    assert all(row.chains or row.state not in STATES[1:3] for _, row in ROWS)


@pytest.mark.parametrize("row", HOLD, ids=lambda row: row.text[:40])
def test_row_settings_equal_those_of_its_preset(row, monkeypatch):
    monkeypatch.chdir(ROOT)
    preset, *settings = row.holds.split()
    assert any(preset in CHAINS[key].presets for key in row.chains)
    task = TASKS[preset.split("/")[1].split("_")[0]]
    assert {f"--{setting}" for setting in settings} <= set(
        to_flagfile(cli.parse(task.config, [f"--preset={preset}"])).splitlines()
    )


def test_every_preset_of_paper_data_has_a_row():
    papers = {name for name in cli.preset_names() if re.match("imagenet(_ladder)?/|voc/", name)}
    assert {name for chain in CHAINS.values() for name in chain.presets} == papers


def test_command_runs_the_steps_shown_on_the_page():
    for chain in CHAINS.values():
        code = PAGE.partition(f"\n### {chain.title}\n\n```bash\n")[2].partition("```")[0]
        lines = re.sub(r" \\\n\s*", " ", code).splitlines()
        found = [f"cpc-tf {' '.join(step.words)}" for step in command.steps(chain)]
        assert [line for line in lines if not line.startswith("#")] == [
            x for x in found if x in lines
        ]
        assert len(found) == len([x for x in found if x in lines]) + max(
            0, len(chain.fractions) - 1
        )
    *_, last, report = command.steps(
        CHAINS["efficient"], "w", 2, ["efficient:--batch_size=8", "pretrain:--x=1"]
    )
    assert last.made == "w/imagenet/resnet161_seed2/efficient_1/result.json"
    assert last.words[-2:] == ["--seed=2", "--batch_size=8"]
    assert report.words[-1] == "--output=w/imagenet/report"


@pytest.mark.parametrize("table", ["Table 1", "Table 4", "Figure 3"])
def test_table_rows_never_share_a_run(table):
    ends = [
        command.steps(CHAINS[row.chains[0]])[-2].made
        for section, row in ROWS
        if section == table and row.chains
    ]
    assert len({*ends}) == len(ends)


def test_single_channel_rung_is_shown_with_colour_result():
    result = {
        "kind": "linear",
        "top1": 0.31,
        "top5": 0.5,
        "by_channel": {"top1": 0.55, "top5": 0.75},
    }
    assert (
        command.ours("Figure 3", "RC: random colour dropping", [result])
        == "55.0 / 75.0; in colour 31.0 / 50.0"
    )
    del result["by_channel"]
    assert command.ours("Figure 3", "LN: layer normalization", [result]) == "31.0 / 50.0"


@pytest.mark.parametrize(("given", "said"), [
    (("5", ""), "^--table=5: must be 1, 2, 3, 4, fig3$"),
    (("", ""), "^name a row by --row=NAME or a table by --table=1"),
    (("4", "Yolo"),
     "^--row=Yolo: no row of the paper has this name; Supervised baseline; Exemplar"),
    (("1", "AMDIM"), f"^--row=AMDIM: nothing runs it here .{NOT}: its objective"),
    (("1", "Rotation", ["linar:--x=1"]),
     "^--also=linar:--x=1: must be a flag, such as --data_dir=/data, or"),
])  # fmt: skip
def test_what_cannot_be_run_is_said(given, said, tmp_path):
    table, row, also = (*given, [])[:3]
    with pytest.raises(ConfigError, match=said):
        command.main(table, row, str(tmp_path), 1, also, dry_run=True)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """ImageNet and VOC in small."""
    path = tmp_path_factory.mktemp("data")
    made_up.write_imagenet(path)
    made_up.write_voc(path)
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "name", "ours"), TODAY, ids=[f"{table} {name}" for table, name, _ in TODAY]
)
def test_row_of_each_kind_runs_by_one_command(
    table, name, ours, data, tmp_path, monkeypatch, capsys
):
    """On made-up data, in this process, without what other tests look at; a second time nothing is
    run.
    """
    monkeypatch.setattr(plots, "png", lambda *_, **__: b"\x89PNG")
    monkeypatch.setattr(patch_sheet, "write_once", lambda *_: None)
    monkeypatch.setattr(efficient, "_draw", lambda *_: None)
    monkeypatch.setattr(export, "verify", lambda *_: {"difference": 0, "variables": 0, "same": 1})
    stacks = (networks.Stack(1, 4, 16, 1), networks.Stack(1, 4, 16, 2), networks.Stack(1, 8, 32, 2))
    tiny = networks.Architecture(stacks, stem_kernel=3, stem_width=8, stem_pool=False)
    monkeypatch.setitem(networks.ARCHITECTURES, "tiny", tiny)
    monkeypatch.setattr(paper, "FRACTIONS", (0.1,))
    monkeypatch.setattr(paper, "TABLE_3_FRACTIONS", (0.1,))
    ran = []

    def run(step):
        task, (_, *given) = COMMANDS[step.task], step.words
        given += (
            [f"--flagfile={SMALL[task.name]}", f"--data_dir={data}"] if task.name in SMALL else []
        )
        # whole images: one patch
        given += ["--patch_size=65"] if "pretrain_rotation" in str(given) else []
        task(cli.parse(task.config, given))
        ran.append(task.name)

    monkeypatch.setattr(command, "run", run)
    monkeypatch.chdir(ROOT)
    work, before = str(tmp_path / "runs"), tmp_path / "runs/imagenet/resnet161"
    if table in ("2", "4"):  # the others pre-train and export: what is done is not repeated
        (before / "pretrain").mkdir(parents=True)
        (before / "pretrain/result.json").write_text('{"kind": "pretrain"}')
        modules.write_module(before / "hub")
    command.main(table, name, work, 1, [], dry_run=False)
    done, shown = len(ran), capsys.readouterr().out
    assert re.search(rf"\| {ours} \|$", shown, re.MULTILINE), shown[-1000:]
    assert shown.index("\ncost: ") < shown.index("\n1/")
    command.main(table, name, work, 1, [], dry_run=False)
    assert ran[done:] == ["report"]
    page = json.loads(next((tmp_path / "runs").glob("*/report/report.json")).read_text())
    assert {run["made"]["date"] for run in page["runs"]}
