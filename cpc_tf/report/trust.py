"""How far the percentages of a classifier can be trusted: the reliability diagram."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure as Canvas

from cpc_tf.drawing import plots
from cpc_tf.evaluation import counts
from cpc_tf.evaluation.predictions import Predictions
from cpc_tf.report.blocks import FigureBlock, Part
from cpc_tf.report.prose import sentences
from cpc_tf.report.runs import Run, is_number

# at most so many points, each of at least so many images
BINS = 10
LEAST = 10
SURE = 90  # percent


def trust(run: Run, predictions: Predictions | None) -> list[Part]:
    """Returns the part with the diagram; none of fewer than 20 images, or without their
    probabilities.
    """
    if (
        predictions is None
        or predictions.probabilities is None
        or len(predictions.labels) < 2 * LEAST
    ):
        return []
    bins = reliability(predictions)
    facts = {
        "least": SURE,
        "each": len(predictions.labels) // len(bins),
        **_sure(predictions),
        **_calibration(run),
    }
    names = ("said", "right", "right low", "right high", "pictures")
    data = [dict(zip(names, [*(round(x, 4) for x in some[:4]), some[4]])) for some in bins]
    ends = "; ".join(
        f"says {100 * said:.0f} %, right {100 * right:.0f} %" for said, right, *_ in bins
    )
    picture = plots.png(lambda canvas, theme: _draw(canvas, theme, bins), 4.6, 4.4, 180)
    figure = FigureBlock(
        "reliability",
        " ".join(sentences("trust", facts)),
        picture,
        f"Reliability diagram: {ends}.",
        data,
    )
    return [Part(4, "trust", "How far its percentages can be trusted", [figure])]


def reliability(predictions: Predictions) -> list[tuple[float, float, float, float, int]]:
    """Returns (mean probability, share that is right, ends of its 95 % interval, images) of bins
    of as many each.
    """
    order = np.argsort(predictions.probabilities, kind="stable")
    right = (predictions.labels == predictions.guesses)[order]
    stated = predictions.probabilities[order]
    bins = []
    for some in np.array_split(np.arange(len(order)), min(BINS, len(order) // LEAST)):
        low, high = counts.interval(float(right[some].sum()), len(some))
        bins.append((float(stated[some].mean()), float(right[some].mean()), low, high, len(some)))
    return bins


def _sure(predictions: Predictions) -> dict[str, int]:
    sure = predictions.probabilities >= SURE / 100
    right = sure & (predictions.labels == predictions.guesses)
    return {"sure": int(sure.sum()), "right": int(right.sum())}


def _calibration(run: Run) -> dict[str, float]:
    """Returns the temperature of the exported classifier, 0 for none, and the calibration error
    without and with it.
    """
    calibration = run.get("calibration")
    calibration = (
        calibration if isinstance(calibration, dict) and calibration.get("fitted") is True else {}
    )
    temperature, *errors = (calibration.get(name) for name in ("temperature", "ece_before", "ece"))
    if not all(map(is_number, (temperature, *errors))):
        return {"temperature": 0}
    before, after = (round(100 * error) for error in errors)
    return {"temperature": temperature, "before": before, "after": after}


def _draw(
    canvas: Canvas, theme: plots.Theme, bins: list[tuple[float, float, float, float, int]]
) -> None:
    axis = canvas.subplots()
    color = theme.color("cpc")
    axis.plot([0, 100], [0, 100], color=theme.named["muted"], linewidth=1, linestyle="--")
    said, right, low, high, _ = (100 * np.array(column) for column in zip(*bins))
    axis.vlines(said, low, high, color=color, alpha=0.45, linewidth=1.4)
    axis.plot(said, right, color=color, marker="o", markersize=5, linewidth=1.6)
    axis.set(
        xlim=(0, 101),
        ylim=(0, 101),
        xlabel="how sure it says it is, %",
        ylabel="how often it is right, %",
    )
    axis.set_aspect("equal")
