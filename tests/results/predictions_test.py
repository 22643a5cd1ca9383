"""What a run said of test images: its file as it may be, and which images the sheet shows."""

import io

import numpy as np
import pytest
from PIL import Image

from cpc_tf.data import catalog
from cpc_tf.data.config import DataConfig, GeometryConfig
from cpc_tf.evaluation.predictions import to_csv
from cpc_tf.results import plots, predictions
from cpc_tf.results.predictions import Predictions
from cpc_tf.results.runs import Run
from tests import samples

pytestmark = pytest.mark.drawn

GOOD = "file,label,prediction,probability\na/1.png,1,2,0.9031\na/2.png,0,0,0.4\n"


@pytest.fixture
def run(tmp_path):
    return Run({}, "x", str(tmp_path))


def test_the_file_is_read_with_and_without_names_and_probabilities(run, tmp_path):
    (tmp_path / "predictions.csv").write_text(GOOD)
    found = predictions.read(run)
    assert found.pairs.tolist() == [[1, 2], [0, 0]]
    assert found.record(0) == {"file": "a/1.png", "label": 1, "prediction": 2, "probability": 0.9031}
    # Names that are numbers are no indices.
    named = GOOD.replace("label", "class").replace(",1,2,", ",2,1,")
    (tmp_path / "predictions.csv").write_text(named)
    assert predictions.read(Run({"class_names": ["0", "2", "1"]}, "x", str(tmp_path))).pairs.tolist() == [
        [1, 2],
        [0, 0],
    ]
    assert predictions.read(run) is None  # whose classes are not known
    (tmp_path / "predictions.csv").write_text("label,prediction\n1,2\n0,0\n")  # of an older run
    found = predictions.read(run)
    assert found.pairs.tolist() == [[1, 2], [0, 0]]
    assert found.probabilities is None


def test_names_of_classes_are_those_of_the_result(tmp_path):
    """Also those that look like indices, or like the formulas that they must not become."""
    names = ["10", "2", "=cmd|' calc'!A0", "a, b"]
    text = to_csv(["=1.png", "b;c.png"], np.eye(4)[[2, 0]], np.array([1, 3]), names)
    (tmp_path / "predictions.csv").write_text(text)
    found = predictions.read(Run({"class_names": names}, "x", str(tmp_path)))
    assert found.pairs.tolist() == [[1, 2], [3, 0]]
    assert found.files == ["=1.png", "b;c.png"]
    assert predictions.read(Run({"class_names": names[1:]}, "x", str(tmp_path))) is None


def test_what_is_no_prediction_is_none(run, tmp_path):
    for text in ("", "1,x", "1", "-1,0", "0;3,1", f"{10**30},1"):
        (tmp_path / "predictions.csv").write_text(f"label,prediction\n{text}\n")
        assert predictions.read(run) is None
        assert predictions.figure(run) == []


def test_the_sheet_shows_right_ones_surely_wrong_ones_and_unsure_ones():
    labels, guesses = np.array([0, 0, 1, 1, 2, 2, 2]), np.array([0, 1, 1, 0, 2, 2, 2])
    found = Predictions(labels, guesses, np.array([0.9, 0.6, 0.5, 0.8, 0.7, 0.4, 0.99]))
    rows = predictions.sample(found, 3)
    assert {title: indices.tolist() for title, indices in rows.items()} == {
        "right": [0, 4, 6],  # from all over the test images
        "wrong, the most confident": [3, 1],
        "the least confident": [5, 2, 1],
    }
    assert [*predictions.sample(Predictions(labels, labels, found.probabilities))] == ["right", "the least confident"]


@pytest.mark.slow
def test_images_are_those_of_the_predictions_and_framed(tmp_path, run):
    root = samples.write_pictures(tmp_path / "pictures", {"train": 2, "val": 2})
    source = catalog.open_source(DataConfig(dataset=f"folder:{root}", data_dir=str(tmp_path)), "val")
    images = predictions.images_of(source, GeometryConfig(resize=16, image_size=16, patch_size=16))
    shown = images(np.array([5, 0, 5]))  # blue, green, red in the order of names: the last is red, the first blue
    assert shown.mean((1, 2)).argmax(1).tolist() == [0, 2, 0]
    found = Predictions(np.array([0, 0, 1, 1, 2, 2]), np.array([0, 0, 1, 1, 2, 1]), np.linspace(0.5, 0.9, 6))
    png = predictions.draw(found, images, source.class_names, count=2)
    pixels = np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))
    for color in (plots.TRUE, plots.MISSED):
        assert (pixels == [int(color[i : i + 2], 16) for i in (1, 3, 5)]).all(-1).sum() > 100
    (tmp_path / "predictions.png").write_bytes(png)
    (tmp_path / "predictions.csv").write_text("label,prediction,probability\n0,0,0.9\n1,0,0.8\n")
    (figure,) = predictions.figure(run)
    assert figure.alt.endswith("Of all: 1 of 2 right (50 %, 9 to 91).")
    assert [(row["image"], row["label"], row["prediction"]) for row in figure.data[:2]] == [(0, 0, 0), (1, 1, 0)]
