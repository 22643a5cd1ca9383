"""Settings of --objective=deep_cluster."""

from __future__ import annotations

import dataclasses

from cpc_tf.core.settings import count, width
from cpc_tf.objectives.config import ObjectiveSettings


@dataclasses.dataclass(frozen=True)
class DeepClusterConfig(ObjectiveSettings):
    """Classes that k-means finds between epochs."""

    MODEL = "cpc_tf.objectives.others.deep_cluster:DeepCluster"
    TITLE = "DeepCluster"
    PATCHES = False

    deep_cluster_clusters: int = count(
        10_000, "Clusters of k-means", source="Caron et al. 2018", minimum=2
    )
    deep_cluster_dim: int = width(
        256, "Principal components that k-means sees", source="Caron et al. 2018"
    )
