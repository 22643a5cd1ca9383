"""The linear protocol on two replicas, which are logical CPUs here: what tests/conformance_test.py does not show."""

import json
import math

import pytest

from cpc_tf import cli
from cpc_tf.encoders.config import EncoderConfig
from cpc_tf.linear.config import LinearConfig
from cpc_tf.linear.run import linear
from tests import modules, samples
from tests.conftest import make_tiny

pytestmark = pytest.mark.slow
TRAINING = ["--batch_size=4", "--train_steps=3", "--steps_per_loop=2", "--cached_views=0", "--augment=none"]
COMPILED = ["--geometry_from=flags", "--nobaselines", "--precision=bfloat16", "--xla=on"]
GEOMETRY = {"resize": 16, "image_size": 16, "patch_size": 8, "patch_stride": 8}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """6 red and 6 green images to learn from, and 2 of each to test on."""
    root = tmp_path_factory.mktemp("pictures") / "pictures"
    return samples.write_pictures(root, {"train": 6, "val": 2}, names=("red", "green"))


@pytest.fixture(scope="module")
def hub_dir(tmp_path_factory):
    path = tmp_path_factory.mktemp("hub")
    with pytest.MonkeyPatch.context() as patch:
        make_tiny(patch)
        modules.write_module(path, EncoderConfig(encoder="small"))
        yield str(path)


@pytest.fixture(autouse=True)
def on_both(two_replicas, monkeypatch):
    monkeypatch.setattr("cpc_tf.training.workdir.strategy_of", lambda *_: two_replicas)


def settings(config_class, folder, workdir, encoder, *more):
    here = [f"--dataset=folder:{folder}", "--test_split=val", f"--data_dir={folder}/../cache"]
    return cli.parse(config_class, [*here, *TRAINING, f"--workdir={workdir}", f"--encoder={encoder}", *more])


@pytest.mark.parametrize("kind", ["", "graph:"], ids=["network", "graph"])
def test_linear_compiled_in_bfloat16(kind, folder, hub_dir, tmp_path):
    geometry = [f"--{name}={value}" for name, value in GEOMETRY.items()]
    config = settings(LinearConfig, folder, tmp_path, kind + hub_dir, *geometry, *COMPILED)
    result = linear(config)
    assert result["steps"] == 3
    assert 0 <= result["top1"] <= 1
    assert math.isfinite(result["loss"])


def test_of_several_workers_the_second_one_neither_writes_nor_prints(folder, hub_dir, tmp_path, monkeypatch, capsys):
    cluster = {"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(cluster))
    result = linear(settings(LinearConfig, folder, tmp_path, hub_dir, "--strategy=multiworker"))
    assert result["steps"] == 3
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    assert capsys.readouterr().out == ""
