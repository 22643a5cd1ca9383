"""How the results were made: encoder, settings, versions, commit, machine and time of each run."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Sequence

from cpc_tf.core import cli
from cpc_tf.core.commands import TASKS
from cpc_tf.core.settings import ConfigError, to_flagfile
from cpc_tf.core.texts import listed
from cpc_tf.encoders.config import PIXELS
from cpc_tf.report.blocks import BY_CROSS_VALIDATION, Block, ListBlock, Part
from cpc_tf.report.methods import architecture, methods
from cpc_tf.report.runs import Run

MADE = ("made", "How it was made")
LAYERS = {
    "linear": "linear classifier",
    "detect": "detector",
    "classify": "classifier on frozen features",
}


def made(runs: Sequence[Run]) -> list[Part]:
    """Returns the part on the runs of a dataset that lie in directories."""
    runs = sorted((run for run in runs if run.directory), key=lambda run: run.place)
    return [Part(90, *MADE, [block for run in runs for block in _facts(run)])]


def _facts(run: Run) -> list[Block]:
    about = run.about
    seconds = run.get("wall_seconds")
    labels = run.get("num_train_labels")
    layer = "" if run["kind"] == "pretrain" else LAYERS.get(run["kind"], "classifier")
    rows = [
        ("Encoder", _encoder(run)),
        (
            "Its module",
            run["encoder"] if run["kind"] != "pretrain" and run["encoder"] != PIXELS else "",
        ),
        ("On top of it", f"{layer}, {labels:,} labels" if layer and labels else layer),
        ("Directory", run.path),
        ("Seed", str(run.get("seed", 0))),
        ("Tested on", run.test_split or BY_CROSS_VALIDATION * ("cross_validation" in run)),
        ("The same again", listed(run.repeats)),
        ("Begun", about.get("begun", "")),
        ("Ended", about.get("date", "")),
        (
            "Time",
            (
                ""
                if not seconds
                else f"{seconds:.0f} seconds"
                if seconds < 120
                else f"{seconds / 60:,.0f} minutes"
            ),
        ),
        ("Machine", about.get("machine", "")),
        (
            "cpc_tf",
            " ".join(
                filter(
                    None, [about.get("version", ""), about.get("commit") and f"({about['commit']})"]
                )
            ),
        ),
        ("TensorFlow", about.get("tensorflow", "")),
    ]
    blocks = [ListBlock([row for row in rows if row[1]], fold=run.place)]
    if command := _command(run):
        lines = [("Command, with the flags that are not defaults", command)]
        blocks.append(ListBlock(lines, commands=True, fold=run.place))
    return blocks


def _encoder(run: Run) -> str:
    """Returns a line on the run's encoder."""
    identity, (method,) = run.identity, methods([run])
    facts = [
        method.title,
        architecture(identity.architecture),
        f"{identity.parameters:,} parameters" if identity.parameters else "",
        f"trained on {identity.dataset}" if identity.dataset else "",
        f"{identity.steps:,} steps" if identity.steps else "",
    ]
    return ", ".join(filter(None, facts))


def _command(run: Run) -> str:
    """Returns the command that repeats a run: its flags without those that are as usual, if they
    are known; or ''.
    """
    text = run.text("run.flags")
    if not text:
        return ""
    flags = text.splitlines()
    task = TASKS.get(run["kind"])
    with contextlib.suppress(ConfigError):  # flags of another version: all of them
        if task:
            config = cli.parse_run(task.config, text)
            usual, given = (to_flagfile(each).splitlines() for each in (task.config(), config))
            flags = [flag for flag in given if flag not in usual]
    return shlex.join(["cpc-tf", run["kind"], *flags])
