"""Label propagation beside the supervised baseline and beside fine-tuning on CPC, as table 3 of the
paper: 64 px.

    python -m studies propagation --only=features=pixels --only=label_fraction=0.1 --only=seed=0

Steps, encoders and what is held out are those of studies/label_curve on imagenette-224, whose runs
are those without label propagation. Weights and disturbance are the defaults; with self-training
both classifiers have the steps.
"""

from __future__ import annotations

from collections.abc import Sequence

from cpc_tf.core.texts import markdown_table
from studies import runner
from studies.label_curve import study as curves
from studies.tables import spread

DATASET = "imagenette-224"
FRACTIONS = (0.01, 0.1)
METHODS = ("none", "pseudo_labels", "vat", "uda", "self_training")


def runs(places: runner.Places) -> list[runner.Run]:
    """Each method with each of the features, fewer labels and pixels first."""

    def run(fraction: float, features: str, method: str, seed: int) -> runner.Run:
        fields = {"dataset": DATASET, "label_fraction": fraction, "seed": seed}
        fields |= {"features": features, "propagation": method}
        folder = (  # its encoders are those of that study
            f"{places.work}/label_curve/{DATASET}/{seed}"
        )
        *before, (command, made) = curves.classified(
            DATASET, places.pictures, folder, features, fraction, seed
        )
        if method != "none":
            *flags, workdir = command
            made = made.replace("/label_curve/", f"/propagation/{method}/")
            workdir = workdir.replace("/label_curve/", f"/propagation/{method}/")
            command = [*flags, f"--propagation={method}", workdir]
        return runner.Run(fields, [*before, (command, made)])

    features = curves.FEATURES[::-1]
    return [
        run(f, w, m, s)
        for f in FRACTIONS
        for w in features
        for m in METHODS
        for s in range(curves.SEEDS)
    ]


def table(records: Sequence[dict]) -> str:
    """Top-1 of each method, a column for each fraction of the labels."""
    rows = []
    for features in curves.FEATURES[::-1]:
        for method in METHODS:
            own = [r for r in records if (r["features"], r["propagation"]) == (features, method)]
            found = [
                [r["top1"] for r in own if r["label_fraction"] == fraction]
                for fraction in FRACTIONS
            ]
            rows.append([features, method, *map(spread, found)])
    return markdown_table(
        ["top-1, %", "--propagation", *(f"{100 * fraction:g} %" for fraction in FRACTIONS)], rows
    )
