"""Which images were named wrongly, the surest first, and which class is taken for which."""

import numpy as np
import pytest
from PIL import Image

from cpc_tf.evaluation.predictions import read_predictions
from cpc_tf.report import mistakes, page
from cpc_tf.report.mistakes import MOST, SIDE, confusions, surest
from cpc_tf.report.runs import Run
from tests.report import samples

pytestmark = [pytest.mark.drawn, pytest.mark.usefixtures("undrawn")]

HEAD = "file,class,prediction,probability\n"
ROWS = (
    "a/1.png,cat,dog,0.6\na/2.png,dog,dog,1.0\na/gone.png,hen,cat,0.9\n../secret.png,hen,cat,0.9\n"
)
TABLE = f"{HEAD}{ROWS}a/3.png,cat,hen,0.8\n"


def _run(tmp_path, table=TABLE, **more):
    """A classifier of images in grey levels by their numbers, and its predictions."""
    (tmp_path / "pictures/a").mkdir(parents=True)
    Image.new("RGB", (40, 20)).save(tmp_path / "secret.png")
    for number in range(1, 20):
        Image.new("RGB", (40, 20), (10 * number,) * 3).save(tmp_path / f"pictures/a/{number}.png")
    record = samples.linear(
        dataset=f"folder:{tmp_path}/pictures", class_names=samples.CLASSES, **more
    )
    samples.write(tmp_path / "run", record, predictions__csv=table)
    return Run(record, "run", str(tmp_path / "run")), read_predictions(table, samples.CLASSES)


def test_most_confident_mistakes_come_first_with_captions(tmp_path):
    (figure,) = surest(*_run(tmp_path))
    assert figure.captions == [
        ("said hen, 80\xa0%", "is cat", "a/3.png"),
        ("said dog, 60\xa0%", "is cat", "a/1.png"),
    ]
    assert (
        figure.title == "Of 5 images 4 were named wrongly; these are the 2 that it was surest of."
    )
    (tmp_path / "first.png").write_bytes(figure.png)
    pixels = np.asarray(Image.open(tmp_path / "first.png"))
    assert pixels.shape == (SIDE, SIDE, 3)
    assert pixels[SIDE // 2, SIDE // 2].tolist() == [30] * 3
    assert [(row["file"], row["class"]) for row in figure.data] == [
        ("a/3.png", "cat"),
        ("a/1.png", "cat"),
    ]


def test_a_page_has_them_each_with_its_caption(tmp_path):
    rows = "".join(f"a/{n}.png,cat,dog,0.{n + 50}\n" for n in range(1, 20))
    run, _ = _run(tmp_path, HEAD + rows)
    files = page.files([run], [], "runs")
    assert (
        len(
            [
                name
                for name in files
                if name.startswith("pictures-test-mistakes") or "mistakes" in name
            ]
        )
        == MOST + 1
    )
    assert (
        "<span>said dog, 69\xa0%</span><span>is cat</span><span>a/19.png</span>"
        in files["report.html"]
    )
    assert "said dog, 51\xa0%" not in files["report.html"]


@pytest.mark.parametrize("dataset", ["photos", "folder:gs://bucket/x", "folder:/nowhere"])
def test_without_the_pictures_there_are_none(tmp_path, dataset):
    run, predictions = _run(tmp_path)
    run["dataset"] = dataset
    assert surest(run, predictions) == []
    assert surest(run, None) == []


def test_confusions_of_few_classes_are_a_matrix(tmp_path):
    run, predictions = _run(tmp_path)
    (matrix,) = confusions(run, predictions)
    assert {(row["class"], row["prediction"]): row["count"] for row in matrix.data} == {
        ("cat", "dog"): 1,
        ("cat", "hen"): 1,
        ("dog", "dog"): 1,
        ("hen", "cat"): 2,
    }
    run["class_names"] = samples.CLASSES[:2]
    assert confusions(run, predictions) == []


def test_the_confusions_of_many_classes_are_listed(tmp_path, monkeypatch):
    monkeypatch.setattr(mistakes, "MOST_COUNTED", 2)
    _, confused = confusions(*_run(tmp_path))
    assert samples.rows(confused, "measured")["hen"] == ["cat", "100.0", "2"]
