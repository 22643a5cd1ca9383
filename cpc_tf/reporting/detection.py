"""Detection: table 4 of the paper (PASCAL VOC 2007) with our rows."""

from __future__ import annotations

import os
from collections.abc import Sequence

from cpc_tf.reporting import commands, formats, methods, paper
from cpc_tf.reporting.blocks import Block, Gap, Row, Table
from cpc_tf.reporting.collect import Found, Run

AVERAGES = {"map11": "mAP, 11 points", "map_all": "mAP, all points"}


def blocks(runs: Sequence[Run], dataset: str, found: Found, runs_dir: str) -> list[Block]:
    """The table, if anything was measured, and what it lacks."""
    if not runs:
        return []
    rows, data = [Row([f"Measured on {dataset}"], "group")], []
    by_method = methods.by_method(runs)
    titles = methods.titles(list(by_method))
    for method, own in by_method.items():
        encoder = found.module(own[0]["encoder"]).get("encoder", {})
        name = encoder.get("encoder", "") if isinstance(encoder, dict) else ""
        spreads = {}
        for metric in AVERAGES:
            values = [run[metric] for run in own if metric in run.record]
            spreads[metric] = methods.spread(values) if values else None
        architecture = methods.architecture(str(name or own[0].get("backbone", ""))) or formats.NOTHING
        rows.append(Row([titles[method], architecture, *map(formats.accuracy, spreads.values())]))
        means = {metric: spread and round(spread.mean, 6) for metric, spread in spreads.items()}
        data.append({"source": "measured", "method": titles[method], "architecture": architecture, **means,
                     "runs": len(own)})  # fmt: skip
    for group, lines in paper.TABLE_4.items():
        rows.append(Row([f"{group} (paper, VOC 2007)"], "group"))
        for name, architecture, value in lines:
            rows.append(Row([name, architecture, f"{value:.1f}", formats.NOTHING], "paper"))
            data.append({"source": "paper", "method": name, "architecture": architecture, "map": round(value / 100, 6)})
    missing = _gaps(next(iter(by_method.values()))[0], {m.role for m in by_method}, dataset, found, runs_dir)
    columns = ["Method", "Architecture", *AVERAGES.values()]
    note = (
        "Percent; mean average precision. The paper does not say how it averages; VOC 2007's own way is over 11 "
        "points, so its figures stand there."
    )
    return [Table("table4", "Object detection (table 4 of the paper)", columns, rows, data, note, words=(1,)), *missing]


def _gaps(run: Run, roles: set[str], dataset: str, found: Found, runs_dir: str) -> list[Block]:
    """What the comparison lacks: detectors on CPC, on an encoder taught with labels of its pictures, on a new one."""
    folder = os.path.join(runs_dir, "detect", dataset)
    pictures = str(found.module(run["encoder"]).get("dataset", ""))

    def gap(what: str, before: list[str], encoder: str, role: str) -> Gap:
        flags = {"encoder": encoder, "workdir": os.path.join(folder, role)}
        return Gap(f"Not measured: a detector on {what}.", [*before, commands.like(run, flags)])

    gaps: list[Block] = []
    if pictures and "cpc" not in roles:
        gaps.append(
            gap("an encoder pre-trained by CPC", *commands.module_for(pictures, found, f"{folder}/cpc_encoder"), "cpc")
        )
    if pictures and "supervised" not in roles:
        gaps.append(
            gap("an encoder trained on labels", *commands.labelled_module(pictures, f"{folder}/labels"), "supervised")
        )
    if "random" not in roles:
        gaps.append(gap("a random encoder", [], "random", "random"))
    return gaps
