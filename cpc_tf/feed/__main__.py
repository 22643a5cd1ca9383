"""Reads and augments the pictures of trainings on other machines, or of a TPU's host that lacks our C++ operations.

    cpc-tf feed --port=8480

A training uses the feeds that the environment variable CPC_TF_FEED names, e.g. CPC_TF_FEED=10.0.0.5:8480,10.0.0.6:8480,
one for each host with input in their order, or CPC_TF_FEED=:8480 for a feed beside each host. The pictures are the same
to the bit. A feed reads what --dataset names at the same paths as the training would. It serves whoever reaches its
port, like every server of TensorFlow's: open it in a network of your own only.
"""

from cpc_tf import cli
from cpc_tf.feed.config import FeedConfig


def main(config: FeedConfig) -> None:
    """The binary."""
    from cpc_tf.feed.serve import serve  # TensorFlow, which neither a help nor a refusal needs

    serve(config)


if __name__ == "__main__":
    cli.run(FeedConfig, main)
