"""Linear classification: table 1 of the paper with our rows, and the study of patch augmentation."""

from __future__ import annotations

import os
from collections.abc import Sequence

from cpc_tf.reporting import commands, formats, methods, paper
from cpc_tf.reporting.blocks import Block, Gap, Row, Table
from cpc_tf.reporting.collect import Found, Run
from cpc_tf.reporting.methods import Method


def blocks(runs: Sequence[Run], dataset: str, found: Found, runs_dir: str) -> list[Block]:
    """Tables of the linear results that are no rungs of figure 3."""
    plain = [run for run in runs if not run.get("policy") and not _in_ladder(run)]
    folder = os.path.join(runs_dir, methods.dataset_name(dataset))
    made: list[Block] = []
    if plain:
        made.append(table_1(plain, methods.dataset_name(dataset), found))
    by_method = methods.by_method(plain)
    main = methods.main_method(by_method, "cpc")
    if not main:
        before, encoder = commands.module_for(dataset, found, folder)
        flags = {"encoder": encoder, "workdir": f"{folder}/linear"}
        lines = [*before, commands.from_preset("linear", dataset, flags)]
        made.append(Gap("Not measured: a linear classifier on CPC features (table 1).", lines))
    else:
        missing = [role for role in ("random", "pixels") if not methods.main_method(by_method, role)]
        made += [_baseline(role, by_method[main][0], found, folder) for role in missing]
    policies = [run for run in runs if run.get("policy")]
    return [*made, *([_policies(policies)] if policies else [])]


def table_1(runs: Sequence[Run], dataset: str, found: Found) -> Table:
    """Method, parameters, top-1, top-5: ours, then the paper's."""
    by_method = methods.by_method(runs)
    titles = methods.titles(list(by_method))
    rows, data = [Row([f"Measured on {dataset}"], "group")], []
    for method, own in by_method.items():
        card = {} if method.role == "pixels" else found.module(own[0]["encoder"])
        name, millions = _name(method, titles[method], card), _millions(card)
        top1, top5 = (methods.spread(run[metric] for run in own) for metric in ("top1", "top5"))
        rows.append(
            Row(
                [
                    name,
                    f"{millions:.3g}" if millions else formats.NOTHING,
                    formats.accuracy(top1),
                    formats.accuracy(top5),
                ]
            )
        )
        data.append({"source": "measured", "method": name, "parameters_m": millions, "top1": round(top1.mean, 6),
                     "top5": round(top5.mean, 6), "runs": top1.count})  # fmt: skip
    classes = runs[0]["num_classes"]
    rows.append(
        Row(["chance", formats.NOTHING, f"{100 / classes:.1f}", f"{100 * min(5, classes) / classes:.1f}"], "chance")
    )
    for group, lines in paper.TABLE_1.items():
        rows.append(Row([f"{group} (paper, ImageNet)"], "group"))
        for line in lines:
            numbers = [formats.NOTHING if x is None else f"{x:.1f}" for x in (line.top1, line.top5)]
            rows.append(Row([line.method, str(line.parameters), *numbers], "paper"))
            fractions = [None if x is None else round(x / 100, 6) for x in (line.top1, line.top5)]
            data.append({"source": "paper", "method": line.method, "parameters_m": line.parameters,
                         "top1": fractions[0], "top5": fractions[1]})  # fmt: skip
    note = (
        "Percent; a linear classifier on the frozen encoder, with all labels. Parameters: of the encoder alone, in "
        "millions. After ±, half the range of several runs."
    )
    return Table("table1", "Linear classification (table 1 of the paper)", COLUMNS, rows, data, note)


def _baseline(role: str, run: Run, found: Found, folder: str) -> Gap:
    """The command that trains a baseline on the same patches as a run."""
    flags = {"workdir": f"{folder}/linear-{role}", "baselines": "false"}
    geometry = found.module(run["encoder"]).get("geometry")
    if role == "random":
        flags["encoder"] = f"random:{run['encoder']}"
    elif isinstance(geometry, dict):
        flags |= {"encoder": "pixels", "geometry_from": "flags"}
        flags |= {name: str(value).lower() for name, value in geometry.items()}
    else:
        flags["baselines"] = "true"  # the module knows the geometry; all three are trained
    name = "raw pixels" if role == "pixels" else "the encoder's untrained twin"
    return Gap(f"Not measured: a linear classifier on {name}.", [commands.like(run, flags)])


COLUMNS = ["Method", "Params (M)", "Top-1", "Top-5"]


def _in_ladder(run: Run) -> bool:
    """A rung, or the baselines that a rung's linear run trained beside it."""
    return bool(methods.rung(run))


def _name(method: Method, title: str, card: dict) -> str:
    encoder = card.get("encoder", {})
    name = methods.architecture(str(encoder.get("encoder", ""))) if isinstance(encoder, dict) else ""
    if method.role == "pixels":
        return "pixels"
    ours = title.replace("CPC", "CPC v2", 1)
    return f"{ours} - {name}" if name else ours


def _millions(card: dict) -> float | None:
    count = card.get("parameters")
    return count / 1e6 if isinstance(count, (int, float)) else None


def _policies(runs: Sequence[Run]) -> Table:
    """Benchmarks of the patch augmentation: records with a `policy`."""
    names = sorted({run["policy"] for run in runs})
    rows, data = [], []
    for name in names:
        own = [run for run in runs if run["policy"] == name]
        top1, top5 = (methods.spread(run[metric] for run in own) for metric in ("top1", "top5"))
        rows.append(Row([name, formats.accuracy(top1), formats.accuracy(top5), str(top1.count)]))
        data.append({"policy": name, "top1": round(top1.mean, 6), "top5": round(top5.mean, 6), "runs": top1.count})
    order = sorted(range(len(rows)), key=lambda i: -data[i]["top1"])
    note = "Percent; linear classifier after pre-training of equal length with each policy."
    title, columns = "What each patch augmentation is worth", ["Policy", "Top-1", "Top-5", "Runs"]
    return Table("policies", title, columns, [rows[i] for i in order], [data[i] for i in order], note)
