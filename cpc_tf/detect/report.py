"""Detection in the report: table 4 of the paper (PASCAL VOC 2007) with our rows."""

from __future__ import annotations

from collections.abc import Sequence

from cpc_tf.detect.config import DetectConfig
from cpc_tf.results import paper, presets
from cpc_tf.results.blocks import Part, Row, Table, paper_rows
from cpc_tf.results.methods import methods
from cpc_tf.results.runs import Run

AVERAGES = {"map11": "mAP, 11 points", "map_all": "mAP, all points"}
# Encoders that a detector can be trained on, and the flag for each.
WANTED = {
    "pretrained": ("an encoder pre-trained without labels", "--encoder=HUB"),
    "labels": ("an encoder trained on labels", "--encoder=HUB"),
    "untrained": ("a random encoder", "--encoder=random"),
}


def report(runs: Sequence[Run], dataset: str) -> list[Part]:
    """The table of the runs on a dataset, and what is not measured there."""
    if not runs:
        return []
    found, preset = methods(runs), presets.own_preset(dataset, "detect")
    cells = [[method.title, method.architecture or None, *map(method.spread, AVERAGES)] for method in found]
    rows = [Row(values, group=f"Measured on {runs[0].dataset_title}") for values in cells]
    rows += paper_rows(paper.TABLE_4, " (paper, VOC 2007)")
    note = "Percent; mean average precision. The paper does not say how it averages; VOC 2007's way is over 11 points."
    columns = ["Method", "Architecture", *AVERAGES.values()]
    table = Table("table4", "Object detection (table 4 of the paper)", columns, rows, note)
    known = {"pretrained" if method.pretrained else method.trained_by for method in found}
    missing = [(f"a detector on {what}", flag) for kind, (what, flag) in WANTED.items() if kind not in known]
    gaps = [presets.gap(what, preset, dataset, flag) for what, flag in missing]
    short = [presets.shorter(DetectConfig, preset, run.get("steps", 0), run.get("images", 0)) for run in runs]
    means = ", ".join(f"{method.title} {method.spread('map11')} %" for method in found)
    sentence = presets.in_short_runs(short, f"Detection, mean average precision: {means}.")
    return [Part(40, "detection", "Detection", [table, *gaps], [sentence])]
