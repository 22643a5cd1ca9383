"""What the report shows of pre-training: patches as the encoder saw them, and how each run
trained.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from cpc_tf.core import cli
from cpc_tf.core.settings import ConfigError
from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.pretrain.diagnostics import COLLAPSED, Collapse, Health, healthy
from cpc_tf.report.blocks import (
    TRAINING,
    FigureBlock,
    Panels,
    Part,
    TableBlock,
    line,
    pictures,
)
from cpc_tf.report.methods import architecture
from cpc_tf.report.runs import Run, is_number

NEEDS = ()
# What a pre-training may record -> title of the column and of the curve.
RECORDED = {
    "loss": "training loss, nats",
    "bound": "training bound, nats",
    "accuracy": "training accuracy, own task, %",
    "knn": "kNN accuracy, probe images, %",
    "gradient_norm": "training gradient norm",
    "feature_std": "feature_std, training",
    "effective_rank": "effective rank, training",
    "images_per_second": "images/s",
}
SHARES = ("accuracy", "knn")  # of these, recorded as fractions
CONTRASTIVE = "contrastive accuracy, training, %"  # of finding a patch or a view among others
PATCHES = "Patches as the encoder of {} saw them: augmented, and what was done to them one by one."
PATCHES_ALT = (
    "An image, its patch grid, augmented draws of it, and each operation that was used, alone."
)
NOTE = (
    "On training images, at the end of each run; the nearest-neighbour probe is on the images"
    " of --probe_split. Losses of runs that differ in batch size, grid or number of directions"
    " cannot be compared, but bounds can. docs/reliability.md says what is healthy."
)


def report(runs: Sequence[Run], dataset: str) -> list[Part]:
    """Returns the parts of the page about the pre-training runs on a dataset."""
    named = {_name(run): run for run in sorted(runs, key=_name)}
    seen = pictures([*named.values()], "patches.png", "patches", PATCHES, PATCHES_ALT)
    recorded = {name: run for name, run in named.items() if run.metrics()}
    curves: list[FigureBlock] = []
    for number, (name, run) in enumerate(recorded.items(), 1):
        curves += _figure(name, run, f"training-{number}")
    numbers = [_table(named)] if named else []
    patches = "Pre-training: patches as the encoder saw them"
    return [Part(70, *TRAINING, [*curves, *numbers, *(x._replace(fold=patches) for x in seen)])]


def _name(run: Run) -> str:
    """Returns a run's directory or, for a record of a study, its encoder and seed."""
    return (
        run.place if run.directory else f"{architecture(run['encoder'])}, seed {run.get('seed', 0)}"
    )


def _collapse(records: Sequence[dict[str, float]]) -> Collapse | None:
    health = Health()
    return next(
        filter(None, (health.check(int(record["step"]), record) for record in records)), None
    )


def _table(named: dict[str, Run]) -> TableBlock:
    """Returns a table with a column for each run, since few runs have many numbers."""
    columns = []
    for run in named.values():
        records = run.metrics()
        minutes = run.get("wall_seconds", 0) / 60 or None
        health = "collapsed" if _collapse(records) else "no warning" if records else None
        numbers = _in_percent({name: x for name, x in run.items() if is_number(x)})
        values = map(numbers.get, ("seed", "step", *RECORDED))
        columns.append([architecture(run["encoder"]), *values, minutes, health])
    titles = ["Encoder", "Seed", "Steps", *RECORDED.values(), "Minutes", "Health"]
    rows = [
        {"": title, **dict(zip(named, of_runs))}
        for title, of_runs in zip(titles, zip(*columns))
        if any(x is not None for x in of_runs)
    ]
    return TableBlock("pretraining", "Pre-training runs", rows, NOTE, fold="Pre-training: numbers")


def _figure(name: str, run: Run, file: str) -> list[FigureBlock]:
    """Returns the curves of a run with the healthy ranges, as far as its flags tell them; none of a
    single record.
    """
    objective = run.identity.trained_by
    titles = {**RECORDED, "accuracy": CONTRASTIVE} if objective in ("cpc", "instance") else RECORDED
    # A speed of 0 stands for "not measured": the first of a session.
    records = [
        {k: x for k, x in _in_percent(r).items() if x or k != "images_per_second"}
        for r in run.metrics()
    ]
    keys = [key for key in titles if key == "loss" or any(key in record for record in records)]
    panels = {titles[key]: [line(name, records, key, objective)] for key in keys}
    warn_below = {titles[key]: least for key, (least, _) in COLLAPSED.items()}
    ranges: dict[str, float] = {}
    with contextlib.suppress(ConfigError):  # flags of another version
        ranges = healthy(cli.parse_run(PretrainConfig, run.text("run.flags")))
    collapse = _collapse(records)
    warning = f" Collapsed at step {collapse.step:,}: {collapse}." if collapse else ""
    caption = (
        f"{name}.{warning} Green is healthy after the first steps; below the dashed lines is a"
        " collapse."
    )
    healthy_from = {titles[key]: least for key, least in _in_percent(ranges).items()}
    most = {titles[key]: 100.0 for key in SHARES}
    return Panels(panels, warn_below=warn_below, healthy=healthy_from, most=most).figure(
        file, caption, 3.9, 2.4, fold="Pre-training: curves"
    )


def _in_percent(record: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a record whose fractions are percent."""
    return {
        **record,
        **{key: round(100 * record[key], 4) for key in SHARES if is_number(record.get(key))},
    }
