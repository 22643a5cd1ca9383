"""Settings of --objective=rotation."""

from __future__ import annotations

import dataclasses

from cpc_tf.objectives.config import ObjectiveSettings


@dataclasses.dataclass(frozen=True)
class RotationConfig(ObjectiveSettings):
    """Rotation has no settings."""

    MODEL = "cpc_tf.objectives.others.rotation:Rotation"
    TITLE = "Rotation"
    PATCHES = False
