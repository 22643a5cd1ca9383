"""Settings of --objective=cmc."""

from __future__ import annotations

import dataclasses

from cpc_tf.core.settings import count, fraction, rate, width
from cpc_tf.objectives.config import ObjectiveSettings


@dataclasses.dataclass(frozen=True)
class CMCConfig(ObjectiveSettings):
    """Lightness and colours against banks of each other."""

    MODEL = "cpc_tf.objectives.others.cmc:CMC"
    TITLE = "CMC"
    PATCHES = False
    NEEDS = "lab"

    cmc_dim: int = width(128, "Dimension of the vectors of both banks", source="Tian et al. 2019")
    cmc_temperature: float = rate(0.07, "Divisor of cosine similarities", source="Tian et al. 2019")
    cmc_negatives: int = count(
        16_384,
        "Negatives: vectors of the other view's bank that are drawn for each image",
        source="Tian et al. 2019",
    )
    cmc_momentum: float = fraction(
        0.5,
        "Weight of a vector in the bank when its image is seen again",
        source="Tian et al. 2019",
    )
