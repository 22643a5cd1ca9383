"""Pre-trains an encoder on unlabelled images."""

from __future__ import annotations

import functools
import math

import numpy as np
import tensorflow as tf
from absl import logging

from cpc_tf.core.progress import waiting_for
from cpc_tf.core.settings import ConfigError
from cpc_tf.data import catalog, pipeline
from cpc_tf.data.config import GeometryConfig
from cpc_tf.data.pipeline import fetching
from cpc_tf.data.source import Source
from cpc_tf.encoders.card import Identity, module_name
from cpc_tf.evaluation.inference import encode_dataset, on_replicas, own_images
from cpc_tf.evaluation.neighbours import nearest_neighbour_accuracy
from cpc_tf.pretrain import patch_sheet
from cpc_tf.pretrain.budget import with_steps
from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.pretrain.diagnostics import Health
from cpc_tf.pretrain.trainee import Pretraining
from cpc_tf.training import loop
from cpc_tf.training.kept_data import keep_data
from cpc_tf.training.session import open_run
from cpc_tf.training.strategy import replica_batches, share_cores
from cpc_tf.training.workdir import Workdir

# in all, of a replica at a time
PROBE_IMAGES = 1000
PROBE_ROWS = 64


def pretrain(config: PretrainConfig) -> dict:
    """Runs or resumes a pre-training run, prints where it is, and returns its result, which is also
    in result.json.

    With `minutes` a trial of some seconds comes first, which finds how many steps fit into them.

    Raises:
      ConfigError, loop.Stopped, loop.Diverged.
    """
    config = with_steps(config)
    share_cores(config.training, config.parts)
    with open_run(config, "pretrain") as (workdir, strategy):
        result = _run(config, workdir, strategy)
        loss = result.get("loss")  # absent if the records of a finished run were lost
        print(f"done: {config.workdir}" + (f", loss {loss:.3f}" if loss is not None else ""))
        print(f"next: cpc-tf export --workdir={config.workdir} --output=HUB_DIR", flush=True)
    return result


def _run(config: PretrainConfig, workdir: Workdir, strategy: tf.distribute.Strategy) -> dict:
    data = config.data
    monitor = config.monitor
    kind = config.objective.kind
    if kind.INDEXED and data.share_records:
        why = (
            "looks up each image by its place in the dataset, and a host reads only its own anyway;"
            " leave it out"
        )
        raise ConfigError(f"--share_records: --objective={config.objective.objective} {why}")
    source = probed = catalog.open_source(data, data.split)
    splits = [catalog.summary_of("split", data.split, source)]
    notes = []
    if monitor.probe_every and (monitor.probe_split or data.origin != data.dataset):
        probed = catalog.open_probe(data, monitor.probe_split)
        if probed:
            splits.append(
                catalog.summary_of("probe_split", monitor.probe_split or probed.about.split, probed)
            )
    can_probe = monitor.probe_every and probed and probed.class_names and not probed.multi_label
    if monitor.probe_every and not can_probe:
        needed = "one label per image" if probed and probed.multi_label else "labels"
        notes.append(
            f"--probe_every={monitor.probe_every}: no nearest-neighbour probe, which needs {needed}"
        )
    batch = config.training.batch_size
    count = source.num_examples
    if batch > count:
        times = (
            f"more than the {count} images, so that a batch has each about"
            f" {round(batch / count, 1):g} times"
        )
        notes.append(f"--batch_size={batch}: {times}; --batch_size={count} or less has each once")
    # A resumed run may probe another --probe_split; that of the same name keeps its data.
    probe_data = probed if can_probe and probed is not source else None
    keep_data(
        workdir, strategy, {"split": source, f"probe_split={monitor.probe_split}": probe_data}
    )
    print(catalog.summarized(data, splits, notes), flush=True)

    train_steps = config.training.steps(source.num_examples)
    if kind.INDEXED:
        source = source.by_index()
    training = Pretraining(config, strategy, train_steps, source.num_examples)
    print(
        f"{source.num_examples} images, {train_steps} steps of {config.training.batch_size}",
        flush=True,
    )
    if workdir.chief:
        patch_sheet.write_once(config, source)
    views = functools.partial(
        pipeline.batches, source, kind.VIEW, config.geometry, config.augment, indexed=kind.INDEXED
    )
    periodic = {}
    if kind.PERIODIC:
        every = -(-source.num_examples // config.training.batch_size)  # steps of an epoch
        features = _make_encode(config, training, source, config.geometry.whole, every=1)

        def between(step: int) -> None:
            with waiting_for(f"what --objective={config.objective.objective} does between epochs"):
                anew = training.model.between_epochs(step // every, lambda: features()[0])
                training.optimizer.forget(anew)

        periodic = {"between": between, "between_every": every}
    with fetching(source):
        outcome = loop.train(
            training,
            replica_batches(config.training, views),
            config.training,
            train_steps,
            workdir,
            watch=Health().warning,
            evaluate=_make_probe(config, training, probed) if can_probe else None,
            evaluate_every=monitor.probe_every,
            **periodic,
        )
    identity = Identity(
        trained_by=config.objective.objective,
        architecture=config.encoder.encoder,
        dataset=data.origin,
        seed=config.training.seed,
        parameters=int(sum(np.prod(v.shape) for v in training.model.encoder.trainable_variables)),
        began_with=module_name(config.initial_encoder),
        method=config.objective_settings.method(config.augment.augment),
        rung=config.rung,
    )
    return workdir.finish(
        {
            "dataset": data.origin,
            "encoder": config.encoder.encoder,
            "identity": identity.to_json(),
            "seed": config.training.seed,
            "images": source.num_examples,
            "levels": source.intensity_range,
            "parameters": int(sum(np.prod(v.shape) for v in training.model.trainable_variables)),
            **outcome.last,
        }
    )


def _make_encode(
    config: PretrainConfig,
    training: Pretraining,
    source: Source,
    geometry: GeometryConfig,
    every: int,
):
    """Returns a function that gives the mean latents float32 [N, D] of each `every`-th image, and
    the labels [N].
    """
    strategy = training.strategy

    def mean_latents(patches: tf.Tensor) -> tf.Tensor:
        return tf.reduce_mean(training.model.encode(patches), [1, 2])  # [B, D]

    encode = on_replicas(mean_latents, strategy, PROBE_ROWS, config.numerics.xla)

    def features() -> tuple[np.ndarray, np.ndarray]:
        batches = pipeline.plain_patches(
            source,
            geometry,
            PROBE_ROWS * strategy.num_replicas_in_sync,
            every=every,
            policy=config.augment.policy,
            decoded=own_images(strategy, PROBE_ROWS),
        )
        with fetching(source):
            return encode_dataset(batches, encode, math.ceil(source.num_examples / every))

    return features


def _make_probe(config: PretrainConfig, training: Pretraining, source: Source):
    """Returns a function that measures the nearest-neighbour accuracy of the averaged weights."""
    # Evenly spaced, since the images of a split may be sorted by class.
    every = max(1, source.num_examples // PROBE_IMAGES)
    features = _make_encode(config, training, source, config.geometry, every)

    def probe() -> dict[str, float]:
        with training.averaged():
            accuracy = nearest_neighbour_accuracy(*features())
        if accuracy is None:
            logging.warning(
                "no nearest-neighbour probe at this step: the features of some images are not"
                " finite"
            )
            return {}
        return {"knn": accuracy}

    return probe
