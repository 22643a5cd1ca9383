"""Trains a linear classifier on a frozen encoder (the paper's appendix B), beside two baselines.

    cpc-tf linear --preset=photos/linear --encoder=runs/photos/small/hub \\
      --workdir=runs/photos/small/linear

Leaves in its workdir result.json, table.txt and linear.png, and the baselines' runs in random/ and pixels/.
"""

from cpc_tf import cli
from cpc_tf.linear.config import LinearConfig
from cpc_tf.linear.run import linear

if __name__ == "__main__":
    cli.run(LinearConfig, linear)
