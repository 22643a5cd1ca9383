"""Reads and augments the pictures of trainings on other machines, or of a TPU's host that lacks our C++ operations.

    cpc-tf feed                                   # for trainings of this machine
    CPC_TF_FEED_SECRET=feed.secret cpc-tf feed --address=10.0.0.5

A training uses the feeds that the environment variable CPC_TF_FEED names, e.g. CPC_TF_FEED=10.0.0.5:8480,10.0.0.6:8480,
one for each host with input in their order, or CPC_TF_FEED=:8480 for a feed beside each host. The pictures are the same
to the bit. A feed reads what --dataset names at the same paths as the training would. Whoever uses it reads and writes
files as its user does: for other machines it needs a secret, in a file that CPC_TF_FEED_SECRET names, there and here.
docs/speed.md tells more.
"""

from __future__ import annotations

import dataclasses

from cpc_tf.feed.ports import PORTS
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
        f"Port that trainings connect to; the {PORTS} next ones are those of TensorFlow; 0: a free one",
        minimum=0,
        maximum=2**16 - 1 - PORTS,
    )
