"""Settings of --objective=relative_position."""

from __future__ import annotations

import dataclasses

from cpc_tf.core.settings import ConfigError
from cpc_tf.data.config import GeometryConfig
from cpc_tf.objectives.config import ObjectiveSettings


@dataclasses.dataclass(frozen=True)
class RelativePositionConfig(ObjectiveSettings):
    """Relative position has no settings."""

    MODEL = "cpc_tf.objectives.others.relative_position:RelativePosition"
    TITLE = "Relative position"

    def check_images(self, geometry: GeometryConfig) -> None:
        super().check_images(geometry)
        if geometry.grid < 3:
            raise ConfigError(
                "patch_stride",
                geometry.patch_stride,
                f"the grid has only {geometry.grid} rows, and a patch with "
                "eight neighbours needs 3; use a smaller --patch_stride or --patch_size",
            )
