"""`cpc-tf classify` from labelled images to predictions, on a tiny module."""

import csv
import json
import shutil

import numpy as np
import pytest
from PIL import Image

from cpc_tf.classify import choice
from cpc_tf.classify.config import ClassifyConfig
from cpc_tf.classify.run import described
from cpc_tf.core.settings import ConfigError, unflatten
from cpc_tf.encoders.features import Encoder
from cpc_tf.encoders.side_by_side import open_encoder
from cpc_tf.evaluation.scores import probabilities
from cpc_tf.use import classify as classify_command
from cpc_tf.use.model import Model
from tests import modules, samples


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A module; images of three classes, some below 'mine' with labels in a table, others new."""
    root = tmp_path_factory.mktemp("classify")
    modules.write_module(root / "module")
    samples.write_pictures(root / "new", {"all": 2})
    samples.write_pictures(root / "mine", {"x": 14})
    files = sorted(
        path.relative_to(root / "mine").as_posix() for path in (root / "mine").rglob("*.png")
    )
    labelled = [name for name in files if int(name.rpartition("/")[2][:-4]) < 11]  # 33 of 42
    rows = "".join(f"{name},{name.split('/')[1]}\n" for name in labelled)
    (root / "labels.csv").write_text(f"file,label\n{rows}")
    return root


def config(data, **values):
    paths = {
        "labelled": f"{data}/mine",
        "labels": f"{data}/labels.csv",
        "encoder": f"{data}/module",
    }
    return unflatten(ClassifyConfig, {**paths, **values})


@pytest.fixture(scope="module")
def run(data):
    """The lines, the result and the records of a whole run, which draws a curve."""
    lines = []
    settings = config(
        data,
        workdir=f"{data}/run",
        pictures=f"{data}/new",
        output=f"{data}/predictions.csv",
        curve=True,
    )
    return lines, *classify_command.classify(settings, lines.append)


def test_all_labels_train_and_each_is_tested(run, data):
    lines, result, records = run
    assert (result["num_train_labels"], result["tested"]) == (33, 33)
    assert json.loads((data / "run/result.json").read_text()) == json.loads(json.dumps(result))
    with open(data / "run/predictions.csv") as file:
        rows = [*csv.DictReader(file)]
    assert sum(row["class"] == row["prediction"] for row in rows) == result["right"] > 25
    assert result["unlabelled"]["pictures"] == 9  # those of the folder that the table leaves out
    assert any(line.startswith("by cross-validation: top-1 ") for line in lines)
    with open(data / "predictions.csv") as file:
        assert [row["label"] for row in csv.DictReader(file)] == [
            record.label for record in records
        ]
    assert [record.label for record in records] == [record.file.split("/")[1] for record in records]


def test_the_module_is_the_regression_on_the_features(run, data):
    model, encoder = Model(f"{data}/run/classifier"), Encoder(f"{data}/module")
    images = np.random.default_rng(0).integers(0, 256, [5, 16, 16, 3], np.uint8)
    weights = np.load(data / "run/logistic.npz")
    whole = [encoder.encode(view).numpy() for view in (images, images[:, :, ::-1])]
    np.testing.assert_allclose(*whole, atol=1e-5)  # an image and its mirror image are alike
    logits = (whole[0] @ weights["weights"] + weights["bias"]) / run[1]["calibration"][
        "temperature"
    ]
    shares = np.exp(logits - logits.max(1, keepdims=True))
    np.testing.assert_allclose(
        model.classify(images), shares / shares.sum(1, keepdims=True), atol=1e-4
    )
    card = json.loads((data / "run/classifier/classifier.json").read_text())
    assert card["figures"]["tested"] == 33
    assert "cross-validation" in (data / "run/classifier/README.md").read_text()


def test_learning_curve_has_all_arms_with_equal_draws(run, data):
    curve = run[1]["curve"]
    assert {(record["arm"], record["labels"], record["draw"]) for record in curve} == {
        (arm, labels, draw)
        for arm in ("encoder", "untrained", "pixels")
        for labels in (10, 20)
        for draw in range(3)
    }
    assert (data / "run/curve.png").read_bytes()[1:4] == b"PNG"


def test_more_labels_retrain_without_encoding_images_again(run, data, monkeypatch, tmp_path):
    directory = tmp_path / "run"
    shutil.copytree(data / "run", directory)
    lines = (data / "labels.csv").read_text().replace(
        "file,label", "file,label,by"
    ) + "x/red/12.png,red,model\n"
    (tmp_path / "labels.csv").write_text(lines)
    # the new one was encoded before, as one without a label
    monkeypatch.setattr(Encoder, "encode_batch", None)
    settings = config(data, labels=f"{tmp_path}/labels.csv", workdir=str(directory))
    result, _ = classify_command.classify(settings)
    # An accepted guess is neither learned as a label nor tested on.
    assert (result["num_train_labels"], result["accepted_guesses"], result["tested"]) == (33, 1, 33)
    assert "red/12.png" not in (directory / "predictions.csv").read_text()
    assert "curve" not in json.loads((directory / "result.json").read_text())
    assert Model(directory / "classifier").class_names == ["blue", "green", "red"]


@pytest.mark.parametrize(
    ("tested", "unlabelled", "is_told"), [(13, 339, True), (13, 0, False), (60, 339, False)]
)
def test_few_random_images_are_told_with_a_remedy(data, tested, unlabelled, is_told):
    """Where there is something left to label."""
    result = json.loads((data / "run/result.json").read_text())
    result |= {"at_random": True, "tested": tested}
    result["unlabelled"] = unlabelled and {"pictures": unlabelled, "learned_from": True}
    told = "\n".join(described(result, config(data)))
    assert ("label more images on the label page: one in 4 is drawn at random" in told) is is_told


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"output": "OLD"}, "is finished .* remove it or choose another name"),
        ({"output": "x.png"}, "--output=x.png: must end with"),
        ({"pictures": "/nowhere"}, "--pictures=/nowhere: there is no /nowhere"),
    ],
)
def test_new_images_and_output_are_checked_before_training(data, tmp_path, values, message):
    (tmp_path / "old.csv").write_text("mine")
    values = {name: value.replace("OLD", f"{tmp_path}/old.csv") for name, value in values.items()}
    settings = {
        "pictures": f"{data}/new",
        "output": f"{tmp_path}/new.csv",
        "encoder": "/not/opened",
        **values,
    }
    with pytest.raises(ConfigError, match=message):
        classify_command.classify(config(data, **settings))
    assert (tmp_path / "old.csv").read_text() == "mine"


def test_two_labels_give_a_classifier_without_figures(data, tmp_path):
    (tmp_path / "labels.csv").write_text("file,label\nx/red/0.png,red\nx/blue/0.png,blue\n")
    lines = []
    settings = {
        "encoder": "pixels",
        "labels": f"{tmp_path}/labels.csv",
        "workdir": f"{tmp_path}/run",
    }
    result, _ = classify_command.classify(config(data, **settings, most_unlabelled=0), lines.append)
    assert "top1" not in result
    assert any(
        line.startswith("accuracy: not measured, since most classes have fewer than 3")
        for line in lines
    )
    assert Model(tmp_path / "run/classifier").predict(f"{data}/mine/x/red/5.png")[0].label == "red"


def test_another_kind_of_run_is_left_alone(data, tmp_path):
    (tmp_path / "run.json").write_text('{"task": "linear"}')
    with pytest.raises(ConfigError, match="holds a run of cpc-tf linear; use another --workdir"):
        classify_command.classify(config(data, workdir=str(tmp_path)))


def test_pixels_and_no_directory(data, capsys):
    lines = []
    result, records = classify_command.classify(
        config(data, encoder="pixels", most_unlabelled=0), lines.append
    )
    assert result["right"] > 25
    assert not records
    assert lines[-1].startswith("the classifier was not saved")
    assert result["identity"]["trained_by"] == "pixels"


def test_side_by_side_classifier_predicts_what_was_learned(data, tmp_path, monkeypatch):
    """Encoders of 16 and 40 px, for which JPEGs are decoded at different sizes."""
    monkeypatch.setattr(choice, "smallest_of_best", lambda losses, groups: 2)
    lines = []
    settings = config(
        data, encoder=f"{data}/module,pixels", image_size=40, workdir=f"{tmp_path}/run"
    )
    result, _ = classify_command.classify(settings, lines.append)
    assert result["encoder"] == f"{data}/module,pixels"
    assert [one["is_taken"] for one in result["encoders"]] == [False, False, True]
    assert any("pixels" in line and line.endswith("taken") for line in lines)
    paths = []
    for number in range(3):
        pixels = np.random.default_rng(number).integers(0, 256, [90, 120, 3], np.uint8)
        paths.append(str(tmp_path / f"{number}.jpg"))
        Image.fromarray(pixels).save(paths[-1])
    weights = np.load(tmp_path / "run/logistic.npz")
    features = open_encoder(result["encoder"], image_size=40).features(paths)
    logits = features @ weights["weights"] + weights["bias"]
    best = probabilities(logits, result["calibration"]["temperature"])
    model = Model(tmp_path / "run/classifier")
    found = [dict(zip(one.labels, one.probabilities)) for one in model.predict(paths)]
    wanted = [dict(zip(model.class_names, row)) for row in best.tolist()]
    assert found == [pytest.approx(row, abs=1e-4) for row in wanted]
    assert "for encoder 2" in (tmp_path / "run/classifier/README.md").read_text()
