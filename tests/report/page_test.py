"""The binary: from a directory of runs to a page that needs nothing else, whatever the runs
hold.
"""

import csv
import datetime
import html.parser
import json
import os
import pathlib
import re
import shlex
import types

import pytest

from cpc_tf.core import cli
from cpc_tf.report import page
from cpc_tf.report.blocks import TRAINING, Finding, Part, TableBlock
from cpc_tf.report.config import ReportConfig
from cpc_tf.report.made import made
from tests import binaries
from tests.report import samples

pytestmark = pytest.mark.drawn


def _report(runs, output):
    return page.report(cli.parse(ReportConfig, [f"--runs={runs}", f"--output={output}"]))


class _Page(html.parser.HTMLParser):
    """What a page shows, loads and leaves open. `text` has a line for each row of a table, image
    and paragraph.
    """

    VOID = ("meta", "img", "br", "link", "source")
    CELLS, SILENT = ("td", "th"), ("style", "script")
    LINES = (
        "tr",
        "h1",
        "h2",
        "h3",
        "h4",
        "p",
        "figcaption",
        "main",
        "summary",
        "li",
        "dt",
        "nav",
        "footer",
    )

    def __init__(self, text):
        super().__init__()
        self.pictures, self.targets, self.ids, self.open, self.text = [], [], [], [], ""
        self.feed(text)
        lines = (" ".join(line.split()).strip(" |") for line in self.text.splitlines())
        self.text = "".join(f"{line}\n" for line in lines if line)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.ids += [attributes["id"]] if "id" in attributes else []
        self.targets += [
            attributes[name] for name in ("src", "href", "srcset", "data") if name in attributes
        ]
        self.text += (
            "\n"
            if tag in self.LINES
            else (
                " | "
                if tag in (*self.CELLS, "dd", "i") or attributes.get("href", "").startswith("#")
                else ""
            )
        )
        if tag == "img":
            self.pictures.append(attributes)
            self.text += f"\n[{attributes['alt']}]"
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += "" if self.open and self.open[-1] in self.SILENT else data.replace("\n", " ")


@pytest.mark.parametrize("kinds", ["all_kinds", "odd_kinds"])
def test_the_page_is_as_it_was_read(kinds, tmp_path, undrawn, monkeypatch):
    """The text of a whole page, which people have read: tests/report/KINDS.txt. If a change is
    meant, copy the file.

    Of a dataset it says how one of the runs was made.
    """
    monkeypatch.setattr(page, "made", lambda runs: made(runs[:1]))
    getattr(samples, kinds)(tmp_path / "runs")
    shown = _Page(pathlib.Path(_report(tmp_path / "runs", tmp_path / "report")).read_text()).text
    shown = shown.replace(str(tmp_path), "/x").replace(datetime.date.today().isoformat(), "TODAY")
    (tmp_path / "new.txt").write_text(shown)
    known = pathlib.Path(__file__).with_name(f"{kinds}.txt")
    assert shown == known.read_text(), f"to accept this page: cp {tmp_path}/new.txt {known}"
    for line in shown.splitlines():
        command = line.rpartition(" | ")[2]
        if command.startswith("python -m"):  # to copy
            _, _, module, *flags = shlex.split(command)
            assert cli.parse(binaries.settings_of(module), flags)


@pytest.mark.slow
def test_the_page_and_the_files_beside_it(tmp_path, capsys):
    samples.all_kinds(tmp_path / "runs")
    path = _report(tmp_path / "runs", tmp_path / "report")
    summary = (tmp_path / "report/summary.txt").read_text()
    out = capsys.readouterr().out
    assert out.startswith(summary)
    assert out[len(summary) :].startswith("not read: broken/result.json: cannot be read (")
    assert ", unknown/result.json: kind 'dance' is not known here" in out
    assert summary.startswith(
        "photos (test), % on test images  CPC v2  pixels  random encoder\n10 labels (1 %), top-1 "
    )
    text = pathlib.Path(path).read_text()
    shown = _Page(text)
    assert shown.open == []
    assert len(shown.ids) == len(set(shown.ids))
    beside = {path.name for path in (tmp_path / "report").iterdir()}
    assert all(
        target.startswith("data:image/png;base64,") or target in beside or target[1:] in shown.ids
        for target in shown.targets
    )
    assert {name for name in beside if name.endswith((".csv", ".png"))} < {*shown.targets}
    assert "@import" not in text
    assert "url(" not in text
    assert (
        len(shown.pictures)
        == len([path for path in (tmp_path / "report").iterdir() if path.suffix == ".png"])
        > 2
    )
    assert not [path for path in (tmp_path / "report").iterdir() if path.suffix == ".tmp"]
    rows = csv.DictReader((tmp_path / "report/photos-test-figure1.csv").read_text().splitlines())
    points = {(r["panel"], r["curve"], r["labels (part of all)"], r["value"]) for r in rows}
    panel = "Right (top-1), % of new images"
    assert points >= {(panel, "CPC v2", "10", "60.0"), (panel, "pixels", "1000", "70.0")}
    (row,) = (
        row
        for row in csv.DictReader(
            (tmp_path / "report/photos-test-table2.csv").read_text().splitlines()
        )
        if (row["group"], row["Labels"]) == (panel, "small ResNet trained on pixels")
    )
    assert [row[f"10 %{end}"] for end in ("", " low", " high", " runs")] == [
        "51.0",
        "50.0",
        "52.0",
        "2",
    ]
    summary = json.loads((tmp_path / "report/report.json").read_text())
    assert len(summary["runs"]) == 15
    assert [problem.split(":")[0] for problem in summary["not_read"]] == [
        "broken/result.json",
        "unknown/result.json",
    ]
    assert len(summary["datasets"]["photos (test)"]["findings"]) == 3


@pytest.mark.usefixtures("undrawn")
def test_equal_runs_are_one(tmp_path):
    """The command of README and that of the label page became "40 ±0.0, n=2"."""
    record = {**samples.linear(top1=0.4, tested=60), "kind": "classify"}
    for name, seed in (("readme", 0), ("finish", 0), ("seed", 1)):
        more = {"seed": seed, "top1": 0.4 + seed / 10, "made": {"date": name}}
        flags = f"--workdir={tmp_path}/{name}\n--seed={seed}\n--sheet={name}.png\n--nocurve\n"
        samples.write(tmp_path / "runs" / name, {**record, **more}, run__flags=flags)
    shown = _Page(pathlib.Path(_report(tmp_path / "runs", tmp_path / "report")).read_text()).text
    assert "n=2" not in shown
    assert "The same again | readme" in shown
    assert "n=1" not in shown


@pytest.mark.usefixtures("undrawn")
def test_folders_of_one_name_are_not_one_dataset():
    """Of two, 90 % and 30 % became one method of 60 %."""
    data = ("folder:/birds/images", "folder:/cars/images")
    runs = [
        samples.run(samples.linear("hub", top1, dataset=name))
        for name, top1 in zip(data, (0.9, 0.3))
    ]
    runs.append(samples.run(samples.efficient(dataset=f"{data[1]}/")))
    made = page.files(runs, [], "runs")
    shown = json.loads(made["report.json"])["datasets"]
    assert {name: shown[name]["data"]["table1"][0]["Right (top-1), %"] for name in shown} == dict(
        zip(data, (90, 30))
    )
    assert {f"folder-{name}-images-table1.csv" for name in ("birds", "cars")} <= {*made}


@pytest.mark.usefixtures("undrawn")
def test_new_task_needs_no_change_of_the_page(monkeypatch):
    """It contributes a subject of its own, and to a shared one, in the order that it asks for."""
    parts = [
        Part(45, "counting", "Counting", [], [Finding("things", {"CPC v2": "7"})]),
        Part(75, *TRAINING, [TableBlock("quick", "it was quick", [{"Run": "a"}])]),
    ]
    monkeypatch.setitem(
        page.REPORTS, "count", types.SimpleNamespace(NEEDS=(), report=lambda runs, dataset: parts)
    )
    runs = [samples.run({**samples.linear(), "kind": "count"})]
    (section,), html = list(page.sections(runs)), page.files(runs, [], "runs")["report.html"]
    assert section.summary[1] == ["things", "7", ""]
    assert "it was quick" in html


@pytest.mark.usefixtures("undrawn")
def test_the_summary_says_how_each_figure_was_measured():
    classify = samples.run({**samples.linear(top1=0.4), "kind": "classify"})
    assert next(page.sections([classify])).summary[0][0] == "photos, % by cross-validation"
    both = next(page.sections([classify, samples.run(samples.linear(test_split=""))])).summary
    assert both[0][0] == "photos, %"
    assert [row[0].split(", top-1 ")[1] for row in both[1:]] == [
        "by cross-validation",
        "on test images",
    ]


@pytest.mark.usefixtures("undrawn")
def test_the_legend_has_the_colours_of_the_page():
    def legend(*records):
        html = page.files([samples.run(record) for record in records], [], "runs")["report.html"]
        return re.findall(r'var\(--(\w+)\)"></i>', html)

    assert legend(samples.linear()) == ["cpc", "chance"]
    assert legend(samples.linear(), samples.linear("pixels", 0.3)) == ["cpc", "pixels", "chance"]
    assert legend(samples.detect()) == []


def test_page_handles_odd_names_and_values(tmp_path, undrawn):
    """Each of these once ended the report."""
    runs = tmp_path / "runs"
    odd = runs / os.fsdecode(b"caf\xe9")
    samples.write(odd, samples.efficient(note="\ud800", figure=float("nan"), dataset="d" * 240))
    (odd / "predictions.csv").mkdir()
    (odd / "metrics.jsonl").write_text('{"step": 1}\n{"step": 2}\n')
    marked = runs / "marked"
    samples.write(marked, samples.efficient(dataset="\ud800"))
    (marked / "result.json").write_bytes(b"\xef\xbb\xbf" + (marked / "result.json").read_bytes())
    for name, content in {"deep": "[" * 100_000, "digits": '{"kind": ' + "9" * 5000 + "}"}.items():
        samples.write(runs / name, {})
        (runs / name / "result.json").write_text(content)
    made = _report(runs, tmp_path / "report")
    found = json.loads((tmp_path / "report/report.json").read_text(), parse_constant=pytest.fail)
    assert {run["place"] for run in found["runs"]} == {"caf?", "marked"}
    assert [problem.split(":")[0] for problem in found["not_read"]] == [
        "deep/result.json",
        "digits/result.json",
    ]
    assert len(pathlib.Path(made).read_text()) > 1000


@pytest.mark.parametrize("number", [0, 3])
def test_report_is_overwritten_even_after_a_kill(number, tmp_path, monkeypatch, undrawn):
    """Killed before its file of this number, each file is the old one or the new one; the next
    report is all new.
    """

    def made(folder, top1):
        samples.write(tmp_path / "runs/a", samples.linear(top1=top1))
        _report(tmp_path / "runs", tmp_path / folder)
        return {path.name: path.read_bytes() for path in (tmp_path / folder).iterdir()}

    old, new = made("runs/report", 0.25), made("new", 0.75)
    assert old["report.html"] != new["report.html"]
    write_file, written = page.write_file, []

    def killed(path, content):
        if len(written) == number:
            pathlib.Path(f"{path}.17.tmp").write_bytes(b"<ht")
            os.utime(f"{path}.17.tmp", (0, 0))
            raise KeyboardInterrupt
        written.append(pathlib.Path(path).name)
        write_file(path, content)

    with monkeypatch.context() as patch:
        patch.setattr(page, "write_file", killed)
        with pytest.raises(KeyboardInterrupt):
            made("runs/report", 0.75)
    assert len(new) > len(written) == number
    for name in old:
        assert (tmp_path / "runs/report" / name).read_bytes() == (new if name in written else old)[
            name
        ]
    assert made("runs/report", 0.75) == new
