"""docs/paper.md has each of the paper's figures once, with its state; its settings are those of the presets."""

import re

import pytest

from cpc_tf import cli, presets
from cpc_tf.results import paper
from cpc_tf.settings import to_flagfile
from cpc_tf.tasks import TASKS
from studies.paper.chains import CHAINS, OURS
from studies.paper.rows import SECTIONS
from tests.binaries import ROOT
from tests.paper.page import PAGE, rows_of

ROWS = [row for section in SECTIONS for row in section.rows]
# The presets of the paper's own data.
PRESETS = [name for name in presets.names() if re.match("imagenet(_ladder)?/|voc/", name)]


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
        assert [(row.text, row.figures) for row in rows_of(PAGE) if row.section == title] == lines


def test_every_preset_of_the_papers_data_leads_to_a_row():
    linked = {key for row in ROWS for key in row.chains}
    assert linked == set(CHAINS)
    assert {name for chain in CHAINS.values() for name in chain.presets} == set(PRESETS) == set(OURS)


@pytest.mark.parametrize("row", [row for row in ROWS if row.holds], ids=lambda row: row.text[:40])
def test_the_settings_of_a_row_are_those_of_its_preset(row, monkeypatch):
    monkeypatch.chdir(ROOT)
    preset, *settings = row.holds.split()
    assert any(preset in CHAINS[key].presets for key in row.chains)
    task = TASKS[preset.split("/")[1].split("_")[0]]
    assert {f"--{setting}" for setting in settings} <= set(
        to_flagfile(cli.parse(task.config, [f"--preset={preset}"])).splitlines()
    )
