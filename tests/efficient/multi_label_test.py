"""The few-label protocol on multi-label pictures: no figure of it is an accuracy."""

import csv
import json
import re

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf import cli
from cpc_tf.data import catalog
from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.efficient.run import efficient, prepare
from cpc_tf.evaluation import scores
from cpc_tf.settings import ConfigError, replace
from tests import samples
from tests.efficient.run_test import FLAGS

pytestmark = pytest.mark.slow


@pytest.fixture
def config(tmp_path, monkeypatch):
    """Settings of a run in a folder, on pictures in memory."""
    monkeypatch.setattr(catalog, "open_pair", samples.SeveralLabels.pair)
    here = ["--encoder=random", "--endpoint=feature_map", f"--workdir={tmp_path}/run"]
    return cli.parse(EfficientConfig, [*FLAGS, *here, "--search_trials=2", "--finetune_steps=0"])


def test_from_the_choice_of_labels_to_the_result(config, tmp_path, capsys, monkeypatch):
    result = efficient(config)
    out = capsys.readouterr().out
    of_test = f"mAP {100 * result['map']:.1f} % (12 pictures)  micro-F1 {100 * result['micro_f1']:.1f} %"
    assert f"frozen       {of_test}" in out
    assert re.search(r"held-out mAP \d+\.\d % \(\d+ pictures\)", out)
    told = out + (tmp_path / "run/result.json").read_text() + (tmp_path / "run/frozen/metrics.jsonl").read_text()
    assert not [word for word in ("top1", "top-1", "top5", "accuracy") if word in told]
    assert result["multi_label"] is True
    reported = {"map", "map_chance", "classes_left_out", "micro_f1", "tested", "loss", "steps"}
    assert {phase: set(scores_of) for phase, scores_of in result["phases"].items()} == {"frozen": reported}
    best = max(result["search"], key=lambda record: (record["held_out_map"], -record["held_out_loss"]))
    assert [record["chosen"] for record in result["search"]] == [record is best for record in result["search"]]
    assert len(json.loads((tmp_path / "run/labels.json").read_text())["chosen"]) == result["num_train_labels"]

    rows = list(csv.DictReader((tmp_path / "run/predictions.csv").read_text().splitlines()))
    true, guessed = (np.array([_row(row[column]) for row in rows]) for column in ("class", "prediction"))
    np.testing.assert_array_equal(true, samples.SeveralLabels(12, seed=1).labels())
    right, wrong = np.sum(true * guessed), np.sum(true != guessed)
    assert 2 * right / (2 * right + wrong) == pytest.approx(result["micro_f1"])

    with monkeypatch.context() as patch:
        patch.setattr(scores, "multi_label_score", None)  # the test labels are used once
        assert efficient(config) == json.loads(json.dumps(result))


def _row(text):
    return np.isin(["red", "green", "blue"], text.split(";")).astype(np.float32)


def test_label_propagation_is_refused(config):
    config = replace(config, encoder="pixels", propagation="vat")
    with pytest.raises(ConfigError, match="--propagation=vat: needs pictures with one label each"):
        prepare(config, tf.distribute.get_strategy())
