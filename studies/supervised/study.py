"""What do labels alone give to CPC's own network, trained until twice the length gains nothing?

    python -m studies supervised --cores=1

The network is the encoder with the classifier that CPC fine-tunes, 2.06 million parameters, with
random weights. With 1, 10 and 100 % of the labels its length is doubled until that gains less than
half a point on the test images, which favours it. The settings are those of studies/label_curve.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from cpc_tf.core.texts import markdown_table
from studies import records, runner
from studies.label_curve import study as label_curve

DATASET = "imagenette-128px"
FEATURES = "pixels, two blocks"
IMAGES = 9469  # with all labels
SEED = 0  # of the choice of labels
# Fraction of the labels -> steps of the shortest run; all labels first.
SHORTEST = {1.0: 24_000, 0.1: 12_000, 0.01: 6_000}
LEAST_GAIN = 0.005  # of top-1, by twice the length


def runs(places: runner.Places) -> list[runner.Run]:
    """Two lengths of each fraction; a longer one as long as the last doubling gained enough."""
    recorded = records.read("supervised")
    found = []
    for fraction, shortest in SHORTEST.items():
        top1 = {r["steps"]: r["top1"] for r in recorded if r["label_fraction"] == fraction}
        for steps in _lengths(shortest, top1):
            fields = {"label_fraction": fraction, "steps": steps, "seed": SEED}
            folder = f"{places.work}/supervised/{SEED}"
            command = label_curve.classified(
                DATASET, places.pictures, folder, FEATURES, fraction, SEED, steps
            )
            found.append(runner.Run(fields, command))
    return found


def _lengths(shortest: int, top1: dict[int, float]) -> list[int]:
    """Returns the lengths of a fraction.

    Args:
      shortest: the first one, in steps.
      top1: {steps: accuracy} of those that are recorded.
    """
    lengths = [shortest, 2 * shortest]
    while _gain(top1, lengths[-1]) >= LEAST_GAIN:
        lengths.append(2 * lengths[-1])
    return lengths


def _gain(top1: dict[int, float], steps: int) -> float:
    """Returns what a length gained on half of it; NaN if one of them is not recorded."""
    return top1.get(steps, math.nan) - top1.get(steps // 2, math.nan)


def table(found: Sequence[dict]) -> str:
    """A line for each run: top-1 in percent, and what it is ahead of half the length."""
    rows = []
    for fraction in SHORTEST:
        top1 = {r["steps"]: r["top1"] for r in found if r["label_fraction"] == fraction}
        for steps, accuracy in sorted(top1.items()):
            gained = _gain(top1, steps)
            gain = "-" if math.isnan(gained) else f"{100 * gained:+.1f}"
            epochs = f"{steps * 32 / (fraction * IMAGES):,.0f}"
            labels = f"{100 * fraction:g} %"
            rows.append([labels, f"{steps:,}", epochs, f"{100 * accuracy:.1f}", gain])
    titles = ["labels", "steps", "epochs of them", "top-1, %", "twice the length gained"]
    return markdown_table(titles, rows)
