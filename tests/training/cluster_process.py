"""A process of a cluster of two, for cluster_test.py: what it plays ('lone' or 'pair'), its number, all addresses."""

import os
import sys

from cpc_tf.core.settings import ConfigError
from cpc_tf.training import cluster


def lone(addresses, index):
    """Waits for TensorFlow to connect another process that never does."""
    cluster._SET_UP = 2
    cluster.connect()


def pair(addresses, index):
    """The second ends without a word once both have compared what they know; the first says who is lost."""
    strategy = cluster.connect()
    members = [
        cluster.Member("worker", number, address) for number, address in enumerate(addresses)
    ]
    print(cluster.replica_names(strategy), cluster.gathered(strategy, [[index + 5, -1]]).tolist())
    cluster.agree(strategy, lambda: {"--seed": 1})
    try:
        cluster.agree(strategy, lambda: {"--seed": 1, "--split": f"{index} images"})
    except ConfigError as error:
        print(error, flush=True)
    if index:
        os._exit(9)
    try:
        with cluster.together("multiworker", members, index):
            while True:
                cluster.total(strategy, 1)
    except cluster.LostWorker as error:
        print(error, flush=True)
        os._exit(6)


if __name__ == "__main__":
    played, number, *others = sys.argv[1:]
    {"lone": lone, "pair": pair}[played](others, int(number))
