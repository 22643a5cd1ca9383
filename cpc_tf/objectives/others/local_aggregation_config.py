"""Settings of --objective=local_aggregation."""

from __future__ import annotations

import dataclasses

from cpc_tf.core.settings import count, fraction, rate, width
from cpc_tf.objectives.config import ObjectiveSettings


@dataclasses.dataclass(frozen=True)
class LocalAggregationConfig(ObjectiveSettings):
    """Close neighbours of a bank among its background neighbours."""

    MODEL = "cpc_tf.objectives.others.local_aggregation:LocalAggregation"
    TITLE = "Local aggregation"
    PATCHES = False

    local_aggregation_dim: int = width(
        128, "Dimension of the vectors of the bank", source="Zhuang et al. 2019"
    )
    local_aggregation_temperature: float = rate(
        0.07, "Divisor of cosine similarities", source="Zhuang et al. 2019"
    )
    local_aggregation_momentum: float = fraction(
        0.5,
        "Weight of a vector in the bank when its image is seen again",
        source="Zhuang et al. 2019",
    )
    local_aggregation_background: int = count(
        4096, "Background neighbours: the nearest in the bank", source="Zhuang et al. 2019"
    )
    # The authors' values: 3 of an AlexNet, 10 of a ResNet-50.
    local_aggregation_clusterings: int = count(
        3, "Clusterings whose clusters are close neighbours", source="Zhuang et al. 2019, code"
    )
    local_aggregation_clusters: int = count(
        30_000, "Clusters of each clustering", source="Zhuang et al. 2019, code", minimum=2
    )
