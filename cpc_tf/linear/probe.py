"""One linear classifier on one frozen encoder: trained and tested."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from absl import logging

from cpc_tf.data import catalog
from cpc_tf.data.config import GeometryConfig
from cpc_tf.data.pipeline import pipeline
from cpc_tf.data.pipeline.fetch import fetching
from cpc_tf.data.sources.source import Source
from cpc_tf.data.views.views import PatchGrid
from cpc_tf.encoders.card import EncoderCard
from cpc_tf.encoders.load import EncoderName, load_patch_encoder
from cpc_tf.evaluation.features import Features, cached_batches, encode_dataset
from cpc_tf.linear.config import LinearConfig, ProbeGeometryConfig
from cpc_tf.linear.trainee import LinearTraining
from cpc_tf.training import loop
from cpc_tf.training.strategy import replica_batches
from cpc_tf.training.workdir import Workdir, open_run


def probe(config: LinearConfig, data: Callable[[], catalog.Pair]) -> dict[str, Any]:
    """Trains and tests a classifier on `data()`; returns its result, which is also in result.json.

    Raises:
      ConfigError, loop.Stopped, loop.Diverged.
    """
    with open_run(config, "linear") as (workdir, strategy):
        return _run(config, *data()[:2], workdir, strategy)


def _run(
    config: LinearConfig, source: Source, test_source: Source, workdir: Workdir, strategy: tf.distribute.Strategy
) -> dict[str, Any]:
    training, geometry, views = config.training, geometry_of(config), config.probe.cached_views
    workdir.keep_levels(source.levels)
    with strategy.scope():
        encoder = load_patch_encoder(config.probe.encoder, training.seed, geometry.patch_size)
    encode = encoder.patch_latents
    patch, grid = geometry.patch_size, geometry.grid
    latent_shape = encode(tf.zeros([1, grid, grid, patch, patch, 3], tf.uint8)).shape[1:]
    trainee = LinearTraining(config, encode, latent_shape, len(source.class_names), strategy)
    augmented = functools.partial(pipeline.batches, source, PatchGrid(), geometry, config.augment)
    if views:

        def encode_views() -> Features:
            batches = augmented(global_batch=training.batch_size, seed=training.seed)
            return encode_dataset(batches, encode, views * source.num_examples, "encoding training images")

        batches = cached_batches(encode_views, views, training)
    else:
        batches = replica_batches(training, augmented)
    with fetching(source, test_source):
        outcome = loop.train(trainee, batches, training, training.steps(source.num_examples), workdir)
        scores = trainee.test(pipeline.plain_patches(test_source, geometry, training.batch_size))
    loop.refuse_divergence(scores, config)
    return workdir.finish(
        {
            "encoder": config.probe.encoder,
            "identity": encoder.identity.to_json(),
            "dataset": config.data.dataset,
            "num_classes": len(source.class_names),
            "num_train_labels": source.num_examples,
            "label_fraction": 1.0,
            "levels": source.levels,
            "seed": training.seed,
            **scores,
            "steps": outcome.step,
            "wall_seconds": outcome.seconds,
        }
    )


def geometry_of(config: LinearConfig) -> GeometryConfig:
    """How images are cut into patches: as the flags say, or as the module's encoder.json and --nomirror do."""
    given = config.geometry
    if config.probe.geometry_from == "flags":
        return GeometryConfig(**vars(given))
    geometry = card_of(config).geometry
    return dataclasses.replace(geometry, mirror=geometry.mirror and given.mirror)


def warn_of_geometry(config: LinearConfig) -> None:
    """One line for each flag of the geometry that encoder.json contradicts."""
    if config.probe.geometry_from == "flags":
        return
    geometry = card_of(config).geometry
    if geometry.mirror and not config.geometry.mirror:
        logging.warning("--nomirror: training images are not mirrored, though those of the encoder's pre-training were")
    elif config.geometry.mirror and not geometry.mirror:
        logging.warning(
            "training images are not mirrored, since those of the encoder's pre-training were not; "
            "--geometry_from=flags takes --mirror, and the rest, from the flags"
        )
    for field in dataclasses.fields(ProbeGeometryConfig):
        given, there = getattr(config.geometry, field.name), getattr(geometry, field.name)
        if field.name != "mirror" and given not in (field.default, there):
            logging.warning(
                "--%s=%s: not used, since --geometry_from=encoder takes %s from the module's encoder.json; "
                "--geometry_from=flags uses the flags",
                field.name,
                given,
                there,
            )


def card_of(config: LinearConfig) -> EncoderCard:
    """The encoder.json of the module. Raises ConfigError if it has none."""
    return EncoderName.parse(config.probe.encoder).card("it needs --geometry_from=flags and --nobaselines")
