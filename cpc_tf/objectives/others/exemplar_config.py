"""Settings of --objective=exemplar."""

from __future__ import annotations

import dataclasses

from cpc_tf.core.settings import rate, width
from cpc_tf.objectives.config import ObjectiveSettings


@dataclasses.dataclass(frozen=True)
class ExemplarConfig(ObjectiveSettings):
    """Exemplar, in its triplet form."""

    MODEL = "cpc_tf.objectives.others.exemplar:Exemplar"
    TITLE = "Exemplar"
    PATCHES = False
    FEWEST = 2
    NEGATIVES = True

    exemplar_dim: int = width(
        4096, "Dimension of what is compared", source="Doersch & Zisserman 2017"
    )
    exemplar_margin: float = rate(
        0.5,
        "By how much another image is to be farther than the other view",
        source="Doersch & Zisserman 2017",
    )
