"""Trains on a Cloud TPU and brings the result, by a shell script of `gcloud` that it fills and runs.

    cpc-tf launch --zone=europe-west4-a --accelerator_type=v3-8 --spot -- pretrain \\
      --preset=imagenet/pretrain_resnet50 --data_dir=gs://my-bucket/data --workdir=gs://my-bucket/runs/in/r50/pretrain

What follows `--` is a command of cpc-tf. --dry_run prints the script, --script=FILE writes it, and --format=skypilot
makes a task of SkyPilot in its place. The exit status is that of the training, or 7 if the TPU could not be deleted.
The same command goes on with a TPU and a run that are there; docs/tpu.md tells more.
"""

import sys

from cpc_tf import cli
from cpc_tf.launch.config import LaunchConfig


def main(config: LaunchConfig, words: list[str]) -> None:
    """The binary. `words` are those after the `--`."""
    from cpc_tf.launch.script import launch  # the settings of trainings, which import TensorFlow
    from cpc_tf.launch.training import read

    launch(config, read(config, words))


if __name__ == "__main__":
    place = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    after = sys.argv[place + 1 :]
    del sys.argv[place:]  # absl would take them for its own
    cli.run(LaunchConfig, lambda config: main(config, after))
