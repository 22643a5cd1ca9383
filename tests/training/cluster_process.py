"""A process of a cluster of two, for cluster_test.py: its number."""

import os
import sys

from cpc_tf.core.settings import ConfigError
from cpc_tf.training import cluster


def pair(index):
    """The second ends without a word once both have compared what they know; the first says who is
    lost.
    """
    strategy = cluster.connect()
    print(cluster.replica_names(strategy), cluster.gathered(strategy, [[index + 5, -1]]).tolist())
    cluster.agree(strategy, lambda: {"--seed": 1})
    try:
        cluster.agree(strategy, lambda: {"--seed": 1, "--split": f"{index} images"})
    except ConfigError as error:
        print(error, flush=True)
    if index:
        os._exit(9)
    try:
        with cluster.lost_workers_explained("multiworker"):
            while True:
                cluster.barrier(strategy)
    except cluster.LostWorker as error:
        print(error, flush=True)
        os._exit(6)


if __name__ == "__main__":
    pair(int(sys.argv[1]))
