"""The exported detector: what it finds is what the run's detector finds, in the image's own pixels."""

import json
import os
import re

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_hub as hub

from cpc_tf.data.pipeline import detection_pipeline
from cpc_tf.export import check_module, verify
from cpc_tf.export.run import ExportConfig, export
from cpc_tf.files import write_file
from cpc_tf.predict.config import PredictConfig
from cpc_tf.predict.run import predict
from cpc_tf.settings import ConfigError, replace, to_flagfile
from cpc_tf.training.checkpoint import Checkpoints
from tests.data.samples import Images, encode
from tests.detect.samples import SMALL, detector_training
from tests.export.conftest import made, read
from tests.snippets import python_of

NAMES = ["ant", "bee", "wasp"]
# The head is the encoder's own last stack, exported as it was trained.
CONFIG = replace(
    SMALL, dataset="voc:/home/someone/insects", rpn_test_proposals=40, detection_score=0.2,
    backbone_endpoint="stack2", backbone_norm="layer", region_head="encoder",
)  # fmt: skip
RESULT = {"kind": "detect", "steps": 9, "map11": 0.25, "map_all": 0.5, "test_split": "test", "iou": 0.5,
          "test_images": 8, "test_boxes": 24}  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """(path, trainee) of a run with a checkpoint, made without training."""
    path = str(tmp_path_factory.mktemp("somewhere") / "first_run")
    training, draw = detector_training(CONFIG, classes=len(NAMES), steps=9), np.random.default_rng(0)
    for variable in training.model.detector_variables:  # as if trained: sure of what it sees
        variable.assign(variable + draw.normal(0, 0.1, variable.shape))
    for variable in training.model.encoder_variables:
        variable.assign(1.1 * variable)
    Checkpoints(path, training.checkpoint).save(9)
    write_file(f"{path}/run.flags", to_flagfile(CONFIG))
    write_file(f"{path}/run.json", json.dumps({"task": "detect"}))
    write_file(f"{path}/class_names.json", json.dumps(NAMES))
    write_file(f"{path}/levels.json", json.dumps({"levels": [3.0, 900.0]}))
    write_file(f"{path}/result.json", json.dumps(RESULT))
    return path, training


@pytest.fixture(scope="module")
def exported(run, tmp_path_factory):
    """(directory, what the export returned), checked in a fresh process."""
    output = str(tmp_path_factory.mktemp("exported") / "hub")
    return output, export(ExportConfig(workdir=run[0], output=output))


@pytest.fixture(scope="module")
def module(exported):
    return tf.saved_model.load(exported[0])


@pytest.fixture(scope="module")
def reference(run):
    """What the check compares with."""
    return verify.detector_reference(run[1].model, CONFIG.canvas, NAMES)


def picture(height, width):
    """Squares of noise of 4 px."""
    return np.random.default_rng(1).integers(0, 256, [height, width, 3], np.uint8).repeat(4, 0).repeat(4, 1)


def found_by(run, pixels):
    """What the run's detector finds on a picture: detections with the boxes in the picture's pixels, and how many."""
    (batch,) = detection_pipeline.plain_batches(Images([(encode(pixels), [], [], [])]), CONFIG.canvas, 1)
    found = run[1].model.find(batch["image"], batch["size"])
    return found, found.boxes / tf.tile(batch["scale"], [1, 2])[:, None], int(found.count[0])


@pytest.mark.slow
def test_it_is_checked_in_a_fresh_process(exported):
    output, done = exported
    assert done["detections"] > 10
    assert done["same"] >= 0.9
    assert re.match(
        r"3 classes, weights of step 9; in a fresh process: \d+ detections, \S+% of them the same", done["summary"]
    )
    assert {"saved_model.pb", "variables", "README.md", "detector.json"} <= set(os.listdir(output))


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(10, 15), (20, 300)])
def test_finds_what_the_run_finds_on_images_of_any_size(run, module, shape):
    pixels = picture(*shape)
    wanted, boxes, count = found_by(run, pixels)
    found = module(pixels[None])
    assert int(found["count"][0]) == count
    np.testing.assert_allclose(found["scores"], wanted.scores, atol=1e-5)
    np.testing.assert_array_equal(found["labels"], wanted.labels)
    np.testing.assert_allclose(found["boxes"], boxes, atol=0.01)
    assert np.all(found["boxes"].numpy() <= np.tile(pixels.shape[:2], 2) * (1 + 1e-6))
    names = [name.decode() for name in found["names"][0].numpy()]
    assert names[:count] == [NAMES[i] for i in found["labels"][0, :count]]
    assert set(names[count:]) <= {""}


@pytest.mark.slow
def test_predict_finds_what_the_run_finds(run, exported, tmp_path):
    pixels = picture(10, 15)
    (tmp_path / "picture.png").write_bytes(encode(pixels))
    wanted, boxes, count = found_by(run, pixels)
    assert count > 1
    (record,) = predict(PredictConfig(exported[0], f"{tmp_path}/picture.png", least_score=0.2))
    assert [box.label for box in record.boxes] == [NAMES[label] for label in wanted.labels[0, :count]]
    np.testing.assert_allclose([box.score for box in record.boxes], wanted.scores[0, :count], atol=1e-3)
    np.testing.assert_allclose([box[2:] for box in record.boxes], boxes[0, :count], atol=1)


@pytest.mark.slow
def test_another_threshold_the_names_and_no_image(module):
    images = np.random.default_rng(2).integers(0, 256, [2, 50, 50, 3], np.uint8)
    every, default, none = (module.detect(images, score) for score in (0.0, 0.2, 1.0))
    assert np.all(every["count"] >= default["count"])
    assert every["count"][0] > 0
    for name, x in module(images).items():
        np.testing.assert_array_equal(x, default[name])
    assert none["count"].numpy().tolist() == [0, 0]
    assert set(none["labels"].numpy().ravel()) == {-1}
    assert [name.decode() for name in module.class_names().numpy()] == NAMES
    found = module(np.zeros([0, 30, 40, 3], np.uint8))
    assert {name: x.shape.as_list() for name, x in found.items()} == {
        "boxes": [0, 12, 4], "scores": [0, 12], "labels": [0, 12], "names": [0, 12], "count": [0],
    }  # fmt: skip


@pytest.mark.slow
def test_its_card_and_the_code_in_it(run, exported, capsys):
    card, text = json.loads(read(exported[0], "detector.json")), read(exported[0], "README.md")
    assert (card["class_names"], card["step"], card["run"]) == (NAMES, 9, "first_run")
    assert (card["dataset"], card["detector"]["encoder"]) == ("voc:insects", "random")
    assert (card["canvas"]["canvas_height"], card["levels"]) == (48, [3.0, 900.0])
    assert "overlap of 0.5, 24 objects in 8 test pictures, step 9 | |" in text
    assert "| over 11 points | 25.0 % |\n| over all points | 50.0 % |" in text
    assert not any(word in text + json.dumps(card) for word in ("$", "/home/someone", os.path.dirname(run[0])))
    exec(python_of(text).replace("path/to/this/directory", exported[0]), {})
    for line in capsys.readouterr().out.splitlines():
        assert line.split()[0] in NAMES


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"class_names": lambda x: x[::-1]}, "the classes are ant, bee, wasp"),
        ({"least_score": lambda x: np.ones_like(x)}, "the call has another threshold"),
        ({"case0/boxes": lambda x: x + 1}, "detections are the checkpoint's"),
        ({"case1/boxes": lambda x: x * np.nan}, "boxes has shape .* or is not finite"),
        ({"case0/labels": lambda x: (x + 1) % 3}, "detections are the checkpoint's"),
    ],
)
def test_the_check_finds_what_is_different(module, reference, monkeypatch, in_process, changed, message):
    monkeypatch.setattr(hub, "load", lambda path: module)
    other = {**reference, **{name: change(reference[name]) for name, change in changed.items()}}
    with pytest.raises(check_module.NotTheSame, match=message):
        check_module.check_detector("", other)


def test_what_is_missing_is_named(tmp_path):
    path = str(tmp_path / "run")
    write_file(f"{path}/run.flags", to_flagfile(replace(CONFIG, encoder=str(tmp_path / "gone"))))
    write_file(f"{path}/run.json", json.dumps({"task": "detect"}))
    with pytest.raises(ConfigError, match="has no class_names.json, its training never began"):
        made(path, part="all")
    write_file(f"{path}/class_names.json", json.dumps(NAMES))
    with pytest.raises(ConfigError, match="--workdir=.*: the module that this run began with is needed: --encoder="):
        made(path, part="all")
