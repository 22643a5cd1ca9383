"""Classifies with few labels, the paper's protocol (appendix C): on an encoder, frozen and fine-tuned, or on pixels."""

from __future__ import annotations

import json

import numpy as np

from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.efficient.protocol import Protocol
from cpc_tf.efficient.trainee import FINE_TUNED
from cpc_tf.training.strategy import is_chief, strategy_of
from cpc_tf.training.workdir import Workdir, write_file


def efficient(config: EfficientConfig) -> dict:
    """Selects, trains and tests; returns the result, which is also in result.json.

    A finished run is not tested again: its result is read.

    Raises:
      ConfigError, loop.Stopped, loop.Diverged.
    """
    workdir = Workdir(config)
    if (finished := workdir.result()) is not None:
        print(f"{config.workdir}: already finished", flush=True)
        return finished
    strategy = strategy_of(config.training)
    protocol = Protocol(config, strategy)
    chief = is_chief(strategy)
    if chief:
        workdir.begin(0)
        write_file(f"{config.workdir}/labels.json", _chosen(protocol))
    labels = len(protocol.chosen)
    print(f"{labels} labels of {len(protocol.class_names)} classes", flush=True)
    if protocol.held is None:
        print("nothing is held out: settings and lengths as given", flush=True)

    records, chosen, length = *protocol.select(), 0
    if protocol.fine_tuning:
        more, chosen, length = protocol.select_length(chosen)
        records += more
    trained = protocol.first_phase(chosen)
    scores, predicted, true = protocol.test(trained)
    phases = {protocol.first: {**scores, "steps": int(trained.step.numpy())}}
    if protocol.fine_tuning:
        if length:
            trained = protocol.fine_tune(chosen, trained, length)
            scores, predicted, true = protocol.test(trained)
        phases[FINE_TUNED] = {**scores, "steps": length}

    result = {
        "kind": "efficient",
        "encoder": config.classifier.encoder,
        "identity": protocol.encoder.identity.to_json(),
        "backbone": config.classifier.backbone,
        "dataset": config.data.dataset,
        "num_classes": len(protocol.class_names),
        "class_names": protocol.class_names,
        "label_fraction": protocol.fraction,
        "num_train_labels": labels,
        "seed": config.training.seed,
        **scores,
        "phases": phases,
        "search": records,
        "steps": sum(phase["steps"] for phase in phases.values()),
        "wall_seconds": protocol.seconds,
    }
    if chief:
        write_file(f"{config.workdir}/predictions.csv", _table(true, predicted))
        workdir.finish(result)
    return result


def _chosen(protocol: Protocol) -> str:
    """The places of the labels within the split, in the order of its files."""
    held = [] if protocol.held is None else protocol.held.tolist()
    return json.dumps({"chosen": protocol.chosen.tolist(), "held_out": held}) + "\n"


def _table(labels: np.ndarray, predicted: np.ndarray) -> str:
    return "label,prediction\n" + "".join(f"{label},{guess}\n" for label, guess in zip(labels, predicted))
