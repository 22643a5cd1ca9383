"""A training whose input runs on a TensorFlow server that lacks our operations, as on a TPU pod; says what came.

CPC_TF_FEED=localhost:PORT python -m tests.feed.apart ADDRESS_OF_SERVER DATA_DIR
python -m tests.feed.apart ADDRESS_OF_SERVER    is such a server
"""

import functools
import json
import sys

import tensorflow as tf

from cpc_tf.core import cli
from cpc_tf.data import catalog, pipeline
from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.training.strategy import replica_batches
from tests import samples

START, BATCHES = 3, 20  # more than what is read ahead, and several epochs


def serve(address):
    """A server of TensorFlow's operations, among which ours are not: nothing here has loaded them."""
    tf.distribute.Server({"worker": [address]}, "worker", 0).join()


def train(address, folder):
    """Prints what the server did without the feed, where the batches of the feed are, and whether they are the same."""
    tf.config.experimental.enable_op_determinism()
    tf.config.experimental_connect_to_cluster(tf.train.ClusterSpec({"worker": [address]}))
    config = cli.parse(
        PretrainConfig,
        [*samples.PRETRAIN_SMALLEST, f"--data_dir={folder}", "--augment_engine=native"],
    )
    source = catalog.open_source(config.data, config.data.split)
    make = functools.partial(
        pipeline.batches, source, config.objective.kind.VIEW, config.geometry, config.augment
    )
    batches = {remote: replica_batches(config.training, make, remote) for remote in (False, True)}
    context = tf.distribute.InputContext(num_input_pipelines=1, num_replicas_in_sync=1)
    with tf.device("/job:worker/task:0"):
        try:
            next(iter(batches[False](START, context)))
            alone = "works"
        except tf.errors.OpError as error:
            alone = error.message
        there = iter(batches[True](START, context))
    here = iter(batches[False](START, context))
    pairs = [(next(here), next(there)) for _ in range(BATCHES)]
    device = pairs[0][1]["patches"].backing_device
    same = [all((a[key].numpy() == b[key].numpy()).all() for key in a) for a, b in pairs]
    print(json.dumps({"alone": alone, "device": device, "same": same}), flush=True)


if __name__ == "__main__":
    (serve if len(sys.argv) == 2 else train)(*sys.argv[1:])
