import pytest

from cpc_tf.core.settings import replace
from cpc_tf.pretrain.run import pretrain
from tests import samples
from tests.pretrain.tiny import TINY

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("tiny_encoder")]


def test_epochs_become_steps_and_probe_uses_labelled_split(tmp_path):
    folder = samples.write_pictures(tmp_path / "pictures", {"train": 4, "val": 12}, side=24)
    data = {"dataset": f"folder:{folder}", "split": "train", "probe_split": "val", "probe_every": 2}
    result = pretrain(
        replace(TINY, workdir=f"{tmp_path}/run", train_steps=0, train_epochs=0.75, **data)
    )
    assert result["step"] == 3  # 12 images, three quarters of them, in batches of 4
    assert result["images"] == 12
    assert 1 / 3 < result["knn"] <= 1
