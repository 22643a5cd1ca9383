"""Trains a linear classifier on a frozen encoder, the paper's protocol (appendix B), beside two baselines.

    python -m cpc_tf.linear --flagfile=flags/photos/linear.flags --encoder=runs/photos/hub --workdir=runs/photos/linear

Leaves in its workdir result.json and linear.png, and the baselines' runs in random/ and pixels/.
"""

from __future__ import annotations

import functools
import math
import os

import numpy as np
import tensorflow as tf

from cpc_tf import cli
from cpc_tf.config import GeometryConfig, LinearConfig
from cpc_tf.data import catalog, pipeline
from cpc_tf.data.source import Source
from cpc_tf.evaluation import picture
from cpc_tf.evaluation.encoder import encode_grid, load_encoder, module_geometry, pixel_grid
from cpc_tf.evaluation.features import Features, encode_dataset, feature_batches
from cpc_tf.evaluation.linear import LinearTraining
from cpc_tf.settings import ConfigError
from cpc_tf.training import loop
from cpc_tf.training.strategy import make_strategy
from cpc_tf.training.workdir import Workdir, write_file


def linear(config: LinearConfig) -> tuple[dict, Features]:
    """Trains and tests one classifier; returns its result (also in result.json) and the encoded test images.

    Raises:
      ConfigError, loop.Stopped, loop.Diverged.
    """
    workdir = Workdir(config)
    training = config.training
    if training.deterministic:
        tf.config.experimental.enable_op_determinism()
    strategy = make_strategy(training.strategy, training.tpu)
    source, test_source = _labelled(config, config.data.split), _labelled(config, config.probe.test_split)
    geometry = _geometry(config)
    with strategy.scope():
        encode = _grid_encoder(config)
    name = config.probe.encoder
    compiled = tf.function(encode, autograph=False)
    test_batches = pipeline.plain_patches(test_source, geometry, training.batch_size)
    test_features = encode_dataset(test_batches, compiled, test_source.num_examples, f"encoding test images ({name})")
    trainee = LinearTraining(
        encode,
        test_features.latents.shape[1:],
        len(source.class_names),
        config.probe.learning_rate,
        training.seed,
        strategy,
    )
    train_steps = training.train_steps or math.ceil(training.train_epochs * source.num_examples / training.batch_size)
    make_dataset = _dataset_maker(config, source, geometry, compiled)
    record = loop.train(trainee, make_dataset, training, train_steps, workdir)
    result = {
        "kind": "linear",
        "encoder": name,
        "dataset": config.data.dataset,
        "num_classes": len(source.class_names),
        "num_train_labels": source.num_examples,
        "label_fraction": 1.0,
        "seed": training.seed,
        **trainee.test(test_features),
        "steps": record["step"],
        "wall_seconds": record["wall_seconds"],
    }
    workdir.finish(result)
    return result, test_features


def _labelled(config: LinearConfig, split: str) -> Source:
    source = catalog.open_source(config.data.dataset, config.data.data_dir, split, config.data.shuffle_window)
    if not source.class_names:
        raise ConfigError(
            f"--dataset={config.data.dataset}: split {split!r} has no labels; a classifier needs them, in a folder of "
            "pictures one subfolder per class"
        )
    return source


def _geometry(config: LinearConfig) -> GeometryConfig:
    return config.geometry if config.probe.geometry_from == "flags" else module_geometry(config.probe.encoder)


def _grid_encoder(config: LinearConfig):
    """Patches uint8 [B, R, C, P, P, 3] -> latents."""
    if config.probe.encoder == "pixels":
        return pixel_grid
    return functools.partial(encode_grid, load_encoder(config.probe.encoder, config.training.seed))


def _dataset_maker(config: LinearConfig, source: Source, geometry: GeometryConfig, encode):
    """(step, input context) -> batches of augmented patches, or of latents of some augmented views encoded now."""
    training, views = config.training, config.probe.cached_views

    def augmented(step: int, context: tf.distribute.InputContext | None) -> tf.data.Dataset:
        batch = training.batch_size
        return pipeline.patches(
            source,
            geometry,
            config.augment,
            global_batch=batch,
            per_batch=context.get_per_replica_batch_size(batch) if context else batch,
            seed=training.seed,
            start_step=step,
            shard=(context.input_pipeline_id, context.num_input_pipelines) if context else (0, 1),
        )

    if not views:
        return augmented

    @functools.lru_cache(maxsize=1)
    def cache() -> Features:
        count = views * source.num_examples
        return encode_dataset(augmented(0, None), encode, count, f"encoding training images ({config.probe.encoder})")

    def cached(step: int, context: tf.distribute.InputContext) -> tf.data.Dataset:
        if context.num_replicas_in_sync > 1:
            raise ConfigError(f"--cached_views={views}: works on one device; add --strategy=single or --cached_views=0")
        return feature_batches(cache(), training.batch_size, training.seed, step)

    return cached


def with_baselines(config: LinearConfig) -> dict[str, tuple[dict, Features]]:
    """{'CPC encoder': ..., 'random encoder': ..., 'pixels': ...}, each as `linear` gives it."""
    runs = {"encoder": linear(config)}
    if config.probe.baselines:
        geometry = module_geometry(config.probe.encoder)
        baseline = functools.partial(cli.replace, config, baselines=False, geometry_from="flags", **vars(geometry))
        for title, encoder in (("random encoder", f"random:{config.probe.encoder}"), ("pixels", "pixels")):
            workdir = os.path.join(config.workdir, title.split()[0])
            runs[title] = linear(baseline(encoder=encoder, workdir=workdir))
    return runs


def table(results: dict[str, dict]) -> str:
    """Accuracies as lines of text, chance at the end."""
    lines = [f"{'linear classifier on':24}{'top-1':>8}{'top-5':>8}"]
    lines += [f"{title:24}{100 * r['top1']:7.1f}%{100 * r['top5']:7.1f}%" for title, r in results.items()]
    classes = next(iter(results.values()))["num_classes"]
    lines.append(f"{'chance':24}{100 / classes:7.1f}%{100 * min(5, classes) / classes:7.1f}%")
    return "\n".join(lines)


def _draw(config: LinearConfig, runs: dict[str, tuple[dict, Features]]) -> None:
    source, geometry = _labelled(config, config.probe.test_split), _geometry(config)
    images = np.concatenate([b["image"] for b in pipeline.plain_images(source, geometry, 256).as_numpy_iterator()])
    latents = {title: features.latents for title, (_, features) in runs.items() if title != "pixels"}
    results = {title: result for title, (result, _) in runs.items()}
    write_file(
        os.path.join(config.workdir, "linear.png"), picture.draw(results, latents, images, runs["encoder"][1].labels)
    )


def main(config: LinearConfig) -> None:
    """The binary."""
    runs = with_baselines(config)
    results = {title: result for title, (result, _) in runs.items()}
    write_file(os.path.join(config.workdir, "table.txt"), table(results) + "\n")
    _draw(config, runs)
    print("\n" + table(results) + f"\n\nresults and picture: {config.workdir}")


if __name__ == "__main__":
    cli.run(LinearConfig, main)
