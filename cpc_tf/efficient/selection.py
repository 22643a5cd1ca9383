"""Selects settings and the length of fine-tuning on held-out labels, by random search in the space of appendix C.1."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.efficient.phases import Phases, fine_tuning, first_phase, folder
from cpc_tf.efficient.trainee import FINE_TUNED
from cpc_tf.settings import replace
from cpc_tf.training.loop import Diverged

# What the record of a trial has in place of figures if it diverged.
DIVERGED = {"steps": 0, "diverged": True}


class Selection(NamedTuple):
    """What is to be trained on all chosen labels."""

    records: list[dict[str, Any]]  # what was tried; empty if there was nothing to choose
    config: EfficientConfig  # the run's settings with the best that were tried
    finetune_steps: int  # length of the second phase; 0 if there is none, or if none was best


def select(config: EfficientConfig, phases: Phases) -> Selection:
    """Tries settings of the first phase on the held-out labels and then, with the best, lengths of fine-tuning.

    Raises:
      Diverged: with all settings. With some, they are recorded and not chosen.
    """
    phase, tried = first_phase(config), trials(config)
    if len(tried) == 1 and not fine_tuning(config):
        return Selection([], config, 0)
    records, divergence = [], None
    for number, settings in enumerate(tried):
        trial = replace(folder(config, "search", phase, str(number)), **settings)
        try:
            trainee = phases.first(trial, phases.inputs.fit)
            found = {**phases.held_out(trial, trainee), "steps": int(trainee.step.numpy())}
        except Diverged as error:
            divergence, found = error, DIVERGED
        records.append({"phase": phase, **settings, **found, "chosen": False})
        _report(f"{phase}, settings {number + 1} of {len(tried)}", records[-1])
    if divergence and all(record.get("diverged") for record in records):
        raise divergence
    chosen = best(records)
    records[chosen]["chosen"] = True
    selection = Selection(records, replace(config, **tried[chosen]), 0)
    if not fine_tuning(config):
        return selection
    return _with_length(selection, folder(selection.config, "search", phase, str(chosen)), phases)


def _with_length(selection: Selection, first: EfficientConfig, phases: Phases) -> Selection:
    """Adds the rate and the length of fine-tuning. `first` are the settings and the folder of the best trial."""
    config, fit = selection.config, phases.inputs.fit
    start = phases.first(first, fit)  # it is finished: only restored
    weights = start.classifier.get_weights()
    none = {"phase": FINE_TUNED, "encoder_rate": 0.0, **phases.held_out(first, start), "steps": 0, "chosen": False}
    records, rates = [none], config.search.numbers("search_encoder_rates") or [config.sgd.encoder_rate]
    for rate in rates:
        tuned = replace(folder(config, "search", FINE_TUNED, f"{rate:g}"), encoder_rate=rate)
        start.classifier.set_weights(weights)
        try:
            _, looks = phases.fine_tune(tuned, start, fit, config.sgd.finetune_steps, evaluated=True)
        except Diverged:
            looks = []
            records.append({"phase": FINE_TUNED, "encoder_rate": rate, **DIVERGED, "chosen": False})
        for record in looks:
            if "held_out_top1" in record:
                figures = {name: record[name] for name in ("held_out_top1", "held_out_loss")}
                length = {"steps": record["step"], "chosen": False}
                records.append({"phase": FINE_TUNED, "encoder_rate": rate, **figures, **length})
        _report(f"{FINE_TUNED}, encoder rate {rate:g}", records[-1])
    chosen = records[best(records)]
    chosen["chosen"] = True
    tuned = replace(config, encoder_rate=chosen["encoder_rate"] or rates[0])
    return Selection([*selection.records, *records], tuned, chosen["steps"])


def trials(config: EfficientConfig) -> list[dict[str, Any]]:
    """The settings to try in the first phase: {flag: value}, those given first, then random ones.

    Learning rate and batch size are drawn from their lists, weight decay uniformly on the log scale, dropout uniformly.
    A function of the seed: trial n is the same whatever the number of trials.
    """
    search = config.search
    given = {
        "learning_rate": config.sgd.learning_rate,
        "weight_decay": config.sgd.weight_decay,
        "dropout": config.classifier.dropout,
        "batch_size": config.training.batch_size,
    }
    tried = [given]
    for number in range(1, search.search_trials):
        random = np.random.default_rng([config.training.seed, number])
        decay = np.exp(random.uniform(*np.log(search.numbers("search_decays"))))
        tried.append(
            {
                "learning_rate": float(random.choice(search.numbers("search_rates") or [given["learning_rate"]])),
                "weight_decay": float(f"{decay:.3g}"),
                "dropout": min(0.99, round(random.uniform(*search.numbers("search_dropouts")), 3)),
                "batch_size": int(random.choice(search.numbers("search_batches") or [given["batch_size"]])),
            }
        )
    return tried


def best(records: list[dict[str, Any]]) -> int:
    """The index of the record with the highest 'held_out_top1'; among equals, of the lowest 'held_out_loss'."""
    ended = [i for i, record in enumerate(records) if not record.get("diverged")]
    return min(ended, key=lambda i: (-records[i]["held_out_top1"], records[i]["held_out_loss"]))


def _report(title: str, record: dict[str, Any]) -> None:
    found = "diverged" if record.get("diverged") else f"held-out top-1 {100 * record['held_out_top1']:.1f} %"
    print(f"{title}: {found}", flush=True)
