"""The result of a comparison: which trial counts, which encoders cannot be told apart, the table
and the picture.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from cpc_tf.compare.methods import METHODS
from cpc_tf.compare.picture import CPC, OTHER, REFERENCE, Ranked, ranking
from cpc_tf.core.texts import listed, markdown_table
from cpc_tf.objectives.config import title


class Row(NamedTuple):
    """An encoder's figures.

    Attributes:
      name: of the objective, or of what is compared with.
      trial: which one counts; '': it was not trained here.
      neighbours: fraction of the images that neighbours name right.
      few_labels: number of labels per class -> accuracy of each draw.
    """

    name: str
    trial: str
    neighbours: float
    few_labels: dict[str, list[float]]

    def accuracy(self, number: str) -> float:
        """Mean over the draws, a fraction."""
        return float(np.mean(self.few_labels[number]))


def rows(
    trained: Mapping[tuple[str, str], dict[str, Any]], references: Mapping[str, dict[str, Any]]
) -> list[Row]:
    """Returns the better trial of each objective and what they are compared with, the best first.

    Args:
      trained: (objective, trial) -> its `measure.Worth`, as JSON.
      references: name -> the same.
    """
    every = []
    for objective in METHODS:
        trials = {trial: each for (name, trial), each in trained.items() if name == objective}
        if trials:
            best = max(trials, key=lambda trial: trials[trial]["chosen_by"])
            every.append(_row(title(objective), best, trials[best]))
    every += [_row(name, "", each) for name, each in references.items()]
    number = main_number(every)
    return sorted(every, key=lambda row: -row.accuracy(number))


def _row(name: str, trial: str, worth: dict[str, Any]) -> Row:
    return Row(name, trial, worth["neighbours"], worth["few_labels"])


def main_number(every: Sequence[Row]) -> str:
    """Returns the number of labels per class that orders the encoders: the middle one."""
    numbers = [*every[0].few_labels]
    return numbers[len(numbers) // 2]


def ahead(one: Row, other: Row, number: str) -> tuple[float, float]:
    """Returns the 95 % interval of how far an encoder is ahead of another, over the same draws of
    labels (Student's t), fractions.
    """
    differences = np.subtract(one.few_labels[number], other.few_labels[number])
    count = len(differences)
    half = stats.t.ppf(0.975, count - 1) * differences.std(ddof=1) / count**0.5
    return differences.mean() - half, differences.mean() + half


def text(every: Sequence[Row], minutes: float, diverged: Sequence[str] = ()) -> str:
    """Returns the table and what it says, in Markdown.

    Args:
      every: the encoders, the best first.
      minutes: of each training.
      diverged: names of trainings that diverged.
    """
    number = main_number(every)
    best = every[0]
    lines = []
    for row in every:
        cells = [row.name, row.trial or "-", f"{100 * row.neighbours:.1f}"]
        cells += [f"{100 * row.accuracy(each):.1f}" for each in row.few_labels]
        if row is best:
            cells.append("-")
        else:
            low, high = (100 * value for value in ahead(best, row, number))
            cells.append(f"{low:.1f} to {high:.1f}")
        lines.append(cells)
    columns = ["encoder", "trial", "neighbours"]
    columns += [f"{each} labels per class" for each in best.few_labels]
    columns.append("the best is ahead by, points")
    alike = [row.name for row in every[1:] if ahead(best, row, number)[0] <= 0]
    verdict = f"With {number} labels per class {best.name} is best"
    if alike:
        verdict += f"; {listed(alike)} cannot be told apart from it"
    if diverged:
        verdict += f". Diverged, and not in the table: {'; '.join(diverged)}"
    return (
        f"{markdown_table(columns, lines)}\n\n{verdict}.\n\nMean of the classes on images that"
        f" were not learned from, %. Each trial took {minutes:g} minutes. The interval (95 %)"
        " is over draws of labels, with one training run each; another --seed in another"
        " --workdir shows how far training runs differ.\n"
    )


def picture(every: Sequence[Row]) -> bytes:
    """Returns a PNG: a bar for each encoder to the mean of the draws, a line from worst to best."""
    number = main_number(every)
    ranked = []
    for row in every:
        color = OTHER if row.trial else REFERENCE
        if row.name == title("cpc"):
            color = CPC
        values = [100 * value for value in row.few_labels[number]]
        ranked.append(Ranked(row.name, values, color))
    return ranking({f"{number} labels per class": ranked}, "mean of the classes right, %")
