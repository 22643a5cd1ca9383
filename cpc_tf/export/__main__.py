"""Exports what a run trained as a TF-Hub module: its encoder, its classifier with the encoder, or its detector.

    cpc-tf export --workdir=runs/photos/small/pretrain --output=runs/photos/small/hub
    cpc-tf export --workdir=runs/photos/small/efficient_0.1 --output=runs/photos/small/classifier
    cpc-tf export --workdir=runs/collages/small/detect --output=runs/collages/small/detector

The directory holds a TF2 SavedModel, its card (README.md) and encoder.json, classifier.json or detector.json. It
appears only once the module has been checked in a fresh process.
"""

from cpc_tf import cli
from cpc_tf.export.run import ExportConfig, main

if __name__ == "__main__":
    cli.run(ExportConfig, main)
