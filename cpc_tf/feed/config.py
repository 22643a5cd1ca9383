"""Settings of an input server."""

from __future__ import annotations

import dataclasses

from cpc_tf.settings import Settings, setting


@dataclasses.dataclass(frozen=True)
class FeedConfig(Settings):
    """The settings of `cpc-tf feed`."""

    address: str = setting(
        "127.0.0.1",
        "Address of this machine that trainings connect to; one that others reach needs CPC_TF_FEED_SECRET",
    )
    port: int = setting(
        8480,
        "Port that trainings connect to; the two next ones are those of TensorFlow; 0: a free one",
        minimum=0,
        maximum=2**16 - 3,
    )
