"""Settings of --objective=colorization."""

from __future__ import annotations

import dataclasses

from cpc_tf.core.settings import fraction
from cpc_tf.objectives.config import ObjectiveSettings


@dataclasses.dataclass(frozen=True)
class ColorizationConfig(ObjectiveSettings):
    """The colours of each place of a grey image."""

    MODEL = "cpc_tf.objectives.others.colorization:Colorization"
    TITLE = "Colorization"
    PATCHES = False
    NEEDS = "grey"

    colorization_uniform: float = fraction(
        0.5,
        "Part of the uniform distribution in the frequencies of colours by which rare ones count"
        " more",
        source="Zhang et al. 2016",
    )
