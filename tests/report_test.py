"""The binary: from a directory of runs to a page that needs nothing else, whatever the runs hold."""

import csv
import html.parser
import json
import random

import pytest

from cpc_tf import cli, report
from cpc_tf.reporting import dataset, page, plots
from cpc_tf.reporting.collect import collect
from cpc_tf.settings import ConfigError
from tests.reporting import samples


def _report(runs, output):
    return report.report(cli.parse(report.ReportConfig, [f"--runs={runs}", f"--output={output}"]))


class _Page(html.parser.HTMLParser):
    """What a page shows, loads and leaves open."""

    VOID = ("meta", "img", "br", "link", "source")

    def __init__(self, text):
        super().__init__()
        self.pictures, self.targets, self.ids, self.open, self.text = [], [], [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.ids += [attributes["id"]] if "id" in attributes else []
        self.targets += [attributes[name] for name in ("src", "href", "srcset", "data") if name in attributes]
        if tag == "img":
            self.pictures.append(attributes)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_the_page_and_the_files_beside_it(tmp_path, capsys):
    samples.all_kinds(tmp_path / "runs")
    path = _report(tmp_path / "runs", tmp_path / "report")
    summary = (tmp_path / "report/summary.txt").read_text()
    assert capsys.readouterr().out == summary
    assert summary.startswith("photos: With 10 labels")
    text = (tmp_path / "report/report.html").read_text()
    assert path.endswith("report/report.html")
    shown = _Page(text)
    assert shown.open == []
    assert len(shown.ids) == len(set(shown.ids))
    assert all(target.startswith("data:image/png;base64,") or target[1:] in shown.ids for target in shown.targets)
    assert "@import" not in text
    assert "url(" not in text
    assert shown.pictures
    assert all(picture["alt"] is not None for picture in shown.pictures)
    for told in (
        "With 10 labels",
        "ResNet-33 trained on CPC features",
        "Not measured",
        "unknown/result.json",
        "collapsed",
    ):
        assert told in shown.text
    assert "a <b> & $c$" in shown.text  # escaped: a parser reads it back

    names = {path.name for path in (tmp_path / "report").iterdir()}
    assert names >= {"report.json", "photos-figure1-top1.png", "photos-figure1-top1-dark.png", "photos-table2.csv"}
    assert not [name for name in names if name.endswith(".tmp")]
    with open(tmp_path / "report/photos-figure1.csv") as file:
        rows = list(csv.DictReader(file))
    assert {(r["method"], r["label_fraction"], r["top1"]) for r in rows} >= {
        ("CPC", "0.01", "0.6"),
        ("pixels", "1.0", "0.7"),
    }
    summary = json.loads((tmp_path / "report/report.json").read_text())
    assert len(summary["runs"]) == 12
    assert [problem.split(":")[0] for problem in summary["not_read"]] == ["broken/result.json", "unknown/result.json"]
    assert summary["datasets"]["photos"]["gaps"]


def test_made_again_it_is_overwritten(tmp_path):
    samples.write(tmp_path / "runs/a", samples.linear(top1=0.25))
    _report(tmp_path / "runs", tmp_path / "runs/report")
    samples.write(tmp_path / "runs/a", samples.linear(top1=0.75))
    _report(tmp_path / "runs", tmp_path / "runs/report")
    text = (tmp_path / "runs/report/report.html").read_text()
    assert "75.0" in text
    assert "25.0" not in _Page(text).text


def test_refusals(tmp_path):
    with pytest.raises(ConfigError, match="--output= is empty"):
        report.report(report.ReportConfig())
    with pytest.raises(ConfigError, match=f"--runs={tmp_path}: no result"):
        _report(tmp_path, tmp_path / "report")
    assert not (tmp_path / "report").exists()


def test_no_record_ends_it(tmp_path, monkeypatch):
    """Fields missing or of any kind: told or shown, never a crash."""
    monkeypatch.setattr(plots, "both", lambda draw, *_, **__: (b"light", b"dark"))
    dice = random.Random(0)
    junk = [
        None,
        "",
        "x",
        -1,
        0,
        1.5,
        10**30,
        float("nan"),
        float("inf"),
        True,
        [],
        {},
        [{}],
        ["x"],
        {"a": 1},
        {"frozen": {}},
    ]
    good = [samples.efficient(), samples.efficient("pixels"), samples.linear(), samples.pretrain(),
            {"kind": "detect", "dataset": "voc", "encoder": "x", "map11": 0.5, "seed": 0}]  # fmt: skip
    samples.write(tmp_path / "good", samples.linear())
    for number in range(400):
        record = json.loads(json.dumps(dice.choice(good)))
        for name in dice.sample(sorted(record), dice.choice([1, 1, 2])):
            record[name] = dice.choice(junk)
            if dice.random() < 0.3:
                del record[name]
        samples.write(tmp_path / f"{number}", record, metrics__jsonl=json.dumps({"step": 1, "loss": dice.choice(junk)}))
    found = collect(str(tmp_path))
    assert len(found.runs) > 30
    assert len(found.problems) > 100
    page.files(found, dataset.sections(found, str(tmp_path)), str(tmp_path), "today")


def test_datasets_of_like_names_stay_apart(tmp_path):
    for number, name in enumerate(("a b", "a/b", "A-b")):
        samples.write(tmp_path / str(number), samples.linear(dataset=name))
    slugs = [section.slug for section in dataset.sections(collect(str(tmp_path)), "runs")]
    assert len(set(slugs)) == 3
