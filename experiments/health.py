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
from matplotlib.figure import Figure

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


def draw(records: dict[str, list[dict]], output: str) -> None:
    """One panel a figure, one line a run."""
    figure = Figure(figsize=(12, 6.5), layout="constrained")
    for axis, (name, title) in zip(figure.subplots(2, 2).flat, PANELS.items()):
        for label, rows in records.items():
            axis.plot([row["step"] for row in rows], [row[name] for row in rows], label=label)
        axis.set(title=title, xlabel="step")
        if name == "bound":
            axis.set_ylim(-1, 5)  # a run that blows up leaves the picture
        axis.spines[["top", "right"]].set_visible(False)
    figure.axes[0].legend(fontsize=8)
    figure.savefig(output, dpi=90)


def main(_) -> None:
    """Runs all and draws."""
    records = {name: run(more, flags.FLAGS.steps) for name, more in RUNS.items()}
    for name, rows in records.items():
        last = rows[-1]
        print(name, {key: round(last[key], 4) for key in ("step", "loss", *PANELS)})
    draw(records, flags.FLAGS.output)


if __name__ == "__main__":
    flags.DEFINE_string("output", "health.png", "picture to write")
    flags.DEFINE_integer("steps", 200, "steps of each run")
    app.run(main)
