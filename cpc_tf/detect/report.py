"""Detection in the report: table 4 of the paper (PASCAL VOC 2007) with our rows."""

from __future__ import annotations

from collections.abc import Sequence

from cpc_tf.detect.config import DetectConfig
from cpc_tf.detect.scoring import tested_on
from cpc_tf.detect.trainee import FROZEN
from cpc_tf.results import paper, presets
from cpc_tf.results.blocks import Finding, Part, Row, Table, paper_rows, spread
from cpc_tf.results.methods import Method, methods
from cpc_tf.results.plots import pictures
from cpc_tf.results.runs import Run, is_number

AVERAGES = {"map11": "mAP over 11 points, %", "map_all": "mAP over all points, %"}
TESTED = {"test_images": "Test pictures", "test_boxes": "Objects in them"}  # of a result.json

BOXES = "Test images of {} with true and detected boxes, those with most missed objects first."
BOXES_ALT = "Test images with true boxes, found and missed, and detected boxes, right and wrong."
CURVES = "Precision over recall of each class on the test images."


def report(runs: Sequence[Run], dataset: str) -> list[Part]:
    """The table, if anything was measured on a dataset."""
    if not runs:
        return []
    found, preset = methods(runs), presets.own_preset(dataset, "detect")
    cells = [cells for method in found for cells in _cells(method)]
    rows = [Row(values, group=f"Measured on {runs[0].dataset_title}") for values in cells]
    theirs = paper_rows(paper.TABLE_4, " (paper, VOC 2007)")
    rows += [row._replace(values=[*row.values, *[None] * len(TESTED)]) for row in theirs]
    note = (
        "Mean average precision. The paper does not say how it averages; VOC 2007's way is over 11 points. "
        "Fixed: the first of two phases, in which the encoder is frozen."
    )
    columns = ["Method", "Architecture", *AVERAGES.values(), *TESTED.values()]
    table = Table("table4", "Object detection", columns, rows, note, "table 4 of the paper (PASCAL VOC 2007)")
    short = [presets.shorter(DetectConfig, preset, _length(run), run.get("images", 0)) for run in runs]
    means = {method.title: str(method.spread("map11")) for method in found}
    findings = [Finding("detection, mAP", means, presets.remark(short, *dict.fromkeys(map(tested_on, runs))))]
    shown = pictures(runs, "sheet.png", "boxes", BOXES, BOXES_ALT) + pictures(
        runs, "curves.png", "curves", CURVES, CURVES
    )
    return [Part(40, "detection", "Detection", [table, *shown], findings)]


def _cells(method: Method) -> list[list]:
    """The cells of a method; of runs of two phases the first phase has a row of its own."""
    first = [run["phases"][FROZEN] for run in method.runs if FROZEN in run.get("phases", {})]
    tested = [method.runs[0].get(name) for name in TESTED]
    rows = [[method.title, method.architecture or None, *map(method.spread, AVERAGES), *tested]]
    if first:
        fixed = [spread(phase[name] for phase in first if is_number(phase.get(name))) for name in AVERAGES]
        rows = [[f"{method.title} (fixed)", method.architecture or None, *fixed, *tested], *rows]
    return rows


def _length(run: Run) -> int:
    """The steps that a run may have had: early stopping does not make it a short one."""
    return run.get("most_steps", run.get("steps", 0))
