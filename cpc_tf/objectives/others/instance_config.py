"""Settings of --objective=instance."""

from __future__ import annotations

import dataclasses

from cpc_tf.core.settings import rate, width
from cpc_tf.objectives.config import ObjectiveSettings


@dataclasses.dataclass(frozen=True)
class InstanceConfig(ObjectiveSettings):
    """The contrastive loss of Chen et al. 2020."""

    MODEL = "cpc_tf.objectives.others.instance:Instance"
    TITLE = "Instance discrimination"
    PATCHES = False
    FEWEST = 2
    NEGATIVES = True

    instance_temperature: float = rate(
        0.1, "Divisor of cosine similarities", source="Chen et al. 2020"
    )
    instance_dim: int = width(128, "Dimension of what is compared", source="Chen et al. 2020")
