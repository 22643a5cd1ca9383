"""The linear protocol (appendix B): a classifier on a frozen encoder, beside one on each of two baselines."""

from __future__ import annotations

import functools
import os
from typing import Any

from cpc_tf.data import catalog
from cpc_tf.encoders.card import PIXELS
from cpc_tf.encoders.load import COPY, EncoderName
from cpc_tf.files import write_file
from cpc_tf.linear import gallery, picture
from cpc_tf.linear.config import LinearConfig
from cpc_tf.linear.probe import card_of, geometry_of, probe, warn_of_geometry
from cpc_tf.settings import replace
from cpc_tf.training.strategy import is_chief

# Titles in the table and in the picture, beside PIXELS.
ENCODER, RANDOM = "encoder", "random encoder"


def linear(config: LinearConfig) -> dict[str, Any]:
    """Trains and tests the classifiers, prints their table; returns the encoder's result, which is in result.json.

    Of several workers one draws, writes and prints.

    Raises:
      ConfigError, loop.Stopped, loop.Diverged.
    """
    results, chief = {}, is_chief(config.training)

    @functools.cache
    def data() -> catalog.Pair:
        """Both splits, opened for the first classifier: the devices of several workers must be set up before."""
        pair = catalog.open_pair(config.data, config.probe.test_split)
        if chief:
            print(pair.summary, flush=True)
        return pair

    if chief:
        warn_of_geometry(config)
    for title, settings in classifiers(config).items():
        if chief:
            print(f"linear classifier on {title}", flush=True)
        results[title] = probe(settings, data)
    if not chief:
        return results[ENCODER]
    frozen = {title: settings for title, settings in classifiers(config).items() if title != PIXELS}
    shown = {title: gallery.neighbours(settings, data()) for title, settings in frozen.items()}
    write_file(os.path.join(config.workdir, "linear.png"), picture.draw(results, shown))
    write_file(os.path.join(config.workdir, "table.txt"), table(results) + "\n")
    print(f"\n{table(results)}\n\nresults and picture: {config.workdir}")
    return results[ENCODER]


def classifiers(config: LinearConfig) -> dict[str, LinearConfig]:
    """Title -> settings: the encoder's and, if wanted and it is not a baseline itself, the baselines' beside it."""
    found, name = {ENCODER: config}, EncoderName.parse(config.probe.encoder)
    if config.probe.baselines and not name.is_new:
        card_of(config)  # without one there is no untrained copy: better refused now than after the training
        for title, encoder, folder in ((RANDOM, COPY + name.module, "random"), (PIXELS, PIXELS, "pixels")):
            found[title] = replace(
                config,
                encoder=encoder,
                workdir=os.path.join(config.workdir, folder),
                baselines=False,
                geometry_from="flags",
                **vars(geometry_of(config)),
            )
    return found


def table(results: dict[str, dict]) -> str:
    """Accuracies as lines of text, chance at the end."""
    lines = [f"{'linear classifier on':24}{'top-1':>8}{'top-5':>8}"]
    lines += [f"{title:24}{100 * r['top1']:7.1f}%{100 * r['top5']:7.1f}%" for title, r in results.items()]
    classes = next(iter(results.values()))["num_classes"]
    lines.append(f"{'chance':24}{100 / classes:7.1f}%{100 * min(5, classes) / classes:7.1f}%")
    return "\n".join(lines)
