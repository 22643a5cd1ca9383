"""What is found below a directory: all results, nothing behind links, no crash."""

import json
import os

import pytest

from cpc_tf.results.runs import Run, collect, run_id
from cpc_tf.settings import ConfigError
from cpc_tf.tasks import TASKS
from tests.results import samples


def found_in(folder):
    return collect(str(folder), TASKS)


def test_finds_runs_and_lists(tmp_path):
    samples.all_kinds(tmp_path)
    (tmp_path / "study.json").write_text(json.dumps([samples.linear(policy="none", loss=0.4), {"kind": "linear"}, 3]))
    (tmp_path / "labels.json").write_text("[1, 2]")
    runs, problems = found_in(tmp_path)
    kinds = [run["kind"] for run in runs]
    assert {kind: kinds.count(kind) for kind in set(kinds)} == {"efficient": 6, "linear": 5, "pretrain": 1, "detect": 1}
    assert [run.directory for run in runs if run.get("policy")] == [""]
    assert sorted(problem.split(":")[0] for problem in problems) == [
        "broken/result.json",
        "study.json, record 1",
        "study.json, record 2",
        "unknown/result.json",
    ]


def test_links_are_not_followed(tmp_path):
    samples.write(tmp_path / "other/run", samples.linear(top1=0.1))
    samples.write(tmp_path / "runs/own", samples.linear())
    for name in ("own/result.json.link", "linked", "own/loop", "own/predictions.csv"):
        os.symlink(tmp_path / ("runs" if "loop" in name else "other/run"), tmp_path / "runs" / name)
    os.symlink(tmp_path / "other/run/result.json", tmp_path / "runs/result.json")
    os.symlink(tmp_path / "runs", tmp_path / "link")
    for entrance in ("runs", "link"):
        ((run,), _) = found_in(tmp_path / entrance)
        assert run["top1"] == 0.9
        assert not run.read("predictions.csv")


def test_a_run_counts_once(tmp_path):
    """A study's record names the run that it was copied from, and adds what it says; a copy is the same run."""
    record = samples.linear()
    samples.write(tmp_path / "a", record, run__flags="--seed=0\n")
    samples.write(tmp_path / "copy", record, run__flags="--seed=0\n")
    samples.write(tmp_path / "seed", samples.linear(seed=1), run__flags="--seed=1\n")
    (tmp_path / "study.json").write_text(json.dumps([{**record, "rung": "BU", "run": run_id(str(tmp_path / "a"))}]))
    runs, _ = found_in(tmp_path)
    assert [(run.place, run.get("rung")) for run in runs] == [("a", "BU"), ("seed", None)]


def test_runs_of_equal_time_and_figures_are_not_one(tmp_path):
    """Two runs may end in the same second with the same accuracy: what they were started with tells them apart."""
    for seed in (0, 1):
        record = samples.linear(wall_seconds=9.123456)
        samples.write(tmp_path / str(seed), record, run__flags=f"--seed={seed}\n")
    assert len(found_in(tmp_path)[0]) == 2


@pytest.mark.parametrize(
    ("change", "problem"),
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
        ({"identity": "cpc"}, "identity"),
        ({"identity": None}, "identity is missing"),
        ({"settings": [1]}, "settings"),
        ({"identity": {"trained_by": "cpc", "architecture": 3}}, "identity"),
    ],
)
def test_what_is_wrong_is_reported(tmp_path, change, problem):
    samples.write(tmp_path / "good", samples.efficient())
    samples.write(tmp_path / "bad", {**samples.efficient(), **change})
    runs, (reported,) = found_in(tmp_path)
    assert len(runs) == 1
    assert reported.startswith("bad/result.json: ")
    assert problem in reported


def test_nothing_there(tmp_path):
    with pytest.raises(ConfigError, match="--runs=.*nowhere"):
        found_in(tmp_path / "nowhere")
    samples.write(tmp_path / "run", {"kind": "dance"})
    with pytest.raises(ConfigError, match=r"--runs=.*1 could not be read.*make demo"):
        found_in(tmp_path)


def test_metrics_survive_anything(tmp_path):
    run = Run({}, "x", str(tmp_path))
    (tmp_path / "metrics.jsonl").write_bytes(
        b'{"step": 1, "loss": 2, "name": "x", "bad": NaN}\n[]\n{"loss": 1}\n\xff\n{"st'
    )
    assert run.metrics() == [{"step": 1, "loss": 2}]
    assert run.metrics("no such phase") == []
