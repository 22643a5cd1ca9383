import json
import pathlib

import pytest

from cpc_tf.pretrain import run as pretrain
from cpc_tf.settings import ConfigError, replace
from tests.pretrain.tiny import TINY

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("tiny_encoder")]


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    return str(tmp_path_factory.mktemp("data"))


def _losses(workdir):
    return [json.loads(line)["loss"] for line in pathlib.Path(workdir, "metrics.jsonl").read_text().splitlines()]


def test_two_replicas_with_gathered_negatives_train_as_one(tmp_path, data_dir, monkeypatch, two_replicas):
    config = replace(TINY, data_dir=data_dir, learning_rate=0.001)
    pretrain.pretrain(replace(config, workdir=f"{tmp_path}/one", strategy="single"))
    monkeypatch.setattr("cpc_tf.training.workdir.strategy_of", lambda _: two_replicas)
    pretrain.pretrain(replace(config, workdir=f"{tmp_path}/two"))
    assert _losses(f"{tmp_path}/two") == pytest.approx(_losses(f"{tmp_path}/one"), rel=1e-3)


def test_probe_looks_where_labels_are(tmp_path, data_dir):
    config = replace(TINY, data_dir=data_dir, workdir=f"{tmp_path}/run", probe_split="test", probe_every=2)
    assert 1 / 19 < pretrain.pretrain(config)["knn"] <= 1
    unlabelled = replace(config, workdir=f"{tmp_path}/unlabelled", probe_split="")
    assert "knn" not in pretrain.pretrain(unlabelled)


def test_epochs_become_steps(tmp_path, data_dir):
    config = replace(TINY, data_dir=data_dir, workdir=f"{tmp_path}/run", train_steps=0, train_epochs=0.25)
    assert pretrain.pretrain(config)["step"] == 3  # 40 images, a quarter of them, in batches of 4


def test_a_wrong_dataset_leaves_no_workdir(tmp_path, data_dir):
    config = replace(TINY, data_dir=data_dir, workdir=f"{tmp_path}/run", dataset="folder:/nowhere")
    with pytest.raises(ConfigError, match="--dataset=folder:/nowhere"):
        pretrain.pretrain(config)
    assert not (tmp_path / "run").exists()
