"""Does the 95 % interval that `cpc-tf classify` states hold the accuracy on all other images?

    python -m studies coverage

Six sets of images, 20 draws each of 2, 3, 5, 10 and 20 labels per class; labels of single images,
of groups, with three brightnesses of each image, and with accepted guesses.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cpc_tf.core.texts import markdown_table
from studies import runner
from studies.coverage.measure import DRAWS, LABELS, NUMBERS
from studies.coverage.pictures import SETS

# set -> flag of its folder
FOLDERS = {
    "imagenette": "pictures",
    "blood cells": "boxes",
    "drawings": "drawings",
}


def runs(places: runner.Places) -> list[runner.Run]:
    """A run for each set of images and kind of labels, the kinds in the order of their
    importance.
    """
    found = []
    for kind in LABELS:
        for name in SETS:
            result = f"{places.work}/coverage/{name.replace(' ', '_')}/{kind}/result.json"
            command = [
                "studies.coverage.measure",
                f"--pictures_of={name}",
                f"--labels={kind}",
                f"--draws={DRAWS}",
            ]
            if name in FOLDERS:
                flag = FOLDERS[name]
                command.append(f"--{flag}={getattr(places, flag)}")
            command.append(f"--output={result}")
            found.append(runner.Run({"set": name, "labels": kind}, [(command, result)]))
    return found


def keep(result: dict, path: str) -> dict:
    """Returns what a record keeps of a result: for each number of labels the means over the
    draws.
    """
    del path
    rows = []
    for each in NUMBERS:
        rows.append(
            {"each": each, **summary([draw for draw in result["draws"] if draw["each"] == each])}
        )
    return {"rows": rows, "cpu_seconds": result["cpu_seconds"]}


def summary(draws: Sequence[dict]) -> dict:
    """Returns how many intervals held the truth, and the mean of stated, true and their
    difference.
    """
    sound = [draw for draw in draws if draw["stated"] is not None]
    if not sound:
        return {"draws": 0}
    stated, true, confidence = (
        np.array([draw[name] for draw in sound]) for name in ("stated", "true", "confidence")
    )
    held = [draw["low"] <= draw["true"] <= draw["high"] for draw in sound]
    width = [draw["high"] - draw["low"] for draw in sound]
    found = {
        "draws": len(sound),
        "held": int(np.sum(held)),
        "stated": round(float(stated.mean()), 4),
        "true": round(float(true.mean()), 4),
        "bias": round(float((stated - true).mean()), 4),
        "width": round(float(np.mean(width)), 4),
        "confidence": round(float(confidence.mean()), 4),
    }
    as_labels = [
        draw["true_with_guesses_as_labels"]
        for draw in sound
        if "true_with_guesses_as_labels" in draw
    ]
    if as_labels:
        found["true_with_guesses_as_labels"] = round(float(np.mean(as_labels)), 4)
    return found


def table(records: Sequence[dict]) -> str:
    """For each set and kind of labels: held of the draws, and stated minus true in points, by
    labels per class.
    """
    lines = []
    for record in records:
        cells = []
        for row in record["rows"]:
            if row["draws"]:
                cells.append(f"{row['held']}/{row['draws']}, {100 * row['bias']:+.1f}")
            else:
                cells.append("not measured")
        lines.append([f"{record['set']}, {record['labels']}", *cells])
    lines.append(["**all**", *_of_all(records)])
    return markdown_table(["intervals that held, stated minus true", *NUMBERS], lines)


def held(records: Sequence[dict], least: int) -> str:
    """Returns how many of all intervals held the truth, from so many labels per class on."""
    rows = [row for record in records for row in record["rows"] if row["each"] >= least]
    right, draws = (sum(row.get(name, 0) for row in rows) for name in ("held", "draws"))
    return f"{100 * right / draws:.0f} % of {draws:,}"


def _of_all(records: Sequence[dict]) -> list[str]:
    """Returns the last line of the table: all sets and kinds together."""
    cells = []
    for place in range(len(NUMBERS)):
        rows = [record["rows"][place] for record in records]
        draws = sum(row["draws"] for row in rows)
        held = sum(row.get("held", 0) for row in rows)
        bias = sum(row["draws"] * row.get("bias", 0) for row in rows)
        cells.append(
            f"{held}/{draws} ({100 * held / draws:.0f} %), {100 * bias / draws:+.1f}"
            if draws
            else "-"
        )
    return cells
