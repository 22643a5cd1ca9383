"""The exported detector: what it finds is what the run's detector finds, in the image's own
pixels.
"""

import json

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.boxes import canvas
from cpc_tf.core.files import write_file
from cpc_tf.core.settings import ConfigError, replace, to_flagfile
from cpc_tf.use.predict import predict
from cpc_tf.use.predict_config import PredictConfig
from tests.boxes.samples import Images
from tests.data.samples import encode
from tests.export.conftest import made
from tests.export.runs import DETECT, NAMES


def picture(height, width):
    """Squares of noise of 4 px."""
    return (
        np.random.default_rng(1)
        .integers(0, 256, [height, width, 3], np.uint8)
        .repeat(4, 0)
        .repeat(4, 1)
    )


def found_by(detected, pixels):
    """What the run's detector finds on an image: detections with the boxes in the image's pixels,
    and how many.
    """
    (batch,) = canvas.plain_batches(Images([(encode(pixels), [], [], [])]), DETECT.canvas, 1)
    found = detected[1].model.find(batch["image"], batch["size"])
    return found, found.boxes / tf.tile(batch["scale"], [1, 2])[:, None], int(found.count[0])


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(10, 15), (20, 300)])
def test_export_detects_like_the_run_at_any_size(detected, exported, shape):
    pixels = picture(*shape)
    wanted, boxes, count = found_by(detected, pixels)
    found = tf.saved_model.load(exported("detector")[0])(pixels[None])
    assert int(found["count"][0]) == count
    np.testing.assert_allclose(found["scores"], wanted.scores, atol=1e-5)
    np.testing.assert_array_equal(found["labels"], wanted.labels)
    np.testing.assert_allclose(found["boxes"], boxes, atol=0.01)
    assert np.all(found["boxes"].numpy() <= np.tile(pixels.shape[:2], 2) * (1 + 1e-6))
    names = [name.decode() for name in found["names"][0].numpy()]
    assert names[:count] == [NAMES[i] for i in found["labels"][0, :count]]
    assert set(names[count:]) <= {""}


@pytest.mark.slow
def test_predict_finds_what_the_run_finds(detected, exported, tmp_path):
    pixels = picture(10, 15)
    (tmp_path / "picture.png").write_bytes(encode(pixels))
    wanted, boxes, count = found_by(detected, pixels)
    assert count > 1
    (record,) = predict(
        PredictConfig(exported("detector")[0], f"{tmp_path}/picture.png", least_score=0.2)
    )
    assert [box.label for box in record.boxes] == [
        NAMES[label] for label in wanted.labels[0, :count]
    ]
    np.testing.assert_allclose(
        [box.score for box in record.boxes], wanted.scores[0, :count], atol=1e-3
    )
    np.testing.assert_allclose([box[2:] for box in record.boxes], boxes[0, :count], atol=1)


def test_what_is_missing_is_named(tmp_path):
    path = str(tmp_path / "run")
    write_file(f"{path}/run.flags", to_flagfile(replace(DETECT, encoder=str(tmp_path / "gone"))))
    write_file(f"{path}/run.json", json.dumps({"task": "detect"}))
    with pytest.raises(ConfigError, match="has no class_names.json, so its training never began"):
        made(path, part="all")
    write_file(f"{path}/class_names.json", json.dumps(NAMES))
    with pytest.raises(
        ConfigError, match="--workdir=.*: the module that this run began with is needed: --encoder="
    ):
        made(path, part="all")
