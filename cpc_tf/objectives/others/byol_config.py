"""Settings of --objective=byol."""

from __future__ import annotations

import dataclasses

from cpc_tf.core.settings import fraction, width
from cpc_tf.objectives.config import ObjectiveSettings


@dataclasses.dataclass(frozen=True)
class BYOLConfig(ObjectiveSettings):
    """Bootstrap your own latent."""

    MODEL = "cpc_tf.objectives.others.byol:BYOL"
    TITLE = "BYOL"
    PATCHES = False
    FEWEST = 2

    byol_hidden: int = width(
        4096, "Units of the hidden layers of BYOL's heads", source="Grill et al. 2020"
    )
    byol_dim: int = width(256, "Dimension of BYOL's projections", source="Grill et al. 2020")
    byol_momentum: float = fraction(
        0.996,
        "Momentum of the target network at the start; it rises to 1",
        source="Grill et al. 2020",
    )
