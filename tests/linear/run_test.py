import json

import pytest

from cpc_tf.linear import run as linear
from cpc_tf.linear.config import LinearConfig
from cpc_tf.settings import ConfigError, replace

FLAGS = {"geometry_from": "flags", "resize": 64, "image_size": 64, "patch_size": 16, "patch_stride": 16}


@pytest.fixture
def trained(monkeypatch):
    """The encoders that would have been trained on, in order."""
    names = []
    monkeypatch.setattr(linear, "linear", lambda config: names.append(config.probe.encoder) or {})
    return names


@pytest.mark.parametrize("encoder", ["pixels", "random:somewhere"])
def test_a_baseline_has_no_baselines(trained, encoder):
    linear.with_baselines(replace(LinearConfig(), encoder=encoder, **FLAGS))
    assert trained == [encoder]


def test_a_module_without_a_twin_is_refused_before_it_is_trained_on(trained, tmp_path):
    config = replace(LinearConfig(), encoder=str(tmp_path), **FLAGS)
    with pytest.raises(ConfigError, match="--nobaselines"):
        linear.with_baselines(config)
    assert trained == []
    linear.with_baselines(replace(config, baselines=False))
    assert trained == [str(tmp_path)]


def test_our_module_has_both(trained, tmp_path):
    (tmp_path / "encoder.json").write_text(json.dumps({"geometry": {}, "encoder": {}}))
    linear.with_baselines(replace(LinearConfig(), encoder=str(tmp_path), **FLAGS))
    assert trained == [str(tmp_path), f"random:{tmp_path}", "pixels"]
