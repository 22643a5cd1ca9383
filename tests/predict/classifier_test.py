"""`cpc-tf predict` with a classifier: rows, broken pictures, going on, standard output."""

import csv
import io
import json
import types

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from cpc_tf import pictures
from cpc_tf.files import NotWritten
from cpc_tf.predict import drawing, part, run
from cpc_tf.predict.config import PredictConfig
from cpc_tf.predict.records import Prediction
from cpc_tf.predict.run import predict
from cpc_tf.settings import ConfigError
from tests.predict.models import write_classifier
from tests.samples import write_pictures


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_classifier(tmp_path_factory.mktemp("models") / "classifier")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Nine pictures in folders of their colours, and a broken one."""
    root = tmp_path_factory.mktemp("own")
    write_pictures(root, {"x": 3})
    (root / "x/blue/1.jpg").write_bytes(b"%PDF")
    return root


@pytest.fixture(scope="module")
def whole(model, folder, tmp_path_factory):
    """(directory of p.csv and sheet.png, the records, what was told) of all pictures."""
    out, told = tmp_path_factory.mktemp("out"), []
    config = PredictConfig(model, str(folder), f"{out}/new/p.csv", sheet=f"{out}/sheet.png", batch_size=4)
    return out, predict(config, told.append), told


def rows(text):
    return list(csv.reader(io.StringIO(text)))


def test_a_row_for_each_picture(model, folder, whole):
    out, found, told = whole
    head, *lines = rows((out / "new/p.csv").read_text())
    best = ["label", "probability", "label_2", "probability_2", "label_3", "probability_3"]
    assert head == ["file", *best, "error"]
    assert [line[0] for line in lines] == pictures.find(str(folder)).names == [record.file for record in found]
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
    assert any("1 of 10 pictures could not be read: x/blue/1.jpg (cannot be decoded: PDF)" in line for line in told)
    with pytest.raises(ConfigError, match="is finished"):
        predict(PredictConfig(model, str(folder), f"{out}/new/p.csv"))


@pytest.mark.slow
def test_json_lines_and_standard_output(model, folder, whole, tmp_path, monkeypatch, capsys):
    told = []
    monkeypatch.setattr(run, "_REPORT_EVERY", -1)
    predict(PredictConfig(model, str(folder), f"{tmp_path}/p.jsonl", batch_size=3), told.append)
    lines = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    assert {*lines[0]} == {"file", "labels", "probabilities", "error"}
    assert [line["labels"] for line in lines] == [list(record.labels) for record in whole[1]]
    assert any(" left " in line and "pictures/s" in line for line in told[1:])
    assert capsys.readouterr().out == ""
    predict(PredictConfig(model, str(folder), "-", batch_size=3), lambda line: None)
    assert capsys.readouterr().out.splitlines() == (whole[0] / "new/p.csv").read_text().splitlines()


@pytest.mark.slow
def test_an_interrupted_run_goes_on(model, folder, whole, tmp_path, monkeypatch):
    """Twice, after the last whole line: a kill in the middle of a write leaves a part of one."""
    config, read = PredictConfig(model, str(folder), f"{tmp_path}/p.csv", batch_size=4), []
    appended, batches = part.Part.append, pictures.batches

    def stop(self, records):
        appended(self, records)
        raise KeyboardInterrupt

    def watched(*args, **options):
        read.append(options["start"])
        return batches(*args, **options)

    def interrupted():
        with monkeypatch.context() as patch:
            patch.setattr(part.Part, "append", stop)
            with pytest.raises(KeyboardInterrupt):
                predict(config)
        assert not (tmp_path / "p.csv").exists()
        return (tmp_path / "p.csv.part").read_bytes()

    left = interrupted()
    monkeypatch.setattr(pictures, "batches", watched)
    for cut in (0, 7):
        (tmp_path / "p.csv").unlink(missing_ok=True)
        (tmp_path / "p.csv.part").write_bytes(left[: len(left) - cut])
        told, done = [], len(left.splitlines()) - 1 - bool(cut)
        interrupted()
        assert predict(config, told.append) == whole[1]
        assert read[-2:] == [done, done + 4]
        assert f"goes on after {done + 4} of 10 pictures" in told[0]
        assert (tmp_path / "p.csv").read_bytes() == (whole[0] / "new/p.csv").read_bytes()


@pytest.mark.slow
def test_what_was_begun_with_something_else_is_refused(model, folder, tmp_path):
    about = {"--model": "another", "--pictures": "", "--least_score": 0.5, "--drawn": ""}
    with part.opened(f"{tmp_path}/p.csv", about) as begun:
        begun.append([Prediction("a.jpg")])
        with pytest.raises(ConfigError, match="another process"):
            predict(PredictConfig(model, str(folder), f"{tmp_path}/p.csv"))
    with pytest.raises(ConfigError, match="was begun with other --model and --pictures"):
        predict(PredictConfig(model, str(folder), f"{tmp_path}/p.csv"))
    (tmp_path / "p.csv.part").write_text('{"--model": "another"}\nnot json\n')
    with pytest.raises(ConfigError, match="damaged"), part.opened(f"{tmp_path}/p.csv", about):
        pass


@pytest.mark.slow
def test_several_labels(tmp_path):
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
    shown = [records[i].confidence for i in drawing.chosen(records)]
    sure = sorted(record.confidence for record in records if not record.error)
    assert shown == sorted(shown)
    assert shown[:30] == sure[:30]
    assert shown[-1] == sure[-1]
    assert len(shown) == len(set(shown)) == 60
