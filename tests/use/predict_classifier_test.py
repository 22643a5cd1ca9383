"""`cpc-tf predict` with a classifier: rows, broken images, being stopped, standard output."""

import csv
import fcntl
import io
import json
import signal
import types

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from cpc_tf.core.files import NotWritten
from cpc_tf.core.settings import ConfigError, Stopped
from cpc_tf.core.termination import Interrupted
from cpc_tf.data import pictures
from cpc_tf.use import predict as run
from cpc_tf.use.model import Model, Prediction
from cpc_tf.use.predict import predict
from cpc_tf.use.predict_config import PredictConfig
from tests.samples import write_pictures
from tests.use.models import write_classifier


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_classifier(tmp_path_factory.mktemp("models") / "classifier")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Nine images in folders of their colours, and a broken one."""
    root = tmp_path_factory.mktemp("own")
    write_pictures(root, {"x": 3})
    (root / "x/blue/1.jpg").write_bytes(b"%PDF")
    return root


@pytest.fixture(scope="module")
def whole(model, folder, tmp_path_factory):
    """(directory of p.csv and sheet.png, the records, what was told) of all images."""
    out, told = tmp_path_factory.mktemp("out"), []
    config = PredictConfig(
        model, str(folder), f"{out}/new/p.csv", sheet=f"{out}/sheet.png", batch_size=4
    )
    return out, predict(config, told.append), told


def rows(text):
    return list(csv.reader(io.StringIO(text)))


def test_a_row_for_each_picture(model, folder, whole):
    out, found, told = whole
    head, *lines = rows((out / "new/p.csv").read_text())
    best = ["label", "probability", "label_2", "probability_2", "label_3", "probability_3"]
    assert head == ["file", *best, "error"]
    assert (
        [line[0] for line in lines]
        == pictures.find(str(folder)).names
        == [record.file for record in found]
    )
    for line, record in zip(lines, found):
        if line[0] == "x/blue/1.jpg":
            assert line[1:] == ["", "", "", "", "", "", "cannot be decoded: PDF"]
            continue
        assert line[1] == line[0].split("/")[1] == record.label
        assert {line[1], line[3], line[5]} == {"red", "green", "blue"}
        probabilities = [float(line[i]) for i in (2, 4, 6)]
        assert probabilities == sorted(probabilities, reverse=True)
        np.testing.assert_allclose(sum(probabilities), 1, atol=2e-4)
        np.testing.assert_allclose(probabilities, record.probabilities, atol=1e-4)
    assert not (out / "new/p.csv.part").exists()
    assert (out / "sheet.png").read_bytes().startswith(b"\x89PNG")
    assert any(
        "1 of 10 images could not be read: x/blue/1.jpg (cannot be decoded: PDF)" in line
        for line in told
    )
    with pytest.raises(ConfigError, match="is finished"):
        predict(PredictConfig(model, str(folder), f"{out}/new/p.csv"))
    with pytest.raises(ConfigError, match=f"^--output={folder}: is an existing folder; name a new"):
        predict(PredictConfig(model, str(folder), str(folder)))


def test_a_module_inside_the_directory_is_named(tmp_path):
    """As below the --workdir of `cpc-tf classify`."""
    with pytest.raises(ConfigError, match="; export a run with cpc-tf export$"):
        Model(tmp_path)
    (tmp_path / "classifier").mkdir()
    (tmp_path / "classifier/classifier.json").write_text("{}")
    with pytest.raises(
        ConfigError, match=f"; name the module in it: --model={tmp_path}/classifier$"
    ):
        Model(tmp_path)


@pytest.mark.slow
def test_json_lines_and_standard_output(model, folder, whole, tmp_path, monkeypatch, capsys):
    told = []
    monkeypatch.setattr(run, "_REPORT_EVERY", -1)
    predict(PredictConfig(model, str(folder), f"{tmp_path}/p.jsonl", batch_size=3), told.append)
    lines = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    assert {*lines[0]} == {"file", "labels", "probabilities", "error"}
    assert [line["labels"] for line in lines] == [list(record.labels) for record in whole[1]]
    assert any(" left " in line and "images/s" in line for line in told[1:])
    assert capsys.readouterr().out == ""
    predict(PredictConfig(model, str(folder), "-", batch_size=3), lambda line: None)
    assert capsys.readouterr().out.splitlines() == (whole[0] / "new/p.csv").read_text().splitlines()


@pytest.mark.slow
def test_what_was_predicted_before_a_stop_is_kept(model, folder, whole, tmp_path, monkeypatch):
    config = PredictConfig(model, str(folder), f"{tmp_path}/p.csv", batch_size=4)
    steps = Model.steps

    def stopped(self, *args):
        yield next(steps(self, *args))
        raise Interrupted(signal.SIGTERM)

    monkeypatch.setattr(Model, "steps", stopped)
    with pytest.raises(
        Stopped,
        match=(
            r"SIGTERM.*p.csv.part has what was predicted before; rename it to keep that: the same"
            r" command"
        ),
    ) as stop:
        predict(config)
    assert stop.value.status == 143
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.csv.part"]
    done = (tmp_path / "p.csv.part").read_text()
    assert len(rows(done)) > 4
    assert (whole[0] / "new/p.csv").read_text().startswith(done)
    monkeypatch.setattr(Model, "steps", steps)
    with open(tmp_path / "p.csv.part", "ab") as other:  # as a process that is still at work
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(
            ConfigError, match=r"^--output=.*p.csv: another process is writing .*p.csv.part; wait"
        ):
            predict(config)
    assert (tmp_path / "p.csv.part").read_text() == done
    predict(config)
    assert (tmp_path / "p.csv").read_text() == (whole[0] / "new/p.csv").read_text()


@pytest.mark.slow
def test_multi_label(tmp_path):
    model = write_classifier(tmp_path / "several", several=True)
    for name, color in {"both": (250, 250, 0), "none": (9, 9, 9)}.items():
        Image.new("RGB", (20, 10), color).save(tmp_path / f"{name}.png")
    predict(PredictConfig(model, f"{tmp_path}/both.png,{tmp_path}/none.png", f"{tmp_path}/p.csv"))
    head, both, none = rows((tmp_path / "p.csv").read_text())
    assert head == ["file", "label", "probability", "error"]
    assert both[1] == "red;green"
    assert both[2] == "0.9978;0.9978"
    assert none[1:] == ["", "", ""]


@pytest.mark.slow
def test_16_bit_pictures_are_seen_as_in_training(tmp_path):
    deep = np.zeros([10, 10, 3], np.uint16)
    deep[..., 1] = 1000  # bright only in the range that training saw
    (tmp_path / "deep.png").write_bytes(tf.io.encode_png(deep).numpy())
    model = write_classifier(tmp_path / "model", levels=[0.0, 1000.0])
    (found,) = predict(PredictConfig(model, f"{tmp_path}/deep.png"))
    assert found.label == "green"
    assert found.confidence > 0.99


@pytest.mark.parametrize("place", [{"output": "p.json"}, {"output": "voc/"}, {"drawn": "drawn"}])
def test_a_classifier_finds_no_boxes(model, folder, place):
    with pytest.raises(ConfigError, match="finds no boxes"):
        predict(PredictConfig(model, str(folder), **place))


def test_where_nothing_can_be_written_is_told(model, folder, tmp_path):
    with pytest.raises(ConfigError, match="--output= is empty"):
        PredictConfig(model, str(folder)).check_complete()
    (tmp_path / "file").write_text("")
    with pytest.raises(NotWritten):
        predict(PredictConfig(model, str(folder), f"{tmp_path}/file/p.csv"))


def test_a_sheet_shows_the_least_sure_first():
    records = [Prediction(str(i), ("a",), ((i * 7 % 100) / 100,)) for i in range(100)]
    records[50] = types.SimpleNamespace(error="broken")
    shown = [records[i].confidence for i in run.on_sheet(records)]
    sure = sorted(record.confidence for record in records if not record.error)
    assert shown == sorted(shown)
    assert shown[:30] == sure[:30]
    assert shown[-1] == sure[-1]
    assert len(shown) == len(set(shown)) == 60
