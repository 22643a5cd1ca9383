"""What is found below a directory: all results, nothing behind links, no crash; and what datasets
are called.
"""

import json
import os

import pytest

from cpc_tf.core.settings import ConfigError
from cpc_tf.report import runs as results
from cpc_tf.report.page import REPORTS
from cpc_tf.report.runs import Run, collect, dataset_id, dataset_titles, own_preset, run_id
from tests.report import samples


def found_in(folder):
    return collect(str(folder), REPORTS)


def test_finds_runs_and_lists(tmp_path):
    samples.all_kinds(tmp_path)
    (tmp_path / "study.json").write_text(
        json.dumps([samples.linear(policy="none", loss=0.4), {"kind": "linear"}, 3])
    )
    (tmp_path / "labels.json").write_text("[1, 2]")
    runs, problems = found_in(tmp_path)
    kinds = [run["kind"] for run in runs]
    assert {kind: kinds.count(kind) for kind in set(kinds)} == {
        "efficient": 6,
        "linear": 8,
        "pretrain": 1,
        "detect": 1,
    }
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
        (run,), problems = found_in(tmp_path / entrance)
        assert problems == ["result.json: cannot be read (no file of its own)"]
        assert run["top1"] == 0.9
        assert not run.read("predictions.csv")


def test_a_run_counts_once(tmp_path):
    """A study's record names the run that it was copied from, and adds what it says; a copy is the
    same run.
    """
    record = samples.linear()
    samples.write(tmp_path / "a", record, run__flags="--seed=0\n")
    samples.write(tmp_path / "copy", record, run__flags="--seed=0\n")
    # With the same figures and time, but other flags: another run.
    samples.write(tmp_path / "seed", record, run__flags="--seed=1\n")
    (tmp_path / "study.json").write_text(
        json.dumps([{**record, "rung": "BU", "run": run_id(str(tmp_path / "a"))}])
    )
    runs, _ = found_in(tmp_path)
    assert [(run.place, run.get("rung")) for run in runs] == [("a", "BU"), ("seed", None)]


def test_too_large_file_is_not_read(tmp_path, monkeypatch):
    samples.write(tmp_path / "a", samples.linear())
    samples.write(tmp_path / "b", samples.linear(note="x" * 2000))
    monkeypatch.setattr(results, "LARGEST", 2000)
    (run,), problems = found_in(tmp_path)
    assert (run.place, problems) == (
        "a",
        ["b/result.json: cannot be read (larger than 2,000 bytes)"],
    )


WRONG = {
    "top1 is 91.9": {"top1": 91.9},
    "top1 is nan": {"top1": float("nan")},
    "top1 is missing": {"top1": None},
    "top5": {"top5": 10**400},
    "tested is 0": {"tested": 0},
    "classes": {"classes": {"cat": {"tested": 3}}},
    "dataset is 3": {"dataset": 3},
    "num_train_labels is 0": {"num_train_labels": 0},
    "phases": {"phases": {"frozen": 1}},
    "search": {"search": [1]},
    "class_names": {"class_names": [1]},
    "seed": {"seed": "x"},
    "kind": {"kind": ["x"]},
    "identity is missing": {"identity": None},
    "identity is {": {"identity": {"trained_by": "cpc", "architecture": 3}},
    "settings": {"settings": [1]},
    "map_chance": {"map_chance": "x"},
    "levels": {"levels": 3},
    "best_f1": {
        "best_f1": {"score": 2, "right": 1, "boxes": 1, "objects": 1, "precision": 1, "recall": 1}
    },
}


def test_what_is_wrong_is_reported(tmp_path):
    samples.write(tmp_path / "good", samples.efficient())
    for number, change in enumerate(WRONG.values()):
        samples.write(tmp_path / f"{number:02}", {**samples.efficient(), **change})
    runs, problems = found_in(tmp_path)
    assert [run.place for run in runs] == ["good"]
    assert len(problems) == len(WRONG)
    for number, (fault, problem) in enumerate(zip(WRONG, problems)):
        assert problem.startswith(f"{number:02}/result.json: ")
        assert fault in problem


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


PRESETS = {
    "linear": {
        "photos/15200": "photos/linear",
        "imagenet2012": "imagenet/linear",
        "imagenet2012:5.1.0": "imagenet/linear",
        "imagenette/320px-v2": "imagenette/linear",
        "folder:../data/imagenette-224/": "imagenette/linear",
        # Names that only begin like another, and folders that are called like an embedded dataset.
        "folder:vocabulary": "",
        "folder:/x/photos": "",
        "imagenet_resized/64x64": "",
        "photosynthesis": "",
        "folder:": "",
        "": "",
    },
    "detect": {
        "voc/2007": "voc/detect",
        "voc:VOCdevkit/VOC2007": "voc/detect",
        "voc:../bccd-voc": "bccd/detect",
        "collages/600": "collages/detect",
        "collages-128px": "collages/detect_128px",
        "voc:/x/voc": "",
        "folder:/x/collages": "",
    },
}


def test_a_preset_is_that_of_the_dataset():
    for task, known in PRESETS.items():
        assert {dataset: own_preset(dataset, task) for dataset in known} == known


def test_datasets_of_one_page_have_distinct_names():
    birds, cells = (
        ["folder:/birds/images", "folder:/cars/images"],
        ["folder:/x/cells", "voc:/x/cells"],
    )
    for alike in (
        birds,
        cells,
        ["folder:gs://a/images", "folder:gs://b/images"],
        ["folder:/x/photos", "photos"],
    ):
        assert dataset_titles(alike) == {name: name for name in alike}
    short = {
        "photos": "photos",
        "photos/15200": "photos",
        "folder:/data/sets/birds/": "birds",
        "voc/2007": "voc/2007",  # fmt: skip
        "folder:/fruit/train": "fruit",
        "cifar10": "cifar10",
        "folder:": "folder:",
        "": "",
    }
    assert dataset_titles(short) == short


def test_folder_spellings_give_one_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "birds/images").mkdir(parents=True)
    os.symlink(tmp_path / "birds", tmp_path / "link")
    written = (
        "birds/images",
        "birds/images/",
        "./birds/../birds/images",
        "~/birds/images",
        f"{tmp_path}/birds/images",
        "link/images",
    )
    assert len({dataset_id(f"folder:{path}") for path in written}) == 1
    assert {*dataset_titles([f"folder:{path}" for path in written]).values()} == {"images"}
