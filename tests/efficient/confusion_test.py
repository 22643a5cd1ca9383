"""Which classes are taken for which, from predictions.csv."""

import pytest

from cpc_tf.efficient import confusion
from cpc_tf.efficient.label_curve import curves
from cpc_tf.results.runs import Run, collect
from cpc_tf.tasks import TASKS
from tests.results import samples

pytestmark = pytest.mark.usefixtures("undrawn")


def test_confusions(tmp_path):
    samples.all_kinds(tmp_path)
    runs = [run for run in collect(str(tmp_path), TASKS)[0] if run.read("predictions.csv")]
    assert confusion.matrix(runs[:1]).tolist() == [[1, 0, 0], [0, 1, 0], [0, 1, 1]]
    assert confusion.matrix(runs).tolist() == [[2, 0, 0], [0, 2, 0], [0, 2, 2]]
    figure, pairs = confusion.blocks(curves(runs))
    assert "75.0 % on the diagonal" in figure.alt
    assert samples.rows(pairs, "measured") == {samples.CLASSES[2]: ["dog", "50.0", "1"]}
    fewer = Run({**runs[0], "num_classes": 2}, "x", runs[0].directory)
    assert confusion.matrix([fewer]) is None


def test_predictions_survive_anything(tmp_path):
    run = Run({}, "x", str(tmp_path))
    (tmp_path / "predictions.csv").write_text("label,prediction\n1,2\n0,0\n")
    assert confusion.predictions(run) == [(1, 2), (0, 0)]
    for text in ("", "label\n1\n", "label,prediction\n1,x\n", "label,prediction\n1\n", "label,prediction\n-1,0\n"):
        (tmp_path / "predictions.csv").write_text(text)
        assert confusion.predictions(run) == []
