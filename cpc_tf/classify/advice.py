"""Says when the encoder, and not the number of labels, is the limit."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from cpc_tf.classify.logistic import Forecast
from cpc_tf.core.settings import joined_names
from cpc_tf.encoders.card import parted
from cpc_tf.evaluation import counts

# Part of the errors of always naming the largest class that must be left, at least, for features to
# separate the classes badly: with twice as many labels, and at the upper end of the interval. With
# the released encoder and 4 to 20 labels per class it was 0.09 to 0.32 on imagenette, where another
# encoder named 26 to 36 points more, and 0.28 to 0.67 on drawings, where it named 5 to 9 more; on
# blood cells, digits and textures, where it named at most 3 more, it was at most 0.15
# (docs/notebook/2026-11-28-strong.md).
LEFT = 0.15
ANOTHER = "keras:EfficientNetV2B0"  # that the advice names: small, and trained on photographs


def another_encoder(
    score: Mapping[str, Any], forecast: Forecast, labels: int, encoder: str
) -> list[str]:
    """Returns a line that names another encoder, where these features separate the classes badly;
    else none.

    Args:
      score: of single-label images by cross-validation, see `scores.score`.
      forecast: of twice as many labels.
      labels: how many there are.
      encoder: the value of --encoder.
    """
    if score["tested"] < counts.FEW:  # it changes too much from label to label
        return []
    by_chance = 1 - score["largest_class"]
    at_best = score["top1_high"] + forecast.gain
    if 1 - at_best <= LEFT * by_chance:
        return []
    doubling = "what more of them bring cannot be estimated"
    if forecast.tells:
        points = round(100 * forecast.gain)
        doubling = f"doubling them may bring about {points} point{'s' * (points != 1)}"
    line = (
        f"these features separate the classes badly: {100 * score['top1']:.0f} % right with"
        f" {labels:,} labels, and {doubling}; another encoder may help more"
    )
    names = parted(encoder)
    if ANOTHER in names:
        return [f"{line} (docs/encoders.md)"]
    several = joined_names([*names, ANOTHER])
    return [f"{line}: --encoder={shlex.quote(several)}"]
