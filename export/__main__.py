"""Exports what a run trained as a TF-Hub module: `python -m export` is `python -m cpc_tf.export`."""

from cpc_tf import cli
from cpc_tf.export.run import ExportConfig, main

if __name__ == "__main__":
    cli.run(ExportConfig, main)
