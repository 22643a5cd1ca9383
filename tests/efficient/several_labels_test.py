"""The few-label protocol on pictures with several labels each: no figure of it is an accuracy."""

import csv
import json

import numpy as np
import pytest

from cpc_tf import cli
from cpc_tf.data import catalog
from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.efficient.run import efficient
from cpc_tf.evaluation import several_labels
from tests import samples
from tests.efficient.run_test import FLAGS

pytestmark = pytest.mark.slow


@pytest.fixture
def config(tmp_path, monkeypatch):
    """Settings of a run in a folder, on pictures in memory."""
    monkeypatch.setattr(catalog, "open_pair", samples.SeveralLabels.pair)
    return cli.parse(
        EfficientConfig, [*FLAGS, "--encoder=random", "--endpoint=feature_map", f"--workdir={tmp_path}/run"]
    )


def test_from_the_choice_of_labels_to_the_result(config, tmp_path, capsys, monkeypatch):
    result = efficient(config)
    out = capsys.readouterr().out
    assert f"fine-tuned   mAP {100 * result['map']:.1f} %  micro-F1 {100 * result['micro_f1']:.1f} %" in out
    assert "held-out mAP" in out
    told = out + (tmp_path / "run/result.json").read_text() + (tmp_path / "run/frozen/metrics.jsonl").read_text()
    assert not [word for word in ("top1", "top-1", "top5", "accuracy") if word in told]
    assert result["several_labels"] is True
    scores = {"map", "map_chance", "classes_left_out", "micro_f1", "loss", "steps"}
    assert {phase: set(found) for phase, found in result["phases"].items()} == {"frozen": scores, "fine-tuned": scores}
    tried = [record for record in result["search"] if record["phase"] == "frozen"]
    best = max(tried, key=lambda record: (record["held_out_map"], -record["held_out_loss"]))
    assert [record["chosen"] for record in tried] == [record is best for record in tried]
    assert len(json.loads((tmp_path / "run/labels.json").read_text())["chosen"]) == result["num_train_labels"]

    rows = list(csv.DictReader((tmp_path / "run/predictions.csv").read_text().splitlines()))
    true, guessed = (np.array([_row(row[column]) for row in rows]) for column in ("label", "prediction"))
    np.testing.assert_array_equal(true, samples.SeveralLabels(12, seed=1).labels())
    right, wrong = np.sum(true * guessed), np.sum(true != guessed)
    assert 2 * right / (2 * right + wrong) == pytest.approx(result["micro_f1"])

    with monkeypatch.context() as patch:
        patch.setattr(several_labels, "score", None)  # the test labels are used once
        assert efficient(config) == json.loads(json.dumps(result))


def _row(text):
    return np.isin(np.arange(3), [int(number) for number in text.split(";") if number]).astype(np.float32)
