import pytest

from cpc_tf.pretrain import run as pretrain
from cpc_tf.settings import ConfigError, replace
from tests.pretrain.tiny import TINY

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("tiny_encoder")]


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    return str(tmp_path_factory.mktemp("data"))


def test_probe_looks_where_labels_are(tmp_path, data_dir):
    config = replace(TINY, data_dir=data_dir, workdir=f"{tmp_path}/run", probe_split="test", probe_every=2)
    assert 1 / 19 < pretrain.pretrain(config)["knn"] <= 1


def test_epochs_become_steps_and_without_labels_there_is_no_probe(tmp_path, data_dir):
    config = replace(TINY, data_dir=data_dir, workdir=f"{tmp_path}/run", train_steps=0, train_epochs=0.25)
    result = pretrain.pretrain(replace(config, probe_split="", probe_every=2))
    assert result["step"] == 3  # 40 images, a quarter of them, in batches of 4
    assert "knn" not in result


def test_a_wrong_dataset_leaves_no_workdir(tmp_path, data_dir):
    config = replace(TINY, data_dir=data_dir, workdir=f"{tmp_path}/run", dataset="folder:/nowhere")
    with pytest.raises(ConfigError, match="--dataset=folder:/nowhere"):
        pretrain.pretrain(config)
    assert not (tmp_path / "run").exists()
