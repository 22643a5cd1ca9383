"""Settings of --objective=moco."""

from __future__ import annotations

import dataclasses

from cpc_tf.core.settings import count, fraction, rate, width
from cpc_tf.objectives.config import ObjectiveSettings


@dataclasses.dataclass(frozen=True)
class MoCoConfig(ObjectiveSettings):
    """Momentum contrast, first version."""

    MODEL = "cpc_tf.objectives.others.moco:MoCo"
    TITLE = "MoCo"
    PATCHES = False

    moco_dim: int = width(128, "Dimension of queries and keys", source="He et al. 2019")
    moco_temperature: float = rate(
        0.07, "Divisor of the similarities of queries and keys", source="He et al. 2019"
    )
    moco_momentum: float = fraction(
        0.999, "Momentum of the encoder of the keys", source="He et al. 2019"
    )
    moco_queue_length: int = count(
        65_536, "Keys of earlier batches that are negatives", source="He et al. 2019"
    )
