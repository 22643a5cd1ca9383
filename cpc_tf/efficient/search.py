"""Random search over the settings of appendix C.1, and the choice among what was tried."""

from __future__ import annotations

from typing import Any

import numpy as np

from cpc_tf.efficient.config import EfficientConfig


def trials(config: EfficientConfig) -> list[dict[str, Any]]:
    """The settings to try in the first phase: {flag: value}, those given first, then random ones.

    Learning rate and batch size are drawn from their lists, weight decay uniformly on the log scale, dropout uniformly.
    A function of the seed: trial n is the same whatever the number of trials.
    """
    search, given = config.search, {
        "learning_rate": config.sgd.learning_rate,
        "weight_decay": config.sgd.weight_decay,
        "dropout": config.classifier.dropout,
        "batch_size": config.training.batch_size,
    }  # fmt: skip
    tried = [given]
    for number in range(1, search.search_trials):
        random = np.random.default_rng([config.training.seed, number])
        decay = np.exp(random.uniform(*np.log(search.numbers("search_decays"))))
        tried.append(
            {
                "learning_rate": float(random.choice(search.numbers("search_rates") or [given["learning_rate"]])),
                "weight_decay": float(f"{decay:.3g}"),
                "dropout": min(0.99, round(random.uniform(*search.numbers("search_dropouts")), 3)),
                "batch_size": int(random.choice(search.numbers("search_batches") or [given["batch_size"]])),
            }
        )
    return tried


def best(records: list[dict[str, Any]]) -> int:
    """The place of the record with the highest 'held_out_top1'; among equals, of the lowest 'held_out_loss'."""
    return min(range(len(records)), key=lambda i: (-records[i]["held_out_top1"], records[i]["held_out_loss"]))
