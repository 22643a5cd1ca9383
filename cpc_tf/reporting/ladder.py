"""Figure 3: from CPC v1 to CPC v2, one change a rung."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure as Canvas

from cpc_tf.reporting import commands, formats, methods, paper, plots
from cpc_tf.reporting.blocks import Block, Figure, Gap, Row, Table
from cpc_tf.reporting.collect import Run
from cpc_tf.reporting.methods import Spread


def rungs(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """The linear results on CPC encoders of each rung, in the order of the ladder."""
    found: dict[str, list[Run]] = {rung.name: [] for rung in paper.LADDER}
    for run in runs:
        name = methods.rung(run)
        if name and methods.method(run).role == "cpc":
            found[name].append(run)
    return {name: own for name, own in found.items() if own}


def blocks(runs: Sequence[Run], dataset: str, runs_dir: str) -> list[Block]:
    """The ladder, and how to climb the missing rungs; on photos, whose presets exist, also if all are missing."""
    found = rungs(runs)
    name = methods.dataset_name(dataset)
    made: list[Block] = []
    if found:
        top1 = {rung: methods.spread(run["top1"] for run in own) for rung, own in found.items()}
        made = [_figure(found, top1, name), _table(top1)]
    elif name != "photos":
        return []
    missing = [rung.name for rung in paper.LADDER if rung.name not in found]
    if missing:
        like = next(iter(found.values()))[0] if found else None
        what = f"Not measured: {', '.join(missing)} (figure 3)."
        made.append(Gap(what, commands.rungs(missing, runs_dir, like)))
    return made


def _figure(found: dict[str, list[Run]], top1: dict[str, Spread], dataset: str) -> Figure:
    low = min(100 * spread.low for spread in top1.values())
    floor = max(0, 10 * (low // 10 - 1))

    def draw(canvas: Canvas, theme: plots.Theme) -> None:
        axis = canvas.subplots()
        shade = theme.shades(faint=0.35)
        for place, rung in enumerate(paper.LADDER):
            if rung.name not in top1:
                axis.text(place, floor, "not\nmeasured", ha="center", va="bottom", fontsize=8.5, color=theme.muted)
                continue
            mean = 100 * top1[rung.name].mean
            axis.bar(place, mean - floor, 0.68, bottom=floor, color=shade(place / (len(paper.LADDER) - 1)))
            seeds = [100 * run["top1"] for run in found[rung.name]]
            if len(seeds) > 1:
                axis.plot([place, place], [min(seeds), max(seeds)], color=theme.ink, linewidth=1.2)
                axis.plot([place] * len(seeds), seeds, "o", color=theme.ink, markersize=3.5)
            axis.annotate(f"{mean:.1f}", (place, max(seeds)), (0, 4), textcoords="offset points", ha="center",
                          fontweight="bold")  # fmt: skip
        axis.set_xlim(-0.6, len(paper.LADDER) - 0.4)
        axis.set_ylim(floor, None)
        axis.margins(y=0.12)
        names = [f"{'+' if i else 'CPC '}{rung.name}\n{_wrap(rung.title) if i else ''}"
                 for i, rung in enumerate(paper.LADDER)]  # fmt: skip
        axis.set_xticks(range(len(names)), names, fontsize=9)
        axis.tick_params(axis="x", length=0)
        axis.grid(visible=False, axis="x")
        axis.set_title("Linear top-1 accuracy, %")

    drawn = {"": plots.both(draw, 10, 4)}
    values = "; ".join(f"{name} {100 * spread.mean:.1f} %" for name, spread in top1.items())
    data = [
        {"rung": name, "encoder": run["encoder"], "seed": run.get("seed", 0), "top1": run["top1"], "top5": run["top5"]}
        for name, own in found.items() for run in own
    ]  # fmt: skip
    several = any(len(own) > 1 for own in found.values())
    title = "The ladder (figure 3 of the paper): each rung adds one change to the one before."
    title += " Bars are means, dots the runs." if several else ""
    title += f" The axis begins at {floor:.0f} %." if floor else ""
    return Figure("ladder", title, drawn, f"Linear top-1 accuracy on {dataset} of the rungs: {values}.", data)


def _table(top1: dict[str, Spread]) -> Table:
    rows, data, before = [], [], None
    for rung in paper.LADDER:
        spread = top1.get(rung.name)
        change = 100 * (spread.mean - before.mean) if spread and before else None
        rows.append(
            Row([rung.name, rung.title, formats.accuracy(spread), formats.change(change), rung.gain or formats.NOTHING])
        )
        if spread:
            data.append({"rung": rung.name, "top1": round(spread.mean, 6), "low": spread.low, "high": spread.high,
                         "runs": spread.count, "change": None if change is None else round(change / 100, 6),
                         "paper": rung.gain})  # fmt: skip
        before = spread
    note = (
        "Percent and percentage points. The paper's changes are those its section 4.1 names; figure 3's own values "
        "are not printed in the text, and are of a custom validation set of ImageNet."
    )
    columns = ["Rung", "Adds", "Top-1", "Change", "Paper: change"]
    return Table("ladder-table", "What each rung adds", columns, rows, data, note, words=(1,))


def _wrap(title: str) -> str:
    return "\n".join(title.rsplit(" ", 1))
