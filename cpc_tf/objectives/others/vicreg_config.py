"""Settings of --objective=vicreg."""

from __future__ import annotations

import dataclasses

from cpc_tf.core.settings import rate, width
from cpc_tf.objectives.config import ObjectiveSettings


@dataclasses.dataclass(frozen=True)
class VICRegConfig(ObjectiveSettings):
    """Variance, invariance, covariance."""

    MODEL = "cpc_tf.objectives.others.vicreg:VICReg"
    TITLE = "VICReg"
    PATCHES = False
    FEWEST = 2

    vicreg_dim: int = width(
        8192, "Units of each layer of VICReg's expander", source="Bardes et al. 2022"
    )
    vicreg_invariance: float = rate(
        25.0, "Weight of the distance of two views", source="Bardes et al. 2022"
    )
    vicreg_variance: float = rate(
        25.0, "Weight of the hinge on standard deviations", source="Bardes et al. 2022"
    )
    vicreg_covariance: float = rate(1.0, "Weight of the covariances", source="Bardes et al. 2022")
