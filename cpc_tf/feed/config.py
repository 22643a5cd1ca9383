"""An input server: reads and augments the pictures of a training on another machine, or beside a TPU's host.

    cpc-tf feed                                   # for a training of this machine
    CPC_TF_FEED_SECRET=feed.secret cpc-tf feed --address=10.0.0.5

A training uses the input servers that the environment variable CPC_TF_FEED names, e.g.
CPC_TF_FEED=10.0.0.5:8480,10.0.0.6:8480, one for each host with input in their order, or CPC_TF_FEED=:8480 for one
beside each host. The pictures are the same to the bit. It reads what --dataset names at the same paths as the training
would, and serves one training at a time. Anyone who uses it can read and write files as its user: for other machines it
needs a secret, in a file that CPC_TF_FEED_SECRET names on both machines. docs/speed.md tells more.
"""

from __future__ import annotations

import dataclasses

from cpc_tf.core.settings import Settings, setting


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
