"""What the report shows of detection: table 4 of the paper (PASCAL VOC 2007) with our rows."""

from __future__ import annotations

from collections.abc import Sequence

from cpc_tf.detect.config import DetectConfig
from cpc_tf.results import paper, presets
from cpc_tf.results.blocks import Gap, Part, Row, Subject, Table, paper_rows
from cpc_tf.results.methods import architecture, by_method, dataset_name, identity, titles
from cpc_tf.results.runs import Run
from cpc_tf.results.values import accuracy, spread

DETECTION = Subject(40, "detection", "Detection")
AVERAGES = {"map11": "mAP, 11 points", "map_all": "mAP, all points"}
WANTED = {
    "an encoder pre-trained without labels": "HUB",
    "an encoder trained on labels": "HUB",
    "a random encoder": "random",
}


def report(runs: Sequence[Run]) -> list[Part]:
    """The table, if anything was measured on a dataset, and what it lacks."""
    own = [run for run in runs if run["kind"] == "detect"]
    if not own:
        return []
    dataset, methods = own[0]["dataset"], by_method(own)
    rows, said = [Row([f"Measured on {dataset_name(dataset)}"], "group")], []
    for method, title in titles(list(methods)).items():
        known = identity(methods[method][0]).architecture
        means = [spread(run[name] for run in methods[method] if name in run.record) for name in AVERAGES]
        rows.append(Row([title, architecture(known) or None, *means]))
        said.append(f"{title} {accuracy([means[0].mean])}")
    note = (
        "Percent; mean average precision. The paper does not say how it averages; VOC 2007's own way is over 11 "
        "points, so its figures stand there."
    )
    rows += paper_rows(paper.TABLE_4, " (paper, VOC 2007)")
    columns = ["Method", "Architecture", *AVERAGES.values()]
    table = Table("table4", "Object detection (table 4 of the paper)", columns, rows, note, words=(1,))
    known = {"pretrained" if method.pretrained else method.trained_by for method in methods}
    gaps = [
        Gap(f"Not measured: a detector on {what}.", presets.how(dataset, "detect", flag=f"--encoder={encoder}"))
        for (what, encoder), kind in zip(WANTED.items(), ("pretrained", "labels", "untrained"))
        if kind not in known
    ]
    preset = presets.own_preset(dataset, "detect")
    full = presets.settings(DetectConfig, preset).training if preset else None
    lengths = [(run.get("steps", 0), full.steps(run["images"])) for run in own if full and "images" in run.record]
    start = presets.in_short_runs(lengths)
    said = f"{start}{'d' if start else 'D'}etection, mean average precision: {', '.join(said)}."
    return [Part(DETECTION, [table, *gaps], [said])]
