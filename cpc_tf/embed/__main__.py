"""Turns pictures into features with an encoder, and shows what features tell of pictures without labels.

    cpc-tf embed --encoder=runs/photos/small/hub --pictures=my_pictures --output=features.npz --map=map.png
    cpc-tf embed --encoder=runs/photos/small/hub --pictures=my_pictures --to_label=60 --duplicates=repeats.csv
    cpc-tf embed --encoder=runs/photos/small/hub --pictures=my_pictures --neighbours=one.jpg

Features: mean latents of the patch grid for a module of `cpc-tf export`; the output for the whole picture for
another TF-Hub module. A broken picture is named and left out.
"""

import functools
import sys

from cpc_tf import cli
from cpc_tf.embed.config import EmbedConfig
from cpc_tf.settings import ConfigError
from cpc_tf.texts import PICTURES


def main(config: EmbedConfig) -> None:
    """The binary."""
    if not config.encoder:
        raise ConfigError("--encoder= is empty: name a TF-Hub module, e.g. --encoder=runs/photos/small/hub")
    if not config.pictures:
        raise ConfigError(f"--pictures= is empty: name {PICTURES}")
    if not any((config.output, config.map, config.neighbours, config.duplicates, config.to_label)):
        raise ConfigError("--output= is empty: name a file, or ask for --map, --neighbours, --duplicates or --to_label")
    from cpc_tf.embed.run import embed  # TensorFlow, which neither a help nor a refusal needs

    done = embed(config, functools.partial(print, file=sys.stderr, flush=True))
    print(f"done: {len(done.names)} pictures")


if __name__ == "__main__":
    cli.run(EmbedConfig, main)
