"""Results of pictures with several labels each in the report: their scores are no accuracies, so they stand apart."""

from __future__ import annotations

from collections.abc import Sequence

from cpc_tf.results.blocks import Finding, Part, Row, Table
from cpc_tf.results.methods import Method, methods
from cpc_tf.results.runs import Run

METRICS = {"map": "mAP, %", "micro_f1": "Micro-F1, %"}
REQUIRED = dict.fromkeys(METRICS, "a fraction from 0 to 1")  # fields of such a result
NOTE = (
    "On test images. mAP: mean over the classes of the average precision. Micro-F1: of all pairs of picture "
    "and class, at a probability of 0.5. Chance: the mAP that a random order is expected to have."
)


def divided(runs: Sequence[Run]) -> tuple[list[Run], list[Run]]:
    """Returns the runs with one label a picture, and those with several."""
    several = [run for run in runs if run.get("several_labels") is True]
    return [run for run in runs if run not in several], several


def parts(kind: str, runs: Sequence[Run]) -> list[Part]:
    """Returns the part of the page about such runs of a task, if there are any.

    Args:
      kind: of the runs: 'linear' or 'efficient'.
      runs: those with several labels a picture.
    """
    title = {"linear": "linear classifier", "efficient": "classifier"}[kind]
    points = [point for method in methods(runs) for point in _by_labels(method)]
    if not points:
        return []
    rows = [_row(point) for point in points]
    columns = ["Method", "Labelled pictures", "Test pictures", *METRICS.values(), "Chance, %"]
    table = Table(f"several-{kind}", f"Several labels a picture: {title}", columns, rows, NOTE)
    best = max(points, key=lambda point: point.spread("map").mean)
    values, remark = {best.title: str(best.spread("map"))}, f"{_labels(best):,} labelled pictures"
    remark += f", {best.runs[0]['tested']:,} test pictures" if "tested" in best.runs[0] else ""
    finding = Finding(f"several labels, {title}, mAP", values, remark)
    return [Part(15, "several", "Several labels a picture", [table], [finding])]


def _by_labels(method: Method) -> list[Method]:
    """Returns a method's runs by their number of labelled pictures."""
    counts = sorted({run.get("num_train_labels", 0) for run in method.runs})
    return [
        method._replace(runs=[run for run in method.runs if run.get("num_train_labels", 0) == count])
        for count in counts
    ]


def _labels(point: Method) -> int:
    return point.runs[0].get("num_train_labels", 0)


def _row(point: Method) -> Row:
    tested = point.runs[0].get("tested")
    return Row([point.title, _labels(point), tested, *map(point.spread, [*METRICS, "map_chance"])])
