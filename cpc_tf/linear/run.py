"""Trains a linear classifier on a frozen encoder, the paper's protocol (appendix B), beside two baselines."""

from __future__ import annotations

import math
import os

import numpy as np
import tensorflow as tf

from cpc_tf.data import catalog, pipeline
from cpc_tf.data.config import GeometryConfig
from cpc_tf.data.source import Source
from cpc_tf.encoders.card import EncoderCard
from cpc_tf.encoders.identity import PIXELS
from cpc_tf.encoders.load import load_patch_encoder
from cpc_tf.encoders.loaded import GridEncoder
from cpc_tf.encoders.name import COPY, EncoderName
from cpc_tf.evaluation.features import Features, encode_dataset, feature_batches
from cpc_tf.linear import picture
from cpc_tf.linear.config import LinearConfig
from cpc_tf.linear.trainee import LinearTraining
from cpc_tf.settings import ConfigError, replace
from cpc_tf.training import loop
from cpc_tf.training.strategy import is_chief, strategy_of
from cpc_tf.training.workdir import Workdir

GALLERY, QUERIES = 1000, 200


def linear(config: LinearConfig) -> dict:
    """Trains and tests one classifier; returns its result, which is also in result.json.

    Raises:
      ConfigError, loop.Stopped, loop.Diverged.
    """
    workdir, training = Workdir(config), config.training
    strategy = strategy_of(training)
    source, test_source = _labelled(config, "split"), _labelled(config, "test_split")
    geometry = _geometry(config)
    with strategy.scope():
        encoder = load_patch_encoder(config.probe.encoder, training.seed)
    encode = encoder.patch_latents
    patch, grid = geometry.patch_size, geometry.grid
    latent_shape = encode(tf.zeros([1, grid, grid, patch, patch, 3], tf.uint8)).shape[1:]
    classes, rate = len(source.class_names), config.probe.learning_rate
    trainee = LinearTraining(encode, latent_shape, classes, rate, training.seed, strategy, training.batch_size)
    train_steps = training.steps(source.num_examples)
    record = loop.train(trainee, _dataset_maker(config, source, geometry, encode), training, train_steps, workdir)
    result = {
        "kind": "linear",
        "encoder": config.probe.encoder,
        "identity": encoder.identity.to_json(),
        "dataset": config.data.dataset,
        "num_classes": len(source.class_names),
        "num_train_labels": source.num_examples,
        "label_fraction": 1.0,
        "seed": training.seed,
        **trainee.test(pipeline.plain_patches(test_source, geometry, training.batch_size)),
        "steps": record["step"],
        "wall_seconds": record["wall_seconds"],
    }
    if is_chief(strategy):
        workdir.finish(result)
    return result


def _labelled(config: LinearConfig, flag: str) -> Source:
    return catalog.open_labelled(config.data, config.data.split if flag == "split" else config.probe.test_split, flag)


def _geometry(config: LinearConfig) -> GeometryConfig:
    return config.geometry if config.probe.geometry_from == "flags" else _card(config).geometry


def _card(config: LinearConfig) -> EncoderCard:
    return EncoderName.parse(config.probe.encoder).card("it needs --geometry_from=flags and --nobaselines")


def _dataset_maker(config: LinearConfig, source: Source, geometry: GeometryConfig, encode: GridEncoder):
    """(step, input context) -> batches of augmented patches, or of the latents of some augmented views encoded now."""
    training, views = config.training, config.probe.cached_views

    def augmented(step: int, per_batch: int, shard: tuple[int, int]) -> tf.data.Dataset:
        return pipeline.patches(
            source,
            geometry,
            config.augment,
            global_batch=training.batch_size,
            per_batch=per_batch,
            seed=training.seed,
            start_step=step,
            shard=shard,
        )

    def each_step(step: int, context: tf.distribute.InputContext) -> tf.data.Dataset:
        per_batch = context.get_per_replica_batch_size(training.batch_size)
        return augmented(step, per_batch, (context.input_pipeline_id, context.num_input_pipelines))

    def cached(step: int, context: tf.distribute.InputContext) -> tf.data.Dataset:
        if context.num_replicas_in_sync > 1:
            raise ConfigError(f"--cached_views={views}: works on one device; add --strategy=single or --cached_views=0")
        batches = augmented(0, training.batch_size, (0, 1))
        features = encode_dataset(batches, encode, views * source.num_examples, "encoding training images")
        return feature_batches(features, training.batch_size, training.seed, step)

    return cached if views else each_step


def with_baselines(config: LinearConfig) -> dict[str, dict]:
    """The results of 'encoder' and, if wanted and it is not a baseline itself, of 'random encoder' and 'pixels'."""
    names = {"encoder": config.probe.encoder}
    name = EncoderName.parse(config.probe.encoder)
    if config.probe.baselines and not name.is_new:
        _card(config)  # without one there is no untrained copy: better known now than after the training
        names.update({"random encoder": COPY + name.module, "pixels": PIXELS})
    results = {}
    for title, name in names.items():
        print(f"linear classifier on {title}", flush=True)
        changed = {} if title == "encoder" else {"encoder": name, "workdir": inside(config, title.split()[0])}
        if changed:
            changed |= {"baselines": False, "geometry_from": "flags", **vars(_geometry(config))}
        results[title] = linear(replace(config, **changed))
    return results


def inside(config: LinearConfig, name: str) -> str:
    return os.path.join(config.workdir, name)


def table(results: dict[str, dict]) -> str:
    """Accuracies as lines of text, chance at the end."""
    lines = [f"{'linear classifier on':24}{'top-1':>8}{'top-5':>8}"]
    lines += [f"{title:24}{100 * r['top1']:7.1f}%{100 * r['top5']:7.1f}%" for title, r in results.items()]
    classes = next(iter(results.values()))["num_classes"]
    lines.append(f"{'chance':24}{100 / classes:7.1f}%{100 * min(5, classes) / classes:7.1f}%")
    return "\n".join(lines)


def neighbours(config: LinearConfig, title: str) -> picture.Neighbours:
    """Test images and a gallery of training images, with their mean latents by the encoder or its untrained copy."""
    geometry = _geometry(config)
    name = config.probe.encoder
    name = COPY + EncoderName.parse(name).module if title == "random encoder" else name
    encode = load_patch_encoder(name, config.training.seed).patch_latents

    def part(flag: str, most: int) -> tuple[np.ndarray, Features]:
        source = _labelled(config, flag)
        every = max(1, source.num_examples // most)
        images = pipeline.plain_images(source, geometry, 256, every=every)
        patches = pipeline.plain_patches(source, geometry, 64, every=every)
        count = math.ceil(source.num_examples / every)
        return np.concatenate([b["image"] for b in images.as_numpy_iterator()]), encode_dataset(patches, encode, count)

    return picture.Neighbours(*part("test_split", QUERIES), *part("split", GALLERY))
