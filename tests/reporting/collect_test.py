"""What is found below a directory: all results, nothing behind links, no crash."""

import json
import os

import pytest

from cpc_tf.reporting.collect import Found, Run, collect
from cpc_tf.settings import ConfigError
from tests.reporting import samples


def test_finds_runs_lists_and_modules(tmp_path):
    samples.all_kinds(tmp_path)
    (tmp_path / "study.json").write_text(json.dumps([samples.linear(policy="none"), {"kind": "linear"}, 3]))
    (tmp_path / "labels.json").write_text("[1, 2]")
    found = collect(str(tmp_path))
    kinds = [run["kind"] for run in found.runs]
    assert {kind: kinds.count(kind) for kind in set(kinds)} == {"efficient": 6, "linear": 5, "pretrain": 1, "detect": 1}
    assert [run.directory for run in found.runs if run.get("policy")] == [""]
    assert sorted(problem.split(":")[0] for problem in found.problems) == [
        "broken/result.json", "study.json, record 1", "study.json, record 2", "unknown/result.json",
    ]  # fmt: skip
    assert found.module("random:elsewhere/photos/hub")["parameters"] == 218048
    assert found.module("elsewhere/hub") == {}


def test_links_lead_nowhere(tmp_path):
    samples.write(tmp_path / "other/run", samples.linear(top1=0.1))
    samples.write(tmp_path / "runs/own", samples.linear())
    for name in ("own/result.json.link", "linked", "own/loop", "own/predictions.csv"):
        os.symlink(tmp_path / ("runs" if "loop" in name else "other/run"), tmp_path / "runs" / name)
    os.symlink(tmp_path / "other/run/result.json", tmp_path / "runs/result.json")
    os.symlink(tmp_path / "runs", tmp_path / "door")
    for entrance in ("runs", "door"):
        (run,) = collect(str(tmp_path / entrance)).runs
        assert run["top1"] == 0.9
        assert not run.file("predictions.csv")


def test_an_encoder_that_learned_from_labels_alone_is_supervised(tmp_path):
    began_as = {"hub": None, "labels": {}, "tuned": {"module": "hub"}}
    for name, before in began_as.items():
        card = {"began_as": before, **({"num_train_labels": 5} if name != "hub" else {})}
        samples.write(tmp_path / f"{name}/linear", samples.linear(f"runs/{name}/hub"))
        (tmp_path / f"{name}/hub").mkdir()
        (tmp_path / f"{name}/hub/encoder.json").write_text(json.dumps(card))
    runs = collect(str(tmp_path)).runs
    assert {run["encoder"]: run.get("features") for run in runs} == {
        "runs/hub/hub": None, "runs/labels/hub": "supervised", "runs/tuned/hub": None,
    }  # fmt: skip


def test_a_run_counts_once(tmp_path):
    """A study's list repeats its runs, with more to say; a copy of a directory is the same run."""
    record = samples.linear(wall_seconds=9.123456)
    samples.write(tmp_path / "a", record)
    samples.write(tmp_path / "copy", record)
    samples.write(tmp_path / "seed", samples.linear(wall_seconds=9.2, seed=1))
    (tmp_path / "study.json").write_text(json.dumps([{**record, "rung": "BU"}]))
    runs = collect(str(tmp_path)).runs
    assert len(runs) == 2
    assert (runs[0].place, runs[0].get("rung")) == ("a", "BU")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"top1": 91.9}, "top1 is 91.9"),
        ({"top1": float("nan")}, "top1 is nan"),
        ({"top1": None}, "top1 is missing"),
        ({"top1": True}, "top1"),
        ({"top5": 10**400}, "top5"),
        ({"dataset": 3}, "dataset is 3"),
        ({"num_train_labels": 0}, "num_train_labels is 0"),
        ({"phases": {"frozen": 1}}, "phases"),
        ({"phases": []}, "phases"),
        ({"search": [1]}, "search"),
        ({"class_names": [1]}, "class_names"),
        ({"seed": "x"}, "seed"),
        ({"kind": ["x"]}, "kind"),
    ],
)
def test_what_is_wrong_is_told(tmp_path, change, told):
    samples.write(tmp_path / "good", samples.efficient())
    samples.write(tmp_path / "bad", {**samples.efficient(), **change})
    found = collect(str(tmp_path))
    assert len(found.runs) == 1
    (problem,) = found.problems
    assert problem.startswith("bad/result.json: ")
    assert told in problem


def test_nothing_there(tmp_path):
    with pytest.raises(ConfigError, match="--runs=.*nowhere"):
        collect(str(tmp_path / "nowhere"))
    samples.write(tmp_path / "run", {"kind": "dance"})
    with pytest.raises(ConfigError, match=r"--runs=.*1 could not be read.*make demo"):
        collect(str(tmp_path))


def test_metrics_and_predictions_survive_anything(tmp_path):
    run = Run({}, "x", str(tmp_path))
    (tmp_path / "metrics.jsonl").write_bytes(
        b'{"step": 1, "loss": 2, "name": "x", "bad": NaN}\n[]\n{"loss": 1}\n\xff\n{"st'
    )
    assert run.metrics() == [{"step": 1, "loss": 2}]
    (tmp_path / "predictions.csv").write_text("label,prediction\n1,2\n0,0\n")
    assert run.predictions() == [(1, 2), (0, 0)]
    for text in ("", "label\n1\n", "label,prediction\n1,x\n", "label,prediction\n1\n", "label,prediction\n-1,0\n"):
        (tmp_path / "predictions.csv").write_text(text)
        assert run.predictions() == []
    assert Found([]).of("linear") == []
