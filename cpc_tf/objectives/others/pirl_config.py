"""Settings of --objective=pirl."""

from __future__ import annotations

import dataclasses

from cpc_tf.core.settings import count, fraction, rate, width
from cpc_tf.objectives.config import ObjectiveSettings


@dataclasses.dataclass(frozen=True)
class PIRLConfig(ObjectiveSettings):
    """An image and its jigsaw against a bank."""

    MODEL = "cpc_tf.objectives.others.pirl:PIRL"
    TITLE = "PIRL"
    PATCHES = False

    pirl_dim: int = width(
        128, "Dimension of the vectors of the bank", source="Misra & van der Maaten 2019"
    )
    pirl_temperature: float = rate(
        0.07, "Divisor of cosine similarities", source="Misra & van der Maaten 2019"
    )
    pirl_negatives: int = count(
        32_000,
        "Negatives: vectors of the bank that are drawn for each image",
        source="Misra & van der Maaten 2019",
    )
    pirl_momentum: float = fraction(
        0.5,
        "Weight of a vector in the bank when its image is seen again",
        source="Misra & van der Maaten 2019",
    )
    pirl_jigsaw: float = fraction(
        0.5,
        "Weight of the jigsaw's loss; the image's has the rest",
        source="Misra & van der Maaten 2019",
    )
