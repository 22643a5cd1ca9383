"""What follows from the encoder's card and from the number of labels where nothing is given."""

import json

import numpy as np
import pytest

from cpc_tf.data.config import GeometryConfig
from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.efficient.labels import Labels, from_encoder, from_labels
from cpc_tf.encoders.card import FILE, EncoderCard, Training
from cpc_tf.encoders.config import EncoderConfig
from cpc_tf.settings import open_settings, replace

GEOMETRY = GeometryConfig(resize=144, image_size=128, patch_size=32, patch_stride=24)


@pytest.fixture
def module(tmp_path):
    """The folder of a module of which only the card is there."""
    (tmp_path / FILE).write_text(
        json.dumps(EncoderCard(EncoderConfig(encoder="base"), GEOMETRY, Training(objective="cpc"), 1024, 9).to_json())
    )
    return str(tmp_path)


def labels(count):
    return Labels(np.arange(count), np.arange(count * 4 // 5), np.arange(count * 4 // 5, count), 1.0)


@pytest.mark.parametrize(
    ("flags", "sizes", "told"),
    [
        ({}, (144, 128), "from the encoder's card: --resize=144 --image_size=128"),
        ({"image_size": 64}, (72, 64), "from the encoder's card: --resize=72"),
        ({"resize": 100}, (100, 100), "from the encoder's card: --image_size=100"),
        ({"resize": 256, "image_size": 224}, (256, 224), ""),
        ({"encoder": "pixels"}, (256, 224), "from the paper, since --encoder has no card: --resize=256 --image_size="),
    ],
)
def test_sizes_are_the_encoders_and_what_is_given_wins(module, flags, sizes, told):
    config, line = from_encoder(replace(EfficientConfig(), **{"encoder": module, **flags}))
    assert (config.images.resize, config.images.image_size) == sizes
    assert line.startswith(told)
    assert bool(line) == bool(told)


@pytest.mark.parametrize(
    ("count", "flags", "told"),
    [
        (
            80,
            {},
            "from 80 labels: --head_blocks=2 --head_width=512 --cached_views=16 --batch_size=64 --train_epochs=400",
        ),
        (20, {"head_width": 64}, "from 20 labels: --cached_views=16 --batch_size=16 --train_epochs=400"),
        (
            950,
            {"train_steps": 9, "encoder": "pixels"},
            "from 950 labels: --head_width=512 --cached_views=0 --batch_size=64",
        ),
        (
            950,
            {"train_steps": 9, "head_blocks": 0},
            "from 950 labels: --head_width=512 --cached_views=8 --batch_size=64",
        ),
        (
            20_000,
            {"batch_size": 512, "cached_views": 3},
            "from 20000 labels: --head_blocks=11 --head_width=4096 --train_epochs=100",
        ),
    ],
)
def test_batch_length_and_classifier_follow_from_the_labels(count, flags, told):
    config, line = from_labels(replace(EfficientConfig(), **{"encoder": "random", **flags}), labels(count), replicas=1)
    assert line == told
    assert open_settings(replace(config, resize=9, image_size=8, head_blocks=1)) == []


def test_a_batch_is_of_all_cached_views_and_divides_among_replicas():
    """That a larger one is refused is a row of tests/refusals_test.py."""
    config = replace(EfficientConfig(), encoder="random", batch_size=64, cached_views=4)
    from_labels(config, labels(20), replicas=1)  # 64 features of 16 pictures
    assert from_labels(replace(config, batch_size=0), labels(5), replicas=4)[0].training.batch_size == 4
