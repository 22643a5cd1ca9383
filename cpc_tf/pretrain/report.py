"""What the report shows of pre-training: patches as the encoder saw them, and how each run trained."""

from __future__ import annotations

from collections.abc import Sequence

from cpc_tf.pretrain.diagnostics import COLLAPSED, Collapse, Health
from cpc_tf.results import plots
from cpc_tf.results.blocks import FEATURES, TRAINING, Block, Details, Figure, Gap, Part, Row, Table, Text
from cpc_tf.results.methods import architecture
from cpc_tf.results.runs import Run
from cpc_tf.results.training import line, pictures
from cpc_tf.results.values import duration

# What a pre-training may record, and its title. Objectives add theirs.
PANELS = {
    "loss": "loss, nats",
    "bound": "bound, nats",
    "accuracy": "contrastive accuracy",
    "knn": "nearest-neighbour accuracy",
    "gradient_norm": "gradient norm",
    "feature_std": "feature_std",
    "effective_rank": "effective rank",
    "images_per_second": "images a second",
}


def report(runs: Sequence[Run]) -> list[Part]:
    """What the pre-training runs among the results on one dataset, of all tasks, show."""
    own = sorted((run for run in runs if run["kind"] == "pretrain"), key=_name)
    patches: list[Block] = pictures(
        own,
        "patches.png",
        "patches",
        "Augmented patches as the encoder of {} saw them, and each primitive alone.",
        "A picture's patch grid, several augmented draws of it, and each augmentation alone at the ends of its range.",
    )
    if not patches and any(run.directory for run in own):
        patches = [Gap("No picture of augmented patches.", "python -m cpc_tf.show_patches with the run's run.flags")]
    records = {_name(run): run.metrics() for run in own}
    figures = [
        _figure(name, known, f"training-{i + 1}")
        for i, (name, known) in enumerate(records.items())
        if any(PANELS.keys() & record for record in known)
    ]
    training: list[Block] = [_table(own)] if own else []
    training += [Details(f"Curves of {name}", [figure], open=True) for name, figure in list(zip(records, figures))[:1]]
    training += [Details(f"Curves of {len(figures) - 1} more runs", figures[1:])] if figures[1:] else []
    without = [name for name, known in records.items() if not known]
    if without:
        training.append(Text(f"No curves of {', '.join(without)}: there is no metrics.jsonl beside the result."))
    return [Part(FEATURES, patches), Part(TRAINING, training)]


def _name(run: Run) -> str:
    """Its directory below the runs, or its encoder and seed."""
    return run.place if run.directory else f"{architecture(run['encoder'])}, seed {run.get('seed', 0)}"


def _collapse(records: Sequence[dict[str, float]]) -> Collapse | None:
    health = Health()
    return next(filter(None, (health.check(int(record["step"]), record) for record in records)), None)


def _table(runs: Sequence[Run]) -> Table:
    rows = []
    for run in runs:
        records = run.metrics()
        health = "collapsed" if _collapse(records) else "no warning" if records else None
        shown = (
            "seed",
            "step",
            "loss",
            "bound",
            "accuracy",
            "knn",
            "feature_std",
            "effective_rank",
            "images_per_second",
        )
        time = duration(run["wall_seconds"]) if "wall_seconds" in run.record else None
        rows.append(Row([_name(run), architecture(run["encoder"]), *map(run.get, shown), time, health]))
    columns = ["Run", "Encoder", "Seed", "Steps", "Loss", "Bound", "Accuracy", "kNN", "feature_std", "Rank", "Images/s"]
    data = [{"run": _name(r), **{k: v for k, v in r.record.items() if isinstance(v, (int, float, str))}} for r in runs]
    note = (
        "At the end of each run. Loss and bound in nats: losses of runs with another batch, grid or number of "
        "directions do not compare, bounds do. docs/is_my_loss_normal.md says what is healthy."
    )
    columns += ["Time", "Health"]
    return Table("pretraining", "Pre-training runs", columns, rows, note, words=(1, 12), all_data=data)


def _figure(name: str, records: Sequence[dict[str, float]], file: str) -> Figure:
    panels = [
        plots.Panel(title, [line(name, records, key, "cpc")], level=COLLAPSED.get(key, (None,))[0])
        for key, title in PANELS.items()
        if any(key in record for record in records)
    ]
    found = _collapse(records)
    warning = f" Collapsed at step {found.step:,}: {found}." if found else ""
    columns = min(4, len(panels))
    title = f"{name}.{warning} Dashed: below it, a warning of collapse."
    return plots.curves(file, title, panels, columns, (10, 2.3 * -(-len(panels) // columns)))
