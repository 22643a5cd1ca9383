"""Classifies with few labels, the paper's protocol (appendix C): on an encoder, frozen and fine-tuned, or on pixels.

    cpc-tf efficient --preset=photos/efficient --encoder=runs/photos/small/hub \\
      --label_fraction=0.01 --workdir=runs/photos/small/efficient_0.01

Settings are selected on a part of the chosen labels, then a classifier with the best of them is trained on all chosen
labels and tested once. Leaves in its workdir result.json, predictions.csv, labels.json (the chosen examples) and the
runs of its phases.
"""

from cpc_tf import cli
from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.efficient.run import efficient

if __name__ == "__main__":
    cli.run(EfficientConfig, efficient)
