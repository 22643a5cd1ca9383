"""Selects settings and the length of fine-tuning on held-out labels, by random search in the space of appendix C.1."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cpc_tf.efficient.classifier import FINE_TUNED, SUPERVISED
from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.efficient.phases import Phases, fine_tuning, first_phase, folder
from cpc_tf.efficient.plateau import Length
from cpc_tf.evaluation import label_kinds
from cpc_tf.settings import replace
from cpc_tf.training import loop

# Fields of a trial that diverged, in place of its scores.
DIVERGED = {"steps": 0, "diverged": True}


class Selection(NamedTuple):
    """The settings to train with on all chosen labels."""

    records: list[dict[str, Any]]  # of all trials; empty if there was nothing to choose
    config: EfficientConfig  # the run's settings with the best of these
    length: Length | None = None  # of the first phase, if it was found; None: as given
    finetune_steps: int = 0  # length of fine-tuning; 0 if there is none, or if none was best

    @property
    def temperature(self) -> float | None:
        """The temperature of the classifier that was chosen, which has not seen the held-out labels; None: unknown."""
        chosen = [record for record in self.records if record["chosen"]]
        return chosen[-1].get("held_out_temperature") if chosen else None


def select(config: EfficientConfig, phases: Phases) -> Selection:
    """Selects settings of the first phase on the held-out labels and then, with the best, the length of fine-tuning.

    The temperature is fitted on the same labels, so a frozen phase is trained without them even if nothing is chosen.

    Raises:
      Diverged: all settings diverge. If only some do, they are recorded and not chosen.
    """
    phase, tried = first_phase(config), trials(config)
    if len(tried) == 1 and phase == SUPERVISED and not config.sgd.patience:
        return as_given(config)  # only for the temperature it would take as long again
    records, divergence = [], None
    for number, settings in enumerate(tried):
        trial = replace(folder(config, "search", phase, str(number)), **settings)
        try:
            found = _converged(trial, phases) if config.sgd.patience else _trained(trial, phases)
        except loop.Diverged as error:
            divergence, found = error.with_traceback(None), DIVERGED  # whose frames hold a network
        records.append({"phase": phase, **settings, **found, "chosen": False})
        _report(f"{phase}, settings {number + 1} of {len(tried)}", records[-1], phases)
    if divergence and all(record.get("diverged") for record in records):
        raise divergence
    chosen = best(records)
    records[chosen]["chosen"] = True
    length = Length(records[chosen]["steps"], records[chosen]["drop_step"]) if config.sgd.patience else None
    selection = Selection(records, replace(config, **tried[chosen]), length)
    if not fine_tuning(config):
        return selection
    # Found lengths are trained once more: of a phase that went on after them only the last checkpoints are there.
    names = ["search", phase, str(chosen), *(["best"] if length else [])]
    return _with_length(selection, folder(selection.config, *names), phases)


def as_given(config: EfficientConfig) -> Selection:
    """Returns the settings as they are given, where there is nothing to choose."""
    return Selection([], replace(config, **trials(config)[0]))


def _trained(trial: EfficientConfig, phases: Phases) -> dict[str, Any]:
    """Returns what a trial of the given length found."""
    trainee = phases.first(trial, "fit")
    return {**phases.held_out(trial, trainee), "steps": int(trainee.step.numpy())}


def _converged(trial: EfficientConfig, phases: Phases) -> dict[str, Any]:
    """Returns what a trial found that trains until the held-out score stays; see `plateau`."""
    found = phases.converge(trial)
    scores = {name: value for name, value in found.best.items() if name.startswith("held_out_")}
    return {**scores, **found.length._asdict(), "converged": found.ended}


def _with_length(selection: Selection, first: EfficientConfig, phases: Phases) -> Selection:
    """Adds rate and length of fine-tuning; `first` has the settings and the folder of the best trial."""
    config = selection.config
    start = phases.first(first, "fit", selection.length)  # of a given length: finished before, only restored
    weights = start.classifier.get_weights()
    none = {"phase": FINE_TUNED, "encoder_rate": 0.0, **phases.held_out(first, start), "steps": 0, "chosen": False}
    records, rates = [none], config.search.numbers("search_encoder_rates") or [config.sgd.encoder_rate]
    for rate in rates:
        tuned = replace(folder(config, "search", FINE_TUNED, f"{rate:g}"), encoder_rate=rate)
        start.classifier.set_weights(weights)
        try:
            _, looks = phases.fine_tune(tuned, start, "fit", config.sgd.finetune_steps, evaluated=True)
        except loop.Diverged:
            looks = []
            records.append({"phase": FINE_TUNED, "encoder_rate": rate, **DIVERGED, "chosen": False})
        for record in looks:
            if "held_out_loss" in record:
                found = {name: value for name, value in record.items() if name.startswith("held_out_")}
                found = {**found, "steps": record["step"], "chosen": False}
                records.append({"phase": FINE_TUNED, "encoder_rate": rate, **found})
        _report(f"{FINE_TUNED}, encoder rate {rate:g}", records[-1], phases)
    chosen = records[best(records)]
    chosen["chosen"] = True
    tuned = replace(config, encoder_rate=chosen["encoder_rate"] or rates[0])
    return Selection([*selection.records, *records], tuned, selection.length, chosen["steps"])


def trials(config: EfficientConfig) -> list[dict[str, Any]]:
    """Returns the settings to try in the first phase, {flag: value}: the given ones, then random ones.

    Rates, multiples of the batch and several backbones are drawn from their lists, weight decay uniformly on the log
    scale, dropout uniformly. A function of the seed: trial n is the same whatever the number of trials.
    """
    search, backbones = config.search, config.classifier.backbones
    given = {
        "learning_rate": config.sgd.learning_rate,
        "weight_decay": config.sgd.weight_decay,
        "dropout": config.classifier.dropout,
        "batch_size": config.training.batch_size,
    }
    several = len(backbones) > 1
    tried = [{**given, **({"backbone": backbones[0]} if several else {})}]
    for number in range(1, search.search_trials):
        random = np.random.default_rng([config.training.seed, number])
        decay = np.exp(random.uniform(*np.log(search.numbers("search_decays"))))
        tried.append(
            {
                "learning_rate": float(random.choice(search.numbers("search_rates") or [given["learning_rate"]])),
                "weight_decay": float(f"{decay:.3g}"),
                "dropout": min(0.99, round(random.uniform(*search.numbers("search_dropouts")), 3)),
                "batch_size": given["batch_size"] * int(random.choice(search.numbers("search_multiples"))),
                **({"backbone": str(random.choice(backbones))} if several else {}),
            }
        )
    return tried


def best(records: list[dict[str, Any]]) -> int:
    """Returns the index of the highest held-out top-1 or mAP; among equals, of the lowest 'held_out_loss'."""
    ended = [i for i, record in enumerate(records) if not record.get("diverged")]
    main = f"held_out_{label_kinds.of('held_out_map' in records[ended[0]]).main}"
    return min(ended, key=lambda i: (-records[i][main], records[i]["held_out_loss"]))


def _report(title: str, record: dict[str, Any], phases: Phases) -> None:
    """Prints what a trial scored on the held-out labels, and on how many."""
    if record.get("diverged"):
        print(f"{title}: diverged", flush=True)
    else:
        kind = phases.inputs.kind
        scores = {kind.main: record[f"held_out_{kind.main}"], "tested": phases.inputs.held_out}
        print(f"{title}: held-out {kind.score_names[kind.main]} {kind.value(kind.main, scores)}", flush=True)
