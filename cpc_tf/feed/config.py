"""Settings of a feed."""

from __future__ import annotations

import dataclasses

from cpc_tf.settings import Settings, setting


@dataclasses.dataclass(frozen=True)
class FeedConfig(Settings):
    """The settings of `cpc-tf feed`."""

    port: int = setting(8480, "Port that trainings connect to; 0: a free one", minimum=0, maximum=2**16 - 1)
