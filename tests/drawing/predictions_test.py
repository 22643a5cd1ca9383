"""Which test images the sheet of predictions shows, and how they are framed."""

import io

import numpy as np
import pytest
from PIL import Image

from cpc_tf.data import catalog
from cpc_tf.data.config import DataConfig, GeometryConfig
from cpc_tf.drawing import plots, predictions
from cpc_tf.evaluation.predictions import Predictions
from tests import samples

pytestmark = pytest.mark.drawn


def test_sheet_shows_right_confidently_wrong_and_unsure_predictions():
    labels, guesses = np.array([0, 0, 1, 1, 2, 2, 2]), np.array([0, 1, 1, 0, 2, 2, 2])
    found = Predictions(labels, guesses, np.array([0.9, 0.6, 0.5, 0.8, 0.7, 0.4, 0.99]))
    rows = predictions.sample(found, 3)
    assert {title: indices.tolist() for title, indices in rows.items()} == {
        "right": [0, 4, 6],  # from all over the test images
        "wrong, the most confident": [3, 1],
        "the least confident": [5, 2, 1],
    }
    assert [*predictions.sample(Predictions(labels, labels, found.probabilities))] == [
        "right",
        "the least confident",
    ]


@pytest.mark.slow
def test_images_are_those_of_the_predictions_and_framed(tmp_path):
    root = samples.write_pictures(tmp_path / "pictures", {"train": 2, "val": 2})
    source = catalog.open_source(
        DataConfig(dataset=f"folder:{root}", data_dir=str(tmp_path)), "val"
    )
    images = predictions.images_of(source, GeometryConfig(resize=16, image_size=16, patch_size=16))
    # blue, green, red in the order of names: the last is red, the first blue
    shown = images(np.array([5, 0, 5]))
    assert shown.mean((1, 2)).argmax(1).tolist() == [0, 2, 0]
    found = Predictions(
        np.array([0, 0, 1, 1, 2, 2]), np.array([0, 0, 1, 1, 2, 1]), np.linspace(0.5, 0.9, 6)
    )
    png = predictions.draw(found, images, source.class_names, count=2)
    pixels = np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))
    for color in (plots.TRUE, plots.MISSED):
        assert (pixels == [int(color[i : i + 2], 16) for i in (1, 3, 5)]).all(-1).sum() > 100
