"""Healthy and sick pre-training runs side by side: four short runs of the photos preset, a minute each on two cores.

python -m studies health --cores=1
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Sequence

from matplotlib.figure import Figure as Canvas

from cpc_tf.results import plots
from studies import runner
from studies.tables import markdown

COMMAND = ["cpc_tf.pretrain", "--flagfile=flags/photos/pretrain.flags", "--train_steps=200", "--steps_per_loop=10"]
RUNS = {
    "healthy": [],
    "rate far too high": ["--learning_rate=0.1"],
    "rate far too low": ["--learning_rate=0.000003"],
    "too easy: overlapping patches, no augmentation": ["--augment=none", "--steps_to_ignore=0", "--steps_to_predict=1"],
}
# Figure -> its title, the limits of the axis, and from where on it is healthy (docs/is_my_loss_normal.md).
PANELS = {
    "bound": ("bound on mutual information, nats", (-1, 5), None),
    "accuracy": ("contrastive accuracy, training", (0, 0.26), 10 / (32 * 25)),
    "feature_std": ("feature_std", (0, 1.0), 0.3),
    "effective_rank": ("effective_rank", (0, 18), 1.5),
}


def runs(places: runner.Places) -> list[runner.Run]:
    """The four runs."""
    found = []
    for name, more in RUNS.items():
        workdir = f"{places.work}/health/{name.split(':')[0].replace(' ', '_')}"
        command = [*COMMAND, "--probe_every=0", *more, f"--workdir={workdir}"]
        found.append(runner.Run({"health": name}, [(command, f"{workdir}/result.json")]))
    return found


def keep(_: dict, path: str) -> dict:
    """The figures every ten steps."""
    lines = map(json.loads, (pathlib.Path(path).parent / "metrics.jsonl").read_text().splitlines())
    return {"metrics": [{name: line[name] for name in ("step", "loss", *PANELS) if name in line} for line in lines]}


def table(records: Sequence[dict]) -> str:
    """Where the runs were at their end."""
    names = ("loss", *PANELS)
    rows = [[record["health"], *(f"{record['metrics'][-1][name]:.3g}" for name in names)] for record in records]
    return markdown(["run, at step 200", *names], rows)


def draw(found: Sequence[dict]) -> bytes:
    """A panel for each figure, a curve for each run; the healthy range is shaded."""

    def fill(canvas: Canvas, theme: plots.Theme) -> None:
        for axis, (name, (title, limits, healthy)) in zip(canvas.subplots(2, 2).ravel(), PANELS.items()):
            if healthy:
                axis.axhspan(healthy, limits[1], color=theme.lines[2], alpha=0.12, linewidth=0, label="healthy range")
            for record, color in zip(found, theme.lines):
                points = [(row["step"], row[name]) for row in record["metrics"] if name in row]
                axis.plot(*zip(*points), color=color, linewidth=1.6, label=record["health"])
            axis.set(title=title, xlabel="step", ylim=limits)
        canvas.legend(*axis.get_legend_handles_labels(), loc="outside upper left", ncols=5, fontsize=9)

    return plots.png(fill, 12, 7, dpi=90)
