"""Classification with few labels: tables 2 and 3 of the paper with our rows, the search, and what is missing."""

from __future__ import annotations

import os
from collections.abc import Sequence

from cpc_tf.reporting import commands, efficiency, formats, methods, paper
from cpc_tf.reporting.blocks import Block, Cell, Details, Gap, Row, Table
from cpc_tf.reporting.collect import Found, Run
from cpc_tf.reporting.curve import METRICS, Curve, Curves, curves, figure
from cpc_tf.reporting.methods import Spread

PHASES = {"frozen": "fixed", "fine-tuned": "fine-tuned", "supervised": "supervised"}


def blocks(runs: Sequence[Run], dataset: str, found: Found, runs_dir: str) -> list[Block]:
    """All that the efficient runs of a dataset show; a gap if there are none."""
    if not runs:
        return [_nothing(dataset, found, runs_dir)]
    all_curves = curves(runs)
    name = methods.dataset_name(dataset)
    searched = search(runs)
    return [
        figure(all_curves, name),
        table_2(all_curves, name),
        *gaps(all_curves, dataset, found, runs_dir),
        *table_3(all_curves, name),
        *([Details("The settings that the held-out labels chose", [searched])] if searched else []),
    ]


def table_2(found: Curves, dataset: str) -> Table:
    """The paper's table 2, ours above the paper's."""
    fractions = sorted({*paper.FRACTIONS, *(f for curve in found.all for f in curve.runs)})
    labels = {f: n for curve in found.all for f, n in curve.labels.items()}
    columns = ["Labeled data", *(Cell(formats.percent(f), f"{labels[f]:,}" if f in labels else "") for f in fractions)]
    rows, data = [], []
    for metric, title in METRICS.items():
        rows.append(Row([title], "group"))
        for curve in _as_in_the_paper(found):
            spreads = [curve.accuracy(f, metric) for f in fractions]
            rows.append(Row([_trained_on(curve), *map(formats.accuracy, spreads)]))
            data += [_datum("measured", metric, curve.title, f, s) for f, s in zip(fractions, spreads) if s]
        if found.cpc and found.pixels:
            gains = [found.gain(f, metric) for f in fractions]
            coarse = [_between_measured(found, f, metric) for f in fractions]
            several = sum(curve.method.role == "cpc" for curve in found.all) > 1
            gain = f"Gain of {found.cpc.title}" if several else "Gain"
            rows.append(Row([f"{gain}, interpolated", *map(formats.gain, gains)], "gain"))
            rows.append(Row([f"{gain} between measured fractions", *(formats.times(c) for c in coarse)], "gain"))
            data += [{"source": "measured", "metric": metric, "row": "gain, interpolated", "label_fraction": f,
                      "value": g.factor, "bound": g.bound} for f, g in zip(fractions, gains) if g]  # fmt: skip
        printed = dict(zip(paper.FRACTIONS, paper.GAIN[metric]))
        for name, values in paper.TABLE_2[metric].items():
            of = dict(zip(paper.FRACTIONS, values))
            rows.append(Row([name, *(formats.one_decimal(of.get(f)) for f in fractions)], "paper"))
            data += [_datum("paper", metric, name, f, methods.spread([v / 100])) for f, v in of.items()]
        baseline = list(zip(paper.FRACTIONS, paper.TABLE_2[metric][paper.PIXELS]))
        ours = dict(zip(paper.FRACTIONS, paper.TABLE_2[metric][paper.CPC]))
        fine = [efficiency.interpolated(baseline, f, ours[f]) if f in ours else None for f in fractions]
        rows.append(Row(["Gain, interpolated", *map(formats.gain, fine)], "paper gain"))
        rows.append(Row(["Gain, as printed", *(formats.times(printed.get(f)) for f in fractions)], "paper gain"))
    note = (
        "Percent; after ±, half the range of several runs. Gain: how many times as many labels the baseline needs for "
        "the same accuracy. Interpolated: linear in the logarithm of the labels, on the means. Between measured "
        "fractions: the paper's coarser way, the largest fraction at which the baseline was measured and is not better"
        + ("." if dataset in methods.IMAGENET else f". The paper's figures are of ImageNet, ours of {dataset}.")
    )
    return Table("table2", "Pixels against CPC features (table 2 of the paper)", columns, rows, data, note)


def table_3(found: Curves, dataset: str) -> list[Table]:
    """The paper's table 3 with the phases of our runs; nothing if the runs do not tell their phases."""
    metrics = {"top5": "Top-5 accuracy", "top1": "Top-1 accuracy (the paper prints none)"}
    fractions = sorted({*paper.TABLE_3_FRACTIONS, *(f for curve in found.all for f in curve.runs)})
    ours = {metric: _phase_rows(found, metric, fractions) for metric in metrics}
    if not any(ours.values()):
        return []
    rows, data = [], []
    for metric, title in metrics.items():
        rows.append(Row([title], "group"))
        for name, spreads in ours[metric]:
            rows.append(Row([name, *map(formats.accuracy, spreads)]))
            data += [_datum("measured", metric, name, f, s) for f, s in zip(fractions, spreads) if s]
        if metric == "top1":
            continue
        for group, methods_there in paper.TABLE_3.items():
            rows += [Row([group], "subgroup")] if group else []
            for name, values in methods_there.items():
                of = dict(zip(paper.TABLE_3_FRACTIONS, values))
                rows.append(Row([name, *(formats.one_decimal(of.get(f)) for f in fractions)], "paper"))
                known = {f: v for f, v in of.items() if v}
                data += [_datum("paper", metric, name, f, methods.spread([v / 100])) for f, v in known.items()]
    note = "Fixed: the classifier alone is trained. Fine-tuned: then all of it." + (
        "" if dataset in methods.IMAGENET else f" The paper's figures are of ImageNet, ours of {dataset}."
    )
    title = "Fixed and fine-tuned, beside other methods (table 3 of the paper)"
    columns = ["Labeled data", *map(formats.percent, fractions)]
    return [Table("table3", title, columns, rows, data, note)]


def search(runs: Sequence[Run]) -> Table | None:
    """What each search chose; the CSV file has all that was tried."""
    rows, data = [], []
    for method, own in methods.by_method(runs).items():
        for run in sorted(own, key=lambda run: (methods.fraction(run), run.get("seed", 0))):
            tried = run.get("search", [])
            name = {"method": method.name, "label_fraction": run["label_fraction"], "seed": run.get("seed", 0)}
            data += [{**name, **trial} for trial in tried]
            for trial in (trial for trial in tried if trial.get("chosen") is True):
                same_phase = [other for other in tried if other.get("phase") == trial.get("phase")]
                rate = trial.get("learning_rate", trial.get("encoder_rate"))
                values = [rate, *(trial.get(key) for key in ("weight_decay", "dropout", "batch_size", "steps"))]
                held_out = trial.get("held_out_top1")
                held_out = f"{100 * held_out:.1f}" if isinstance(held_out, float) else formats.NOTHING
                rows.append(
                    Row([
                        f"{method.name}, {formats.percent(run['label_fraction'])}, seed {name['seed']}",
                        str(trial.get("phase", "")), *map(formats.number, values),
                        held_out, str(len(same_phase)),
                    ])
                )  # fmt: skip
    columns = ["Run", "Phase", "Rate", "Weight decay", "Dropout", "Batch", "Steps", "Held-out top-1, %", "Tried"]
    note = (
        "Chosen by the accuracy on labels held out of the training set, never on the test set. While fine-tuning, the "
        "rate is the encoder's; 0 steps: no fine-tuning was better."
    )
    return Table("search", "Chosen settings", columns, rows, data, note, words=(1,)) if rows else None


def gaps(found: Curves, dataset: str, all_found: Found, runs_dir: str) -> list[Gap]:
    """Where one of the two compared methods was not measured at a fraction of the paper, or at one of the other's."""
    wanted = sorted({*paper.FRACTIONS, *(f for curve in (found.cpc, found.pixels) if curve for f in curve.runs)})
    folder = os.path.join(runs_dir, methods.dataset_name(dataset))
    missing = []
    for role, own, other in (("cpc", found.cpc, found.pixels), ("pixels", found.pixels, found.cpc)):
        lacking = [f for f in wanted if not own or f not in own.runs]
        if not lacking:
            continue
        run = next(iter((own or other or found.all[0]).runs.values()))[0]
        before, flags = [], {"label_fraction": "FRACTION", "workdir": f"{folder}/efficient/{role}_FRACTION"}
        if not own:
            before, encoder = ([], "pixels") if role == "pixels" else commands.module_for(dataset, all_found, folder)
            flags["encoder"] = encoder
        if role == "pixels" and not own and commands.preset(dataset, "efficient_pixels"):
            command = commands.from_preset("efficient", dataset, flags)
        else:
            command = commands.like(run, flags)
        name = "CPC" if role == "cpc" else "the baseline on pixels"
        where = ", ".join(map(formats.percent, lacking))
        missing.append(
            Gap(
                f"Not measured: {name} at {where} of the labels.", [*before, *commands.over_fractions(command, lacking)]
            )
        )
    return missing


def _nothing(dataset: str, found: Found, runs_dir: str) -> Gap:
    folder = os.path.join(runs_dir, methods.dataset_name(dataset))
    lines, encoder = commands.module_for(dataset, found, folder)
    for role, trained_on in (("cpc", encoder), ("pixels", "pixels")):
        flags = {
            "encoder": trained_on,
            "label_fraction": "FRACTION",
            "workdir": f"{folder}/efficient/{role}_FRACTION",
        }
        lines += commands.over_fractions(commands.from_preset("efficient", dataset, flags), paper.FRACTIONS)
    return Gap("Not measured: classification with few labels (figure 1, tables 2 and 3).", lines)


def _as_in_the_paper(found: Curves) -> list[Curve]:
    """Pixels first, then random encoders, CPC last."""
    return sorted(found.all, key=lambda curve: -methods.ROLES.index(curve.method.role))


def _trained_on(curve: Curve) -> str:
    backbone = methods.architecture(curve.method.key)
    if curve.method.role == "pixels":
        return f"{backbone or 'classifier'} trained on pixels"
    return f"trained on {curve.title} features" if curve.method.role == "cpc" else f"trained on a {curve.title}"


def _phase_rows(found: Curves, metric: str, fractions: Sequence[float]) -> list[tuple[str, list[Spread | None]]]:
    rows = []
    for curve in _as_in_the_paper(found):
        for phase, name in PHASES.items():
            values = [[run.get("phases", {}).get(phase, {}).get(metric) for run in curve.runs.get(f, [])]
                      for f in fractions]  # fmt: skip
            numbers = [[v for v in here if isinstance(v, float) and 0 <= v <= 1] for here in values]
            if any(numbers):
                title = curve.title if name == "supervised" else f"{curve.title} ({name})"
                rows.append((title, [methods.spread(here) if here else None for here in numbers]))
    return rows


def _between_measured(found: Curves, fraction: float, metric: str) -> float | None:
    if fraction not in found.cpc.runs:
        return None
    accuracy = found.cpc.accuracy(fraction, metric).mean
    return efficiency.between_measured(found.pixels.points(metric), found.cpc.labels[fraction], accuracy)


def _datum(source: str, metric: str, row: str, fraction: float, spread: Spread) -> dict:
    return {
        "source": source,
        "metric": metric,
        "row": row,
        "label_fraction": fraction,
        "value": round(spread.mean, 6),
        "low": round(spread.low, 6),
        "high": round(spread.high, 6),
        "runs": spread.count,
    }
