"""Detection in the report: a table, sheets of boxes, curves of precision over recall."""

from __future__ import annotations

from collections.abc import Sequence

from cpc_tf.detect.config import DetectConfig
from cpc_tf.detect.scoring import tested_on
from cpc_tf.detect.trainee import FROZEN
from cpc_tf.report.blocks import Finding, Part, TableBlock, folded_alone, notes, pictures, spread
from cpc_tf.report.methods import ComparedMethod, methods
from cpc_tf.report.runs import Run, is_number, own_preset, remarks, shorter

NEEDS = ("map11",)
AVERAGES = {
    "map11": "mAP over 11 points, %",
    "map_all": "mAP over all points, %",
    "map50_95": "COCO's mAP, %",
}
BEST = {"precision": "Precision, %", "recall": "Recall, %"}  # at the score of the best F1
TESTED = {"test_images": "Test images", "test_boxes": "Objects in them"}  # of a result.json
NOTE = (
    "Mean average precision at an overlap of one half; VOC 2007's way is over 11 points. COCO's is"
    " the mean over overlaps from 0.5 to 0.95: it asks for boxes that fit closely. Precision and"
    " recall: of boxes with the score of the best F1 or more."
)
TWO_PHASES = "Fixed: the first of two phases, in which the encoder is frozen."
CURVES = (
    "Class by class, as less and less sure boxes count: recall, the share of the objects that are"
    " found, and precision, the share of the boxes that are right."
)


def report(runs: Sequence[Run], dataset: str) -> list[Part]:
    """Returns the part of the page about detectors on a dataset, if there are any."""
    if not runs:
        return []
    compared = methods(runs)
    preset = own_preset(dataset, "detect")
    rows = [row for method in compared for row in _rows(method)]
    # Early stopping does not make a run a short one.
    lengths = [(run.get("most_steps", run.get("steps", 0)), run.get("images", 0)) for run in runs]
    short = [shorter(DetectConfig, preset, *length) for length in lengths]
    means = {method.title: str(method.spread("map11")) for method in compared}
    fixed = TWO_PHASES if any(FROZEN in run.get("phases", {}) for run in runs) else ""
    note = " ".join(filter(None, (NOTE, fixed, notes(rows))))
    table = folded_alone(TableBlock("table4", "Object detection", rows, note), len(rows))
    curves = pictures(runs, "curves.png", "curves", CURVES, CURVES, photographs=False)
    # What is folded stands below what is shown.
    blocks = [*curves, table] if table.fold else [table, *curves]
    findings = [Finding(remarks("detection, mAP", *map(tested_on, runs)), means, remarks(*short))]
    return [Part(40, "detection", "Detection", blocks, findings)]


def _rows(method: ComparedMethod) -> list[dict]:
    """Returns the row of a method; of runs of two phases the first phase has a row of its own."""
    about = {"Architecture": method.architecture or None}
    tested = {title: method.runs[0].get(name) for name, title in TESTED.items()}
    scores = {title: method.spread(name) for name, title in AVERAGES.items()}
    best = [run["best_f1"] for run in method.runs if "best_f1" in run]
    for name, title in BEST.items():
        scores[title] = spread(each[name] for each in best)
    rows = [{"Method": method.title, **about, **scores, **tested}]
    first = [run["phases"][FROZEN] for run in method.runs if FROZEN in run.get("phases", {})]
    if first:
        scores = dict.fromkeys(scores)
        for name, title in AVERAGES.items():
            scores[title] = spread(phase[name] for phase in first if is_number(phase.get(name)))
        rows.insert(0, {"Method": f"{method.title} (fixed)", **about, **scores, **tested})
    return rows
