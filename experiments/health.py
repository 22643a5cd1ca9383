"""Healthy and sick pre-training runs side by side: runs them and draws docs/images/health.png.

    python -m experiments.health --output=docs/images/health.png

Four short runs of the photos preset on this machine, a minute each on two cores.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile

from absl import app, flags
from matplotlib.figure import Figure as Canvas

from cpc_tf.files import write_file
from cpc_tf.results import plots
from cpc_tf.results.training import line

PRESET = "flags/photos/pretrain.flags"
RUNS = {
    "healthy": [],
    "rate far too high": ["--learning_rate=0.1"],
    "rate far too low": ["--learning_rate=0.000003"],
    "too easy: overlapping patches, no augmentation": ["--augment=none", "--steps_to_ignore=0", "--steps_to_predict=1"],
}
PANELS = {
    "bound": "bound on mutual information, nats",
    "accuracy": "contrastive accuracy",
    "feature_std": "feature_std",
    "effective_rank": "effective_rank",
}


def run(flags_: list[str], steps: int) -> list[dict]:
    """The records of one run; fewer than all if it diverged."""
    with tempfile.TemporaryDirectory() as workdir:
        command = [sys.executable, "-m", "cpc_tf.pretrain", f"--flagfile={PRESET}", f"--workdir={workdir}"]
        more = [f"--train_steps={steps}", "--steps_per_loop=10", "--probe_every=0"]
        done = subprocess.run([*command, *more, *flags_], stderr=subprocess.PIPE, text=True)
        print(done.stderr, end="")
        if done.returncode == 2:
            sys.exit(done.stderr)
        with open(os.path.join(workdir, "metrics.jsonl")) as file:
            return [json.loads(line) for line in file]


def draw(records: dict[str, list[dict]]) -> bytes:
    """One panel a figure, one curve a run."""
    runs = list(enumerate(records.items()))
    panels = {title: [line(label, rows, name, i) for i, (label, rows) in runs] for name, title in PANELS.items()}

    def fill(canvas: Canvas, theme: plots.Theme) -> None:
        plots.Curves(panels, 2).draw(canvas, theme)
        canvas.axes[0].set_ylim(-1, 5)  # of the bound: a run that blows up leaves the picture

    return plots.png(fill, 12, 7, dpi=90)


def main(_) -> None:
    """Runs all and draws."""
    records = {name: run(more, flags.FLAGS.steps) for name, more in RUNS.items()}
    for name, rows in records.items():
        last = rows[-1]
        print(name, {key: round(last[key], 4) for key in ("step", "loss", *PANELS)})
    write_file(flags.FLAGS.output, draw(records))


if __name__ == "__main__":
    flags.DEFINE_string("output", "health.png", "picture to write")
    flags.DEFINE_integer("steps", 200, "steps of each run")
    app.run(main)
