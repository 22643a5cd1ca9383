"""Classifies with few labels, the paper's protocol (appendix C): on an encoder, frozen and fine-tuned, or on pixels."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from cpc_tf.data import catalog
from cpc_tf.data.pipeline.fetch import fetching
from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.efficient.inputs import Inputs
from cpc_tf.efficient.labels import Labels, choose_labels
from cpc_tf.efficient.phases import Phases, fine_tuning, first_phase, folder
from cpc_tf.efficient.selection import Selection, select
from cpc_tf.efficient.trainee import FINE_TUNED
from cpc_tf.encoders.load import load_feature_maps
from cpc_tf.training.strategy import is_chief
from cpc_tf.training.workdir import Workdir, open_run


def efficient(config: EfficientConfig) -> dict[str, Any]:
    """Selects, trains, tests and prints the accuracies; returns the result, which is also in result.json.

    A finished run is not tested again: its result is read.

    Raises:
      ConfigError, loop.Stopped, loop.Diverged.
    """
    with open_run(config, "efficient") as (workdir, strategy):
        result = workdir.result(_is_whole)
        if result is None:
            result = _run(config, workdir, strategy)
        else:
            print(f"{config.workdir}: already finished", flush=True)
    for phase, found in result["phases"].items():
        print(f"{phase:12} top-1 {100 * found['top1']:.1f} %  top-5 {100 * found['top5']:.1f} %")
    print(f"results: {config.workdir}")
    return result


def _is_whole(result: dict[str, Any]) -> bool:
    phases = result.get("phases")
    accuracies = phases.values() if isinstance(phases, dict) and phases else [None]
    return all(isinstance(found, dict) and {"top1", "top5"} <= found.keys() for found in accuracies)


def prepare(config: EfficientConfig, strategy: tf.distribute.Strategy) -> tuple[Labels, Phases]:
    """Opens the data and says what they are, chooses the labels and loads the encoder. Raises ConfigError."""
    seed, chosen = config.training.seed, config.classifier
    source, test_source, summary = catalog.open_pair(config.data, config.labels.test_split)
    if is_chief(config.training):
        print(summary, flush=True)
    labels = choose_labels(source.labels(), source.class_names, config.labels, seed)
    with strategy.scope():
        encoder = load_feature_maps(
            chosen.encoder,
            chosen.endpoint,
            config.images.image_size,
            backbone=chosen.backbone,
            seed=seed,
            precision=config.numerics.precision,
        )
    return labels, Phases(encoder, Inputs(config, encoder, source, test_source, labels), strategy)


def _run(config: EfficientConfig, workdir: Workdir, strategy: tf.distribute.Strategy) -> dict[str, Any]:
    labels, phases = prepare(config, strategy)
    names, levels = phases.inputs.class_names, phases.inputs.sources[0].levels
    workdir.keep_levels(levels)
    workdir.begin(0)
    workdir.write("labels.json", labels.to_json())
    print(f"{len(labels.chosen)} labels of {len(names)} classes", flush=True)
    with fetching(*phases.inputs.sources):
        if labels.held_out is None:
            print("nothing is held out: settings and lengths as given", flush=True)
            selection = Selection([], config, fine_tuning(config))
        else:
            selection = select(config, phases)
        scores, predictions, results = _train(selection, phases)
    lines = ["label,prediction", *(f"{label},{guess}" for label, guess in predictions), ""]
    workdir.write("predictions.csv", "\n".join(lines))
    return workdir.finish(
        {
            "encoder": config.classifier.encoder,
            "identity": phases.encoder.identity.to_json(),
            "backbone": config.classifier.backbone,
            "dataset": config.data.dataset,
            "num_classes": len(names),
            "class_names": names,
            "label_fraction": labels.fraction,
            "num_train_labels": len(labels.chosen),
            "levels": levels,
            "seed": config.training.seed,
            **scores,
            "phases": results,
            "search": selection.records,
            "steps": sum(phase["steps"] for phase in results.values()),
            "wall_seconds": phases.seconds,
        }
    )


def _train(selection: Selection, phases: Phases) -> tuple[dict[str, float], np.ndarray, dict[str, dict[str, Any]]]:
    """Trains on all chosen labels; returns the test of the last phase, and the scores and steps of each."""
    config, steps = selection.config, selection.finetune_steps
    first = first_phase(config)
    trainee = phases.first(folder(config, first), phases.inputs.chosen)
    scores, predictions = phases.test(config, trainee)
    results = {first: {**scores, "steps": int(trainee.step.numpy())}}
    if fine_tuning(config):
        if steps:
            trainee, _ = phases.fine_tune(folder(config, FINE_TUNED), trainee, phases.inputs.chosen, steps)
            scores, predictions = phases.test(config, trainee)
        results[FINE_TUNED] = {**scores, "steps": steps}
    return scores, predictions, results
