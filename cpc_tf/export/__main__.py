"""Exports what a run trained as a TF-Hub module: its encoder, its classifier with the encoder, or its detector.

    python -m cpc_tf.export --workdir=runs/photos/pretrain --output=runs/photos/hub
    python -m cpc_tf.export --workdir=runs/photos/efficient/cpc_0.1 --output=runs/photos/classifier
    python -m cpc_tf.export --workdir=runs/collages/detect/cpc --output=runs/collages/detector

The directory holds a TF2 SavedModel, its card (README.md) and encoder.json, classifier.json or detector.json. It
appears only once the module has been checked in a fresh process.
"""

from cpc_tf import cli
from cpc_tf.export.run import ExportConfig, main

if __name__ == "__main__":
    cli.run(ExportConfig, main)
