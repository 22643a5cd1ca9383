"""An input server: reads and augments the pictures of a training on another machine, or beside a TPU's host.

    cpc-tf feed                                   # for a training of this machine
    CPC_TF_FEED_SECRET=feed.secret cpc-tf feed --address=10.0.0.5

A training uses the input servers that the environment variable CPC_TF_FEED names, e.g.
CPC_TF_FEED=10.0.0.5:8480,10.0.0.6:8480, one for each host with input in their order, or CPC_TF_FEED=:8480 for one
beside each host. The pictures are the same to the bit. It reads what --dataset names at the same paths as the training
would, and serves one training at a time. Whoever uses it reads and writes files as its user does: for other machines it
needs a secret, in a file that CPC_TF_FEED_SECRET names, there and here. docs/speed.md tells more.
"""

from cpc_tf import cli
from cpc_tf.feed.config import FeedConfig


def main(config: FeedConfig) -> None:
    """The binary."""
    from cpc_tf.feed.serve import serve  # TensorFlow, which neither a help nor a refusal needs

    serve(config)


if __name__ == "__main__":
    cli.run(FeedConfig, main)
