"""What the card says of an encoder that learned without labels."""

from __future__ import annotations

from typing import Any

from cpc_tf.objectives.base import Figure
from cpc_tf.pretrain.config import PretrainConfig
from export.card import History, measured_at, table

SUMMARY = """\
It learned from pictures without labels,
by {}, as implemented by cpc_tf."""


def history(description: dict[str, Any], run: PretrainConfig, result: dict[str, Any]) -> History:
    """What the card says of the run.

    Args:
      description: the content of encoder.json.
      run: the run's settings.
      result: its result.json; empty if it has not ended.
    """
    dataset, step, objective = description["dataset"], description["step"], run.objective.kind
    return History(
        title=f"{objective.TITLE} encoder `{run.encoder.encoder}`, pre-trained on `{dataset}`",
        summary=SUMMARY.format(objective.SUMMARY),
        seen=f"In pre-training it saw {objective.VIEW.seen}.",
        rows=[
            ("pictures", f"`{dataset}`, split `{run.data.split}`, labels not used"),
            ("patch augmentation", f"`{run.augment.title}`"),
            (
                "run",
                f"`{description['run']}`, step {step} of batches of {run.training.batch_size}, "
                f"{description['weights']} weights",
            ),
        ],
        figures=_figures(objective.FIGURES, result, step),
        pictures=[dataset],
    )


def _figures(figures: dict[str, Figure], result: dict[str, Any], step: int) -> str:
    """A table of what the run measured."""
    known = [(text, form.format(result[key])) for key, (text, form) in figures.items() if key in result]
    if not known:
        return "The run had not ended when this was exported: there are no figures."
    return table(known, measured_at("at the end of the run", result.get("step"), step))
