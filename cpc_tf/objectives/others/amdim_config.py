"""Settings of --objective=amdim."""

from __future__ import annotations

import dataclasses

from cpc_tf.core.settings import LARGEST, rate, setting, width
from cpc_tf.objectives.config import ObjectiveSettings


@dataclasses.dataclass(frozen=True)
class AMDIMConfig(ObjectiveSettings):
    """Prediction across views and depths."""

    MODEL = "cpc_tf.objectives.others.amdim:AMDIM"
    TITLE = "AMDIM"
    PATCHES = False
    FEWEST = 2
    NEGATIVES = True

    # --n_rkhs in README.md of the authors' code, github.com/Philip-Bachman/amdim-public; larger
    # networks: 2048, 2560.
    amdim_dim: int = width(
        1536, "Dimension of what is compared, at each depth", source="Bachman et al. 2019, code"
    )
    amdim_clip: float = rate(
        20.0, "Soft limit of scores, before their softmax", source="Bachman et al. 2019"
    )
    amdim_penalty: float = setting(
        0.04, "Weight of squared scores", source="Bachman et al. 2019", minimum=0, maximum=LARGEST
    )
