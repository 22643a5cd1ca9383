"""Healthy and sick pre-training runs side by side: four short runs of the photos preset, a minute
each on two cores.

python -m studies health --cores=1
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Sequence

from matplotlib.figure import Figure as Canvas

from cpc_tf.core import cli
from cpc_tf.core.texts import markdown_table
from cpc_tf.drawing import plots
from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.pretrain.diagnostics import healthy
from studies import runner

COMMAND = [
    "cpc_tf.pretrain",
    "--flagfile=flags/photos/pretrain.flags",
    "--train_steps=200",
    "--steps_per_loop=10",
]
RUNS = {
    "healthy": [],
    "rate far too high": ["--learning_rate=0.1"],
    "rate far too low": ["--learning_rate=0.000003"],
    "too easy: overlapping patches, no augmentation": [
        "--augment=none",
        "--steps_to_ignore=0",
        "--steps_to_predict=1",
    ],
}
# Figure -> its title, and the limits of the axis.
PANELS = {
    "bound": ("training bound on mutual information, nats", (-1, 5)),
    "accuracy": ("contrastive accuracy, training", (0, 0.26)),
    "feature_std": ("feature_std, training", (0, 1.0)),
    "effective_rank": ("effective_rank, training", (0, 18)),
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
    return {
        "metrics": [
            {name: line[name] for name in ("step", "loss", *PANELS) if name in line}
            for line in lines
        ]
    }


def table(records: Sequence[dict]) -> str:
    """Where the runs were at their end."""
    names = ("loss", *PANELS)
    rows = [
        [record["health"], *(f"{record['metrics'][-1][name]:.3g}" for name in names)]
        for record in records
    ]
    return markdown_table(["run, at step 200", *names], rows)


def draw(found: Sequence[dict]) -> bytes:
    """A panel for each figure, a curve for each run; the healthy range is shaded."""

    def fill(canvas: Canvas, theme: plots.Theme) -> None:
        ranges = healthy(cli.parse(PretrainConfig, COMMAND[1:]))
        for axis, (name, (title, limits)) in zip(canvas.subplots(2, 2).ravel(), PANELS.items()):
            axis.set(title=title, xlabel="step", ylim=limits)
            if name in ranges:
                plots.shade_healthy(axis, ranges[name], theme)
            for record, color in zip(found, (theme.named["cpc"], *theme.lines)):
                points = [(row["step"], row[name]) for row in record["metrics"] if name in row]
                axis.plot(*zip(*points), color=color, linewidth=1.6, label=record["health"])
        canvas.legend(
            *axis.get_legend_handles_labels(), loc="outside upper left", ncols=5, fontsize=9
        )

    return plots.png(fill, 10, 7, dpi=108)
