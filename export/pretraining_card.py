"""What the card says of an encoder that learned without labels."""

from __future__ import annotations

from typing import Any

from cpc_tf.pretrain.config import PretrainConfig
from export.card import History, measured_at, table

# What stands in the result.json of a pre-training run and is worth repeating: how it is called, how it is written.
FIGURES = {
    "loss": ("InfoNCE loss, summed over directions and offsets (nats)", "{:.3f}"),
    "accuracy": ("contrastive accuracy", "{:.3f}"),
    "bound": ("InfoNCE bound on mutual information (nats)", "{:.3f}"),
    "effective_rank": ("effective rank of the latents", "{:.1f}"),
    "knn": ("nearest-neighbour accuracy of averaged weights", "{:.3f}"),
}

SUMMARY = """\
It learned from pictures without labels,
by Contrastive Predictive Coding (CPC v2, Hénaff et al., ICML 2020), as implemented by cpc_tf."""


def history(description: dict[str, Any], run: PretrainConfig, result: dict[str, Any]) -> History:
    """What the card says of the run.

    Args:
      description: the content of encoder.json.
      run: the run's settings.
      result: its result.json; empty if it has not ended.
    """
    dataset, step = description["dataset"], description["step"]
    return History(
        title=f"CPC v2 encoder `{run.encoder.encoder}`, pre-trained on `{dataset}`",
        summary=SUMMARY,
        seen="In pre-training it saw the patches of the grid, each on its own.",
        rows=[
            ("pictures", f"`{dataset}`, split `{run.data.split}`, labels not used"),
            ("patch augmentation", f"`{run.augment.title}`"),
            (
                "run",
                f"`{description['run']}`, step {step} of batches of {run.training.batch_size}, "
                f"{description['weights']} weights",
            ),
        ],
        figures=_figures(result, step),
        pictures=[dataset],
    )


def _figures(result: dict[str, Any], step: int) -> str:
    """A table of what the run measured."""
    known = [(text, form.format(result[key])) for key, (text, form) in FIGURES.items() if key in result]
    if not known:
        return "The run had not ended when this was exported: there are no figures."
    return table(known, measured_at("at the end of the run", result.get("step"), step))
