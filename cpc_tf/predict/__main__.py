"""Predicts pictures with a classifier or a detector of `cpc-tf export`.

    cpc-tf predict --model=runs/photos/small/classifier --pictures=my_pictures --output=predictions.csv
    cpc-tf predict --model=runs/bccd/imagenette_128px/detector --pictures=my_pictures \\
      --output=boxes.json --drawn=drawn
    find my_pictures -name '*.jpg' | cpc-tf predict --model=runs/photos/small/classifier --pictures=- \\
      --output=-

A picture that cannot be read is a row with its reason. Interrupted, the same command goes on where it was.
"""

import functools
import os
import sys

from cpc_tf import cli
from cpc_tf.predict.config import STDOUT, PredictConfig
from cpc_tf.settings import ConfigError
from cpc_tf.texts import PICTURES


def main(config: PredictConfig) -> None:
    """The binary."""
    if not config.model:
        raise ConfigError(
            "--model= is empty: name an exported classifier or detector, e.g. --model=runs/first/classifier"
        )
    if not config.pictures:
        raise ConfigError(f"--pictures= is empty: name {PICTURES}")
    if not (config.output or config.sheet or config.drawn):
        raise ConfigError("--output= is empty: name a file, or - for standard output; or draw, with --sheet or --drawn")
    from cpc_tf.predict.run import predict  # TensorFlow, which neither a help nor a refusal needs

    try:
        records = predict(config, functools.partial(print, file=sys.stderr, flush=True))
    except BrokenPipeError:  # as in `... --output=- | head`; nothing is left to be written at the exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return
    if config.output != STDOUT:
        print(f"done: {config.output or len(records)}")


if __name__ == "__main__":
    cli.run(PredictConfig, main)
