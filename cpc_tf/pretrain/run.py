"""Pre-trains an encoder on unlabelled pictures."""

from __future__ import annotations

import functools
import math

import numpy as np
import tensorflow as tf

from cpc_tf.data import catalog
from cpc_tf.data.pipeline import pipeline
from cpc_tf.data.pipeline.fetch import fetching
from cpc_tf.data.sources import summary
from cpc_tf.data.sources.source import Source
from cpc_tf.encoders.card import Identity, module_name
from cpc_tf.evaluation.features import encode_dataset
from cpc_tf.evaluation.neighbours import nearest_neighbour_accuracy
from cpc_tf.pretrain import patch_sheet
from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.pretrain.diagnostics import Health
from cpc_tf.pretrain.trainee import Pretraining
from cpc_tf.training import loop
from cpc_tf.training.levels import keep
from cpc_tf.training.strategy import replica_batches, share_cores
from cpc_tf.training.workdir import Workdir, open_run

PROBE_IMAGES = 1000


def pretrain(config: PretrainConfig) -> dict:
    """Runs or resumes a pre-training run and returns its result (also in result.json).

    Raises:
      ConfigError, loop.Stopped, loop.Diverged.
    """
    share_cores(config.training, config.parts)
    with open_run(config, "pretrain") as (workdir, strategy):
        return _run(config, workdir, strategy)


def _run(config: PretrainConfig, workdir: Workdir, strategy: tf.distribute.Strategy) -> dict:
    source = catalog.open_source(config.data, config.data.split)
    split = config.monitor.probe_split
    probed = catalog.open_source(config.data, split, "probe_split") if config.monitor.probe_every and split else source
    keep(workdir, source.levels)
    if workdir.chief:
        print(_summary(config, source, probed), flush=True)
    train_steps = config.training.steps(source.num_examples)
    training = Pretraining(config, strategy, train_steps)
    print(f"{source.num_examples} images, {train_steps} steps of {config.training.batch_size}", flush=True)

    if workdir.chief:
        patch_sheet.leave(config, source)
    views = functools.partial(pipeline.batches, source, config.objective.kind.VIEW, config.geometry, config.augment)
    with fetching(source):
        outcome = loop.train(
            training,
            replica_batches(config.training, views),
            config.training,
            train_steps,
            workdir,
            watch=Health().look,
            evaluate=_make_probe(config, training, probed),
            evaluate_every=config.monitor.probe_every,
        )
    identity = Identity(
        trained_by=config.objective.objective,
        architecture=config.encoder.encoder,
        dataset=config.data.dataset,
        seed=config.training.seed,
        parameters=int(sum(np.prod(v.shape) for v in training.model.encoder.trainable_variables)),
        began_with=module_name(config.initial_encoder),
    )
    return workdir.finish(
        {
            "dataset": config.data.dataset,
            "encoder": config.encoder.encoder,
            "identity": identity.to_json(),
            "seed": config.training.seed,
            "images": source.num_examples,
            "levels": source.levels,
            "parameters": int(sum(np.prod(v.shape) for v in training.model.trainable_variables)),
            **outcome.last,
        }
    )


def _summary(config: PretrainConfig, source: Source, probed: Source) -> str:
    used = [catalog.used_of("split", config.data.split, source)]
    if probed is not source:
        used.append(catalog.used_of("probe_split", config.monitor.probe_split, probed))
    lines = []
    if config.monitor.probe_every and not probed.class_names:
        lines.append(f"--probe_every={config.monitor.probe_every}: no nearest-neighbour probe, which needs labels")
    return summary.summary(config.data.dataset, used, lines)


def _make_probe(config: PretrainConfig, training: Pretraining, source: Source):
    """A nearest-neighbour probe on averaged weights, or None where there are no labels or none is wanted."""
    if not config.monitor.probe_every or not source.class_names:
        return None
    strategy = training.strategy

    @tf.function
    def encode(patches: tf.Tensor) -> tf.Tensor:
        latents = strategy.run(training.model.encode, (patches,))
        latents = strategy.experimental_local_results(latents)[0]  # all replicas encode the same images
        return tf.reduce_mean(latents, [1, 2])  # [B, D]

    def probe() -> dict[str, float]:
        # Evenly spaced, since the order of a split may be by class.
        every = max(1, source.num_examples // PROBE_IMAGES)
        batches = pipeline.plain_patches(source, config.geometry, 64, every=every)
        with training.averaged(), fetching(source):
            features = encode_dataset(batches, encode, math.ceil(source.num_examples / every))
        return {"knn": nearest_neighbour_accuracy(*features)}

    return probe
