"""Label propagation beside the supervised baseline and beside fine-tuning on CPC, as table 3 of the
paper: 64 px.

    python -m studies propagation --only=features=pixels --only=label_fraction=0.1 --only=seed=0

Steps, encoders and what is held out are those of studies/label_curve on imagenette-224, whose runs
are those without label propagation. Weights and disturbance are the defaults; with self-training
both classifiers have the steps. No arm searches: all have the settings of their presets. 'CPC, no
blocks' has the network of the arms on pixels, 'CPC' two blocks more.
"""

from __future__ import annotations

from collections.abc import Sequence

from cpc_tf.core.texts import markdown_table
from studies import runner
from studies.label_curve import study as curves
from studies.tables import spread

DATASET = "imagenette-224"
FRACTIONS = (0.1, 0.01)
METHODS = ("none", "pseudo_labels", "vat", "uda", "self_training")
# Features -> methods. 'CPC, no blocks' has the network of the baseline, and its classifier.
ARMS = {"pixels": METHODS, "CPC, no blocks": ("none",), "CPC": METHODS}


def runs(places: runner.Places) -> list[runner.Run]:
    """Each method with each of the features, 10 % of the labels and pixels first."""

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

    return [
        run(fraction, features, method, seed)
        for fraction in FRACTIONS
        for features, methods in ARMS.items()
        for method in methods
        for seed in range(curves.SEEDS)
    ]


def table(records: Sequence[dict]) -> str:
    """Top-1 of each method, a column for each fraction of the labels."""
    rows = []
    for features, methods in ARMS.items():
        for method in methods:
            own = [r for r in records if (r["features"], r["propagation"]) == (features, method)]
            found = [
                [r["top1"] for r in own if r["label_fraction"] == fraction]
                for fraction in FRACTIONS
            ]
            rows.append([features, method, *map(spread, found)])
    return markdown_table(
        ["top-1, %", "--propagation", *(f"{100 * fraction:g} %" for fraction in FRACTIONS)], rows
    )
