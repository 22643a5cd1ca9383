"""The tasks on labels from pictures to result.json on two replicas, which are logical CPUs here."""

import math

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf import cli
from cpc_tf.data.config import GeometryConfig
from cpc_tf.efficient import run as efficient
from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.encoders.config import EncoderConfig, make_encoder
from cpc_tf.linear import run as linear
from cpc_tf.linear.config import LinearConfig
from export.module import HubEncoder, save

TRAINING = ["--batch_size=4", "--train_steps=3", "--steps_per_loop=2", "--cached_views=0", "--augment=none"]
GEOMETRY = {"resize": 16, "image_size": 16, "patch_size": 8, "patch_stride": 8}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """6 red and 6 green pictures to learn from, and 2 each to test on."""
    root, random = tmp_path_factory.mktemp("pictures"), np.random.default_rng(0)
    for split, count in (("train", 6), ("val", 2)):
        for channel, name in enumerate(("red", "green")):
            (root / split / name).mkdir(parents=True)
            for number in range(count):
                pixels = random.integers(0, 100, [16, 16, 3], dtype=np.uint8)
                pixels[..., channel] += 120
                (root / split / name / f"{number}.png").write_bytes(tf.io.encode_png(pixels).numpy())
    return str(root)


@pytest.fixture(scope="module")
def hub_dir(tmp_path_factory):
    encoder = make_encoder(EncoderConfig(encoder="tiny"))
    encoder(tf.zeros([1, 8, 8, 3]))
    path = str(tmp_path_factory.mktemp("hub"))
    save(HubEncoder(encoder, GeometryConfig(**GEOMETRY)), path)
    return path


def settings(config_class, folder, workdir, encoder, *more):
    here = [f"--dataset=folder:{folder}", "--test_split=val", f"--data_dir={folder}/../cache"]
    return cli.parse(config_class, [*here, *TRAINING, f"--workdir={workdir}", f"--encoder={encoder}", *more])


def test_linear(folder, hub_dir, tmp_path, two_replicas, monkeypatch):
    monkeypatch.setattr(linear, "strategy_of", lambda _: two_replicas)
    geometry = [f"--{name}={value}" for name, value in GEOMETRY.items()]
    config = settings(LinearConfig, folder, tmp_path, hub_dir, "--geometry_from=flags", "--nobaselines", *geometry)
    result = linear.linear(config)
    assert result["steps"] == 3
    assert 0 <= result["top1"] <= 1
    assert math.isfinite(result["loss"])


@pytest.mark.parametrize("encoder", ["hub", "pixels"])
def test_few_labels(encoder, folder, hub_dir, tmp_path, two_replicas, monkeypatch):
    monkeypatch.setattr(efficient, "strategy_of", lambda _: two_replicas)
    encoder = hub_dir if encoder == "hub" else encoder
    head = ["--backbone=tiny", "--head_blocks=0", "--endpoint=feature_map", "--held_out=0", "--finetune_steps=2"]
    config = settings(EfficientConfig, folder, tmp_path, encoder, *head, "--resize=16", "--image_size=16")
    result = efficient.efficient(config)
    assert 0 <= result["top1"] <= 1
    assert [phase["steps"] for phase in result["phases"].values()] == ([3] if encoder == "pixels" else [3, 2])
