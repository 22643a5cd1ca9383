"""Settings and lengths, chosen on held-out labels by random search in the space of appendix C.1."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cpc_tf.core.settings import replace
from cpc_tf.efficient.classifier import SUPERVISED
from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.efficient.phases import ClassifierPhases, fine_tuning, first_phase
from cpc_tf.training import loop
from cpc_tf.training.phases import FINE_TUNED, SEARCH, Length, choose, held_out, in_folder

# Fields of a trial that diverged, in place of its scores.
DIVERGED = {"steps": 0, "diverged": True}


class Selection(NamedTuple):
    """The settings to train with on all chosen labels."""

    records: list[dict[str, Any]]  # of all trials; empty if there was nothing to choose
    config: EfficientConfig  # the run's settings with the best of these
    length: Length | None = None  # of the first phase, if it was chosen; None: as given
    finetune_steps: int = 0  # length of fine-tuning; 0 if there is none, or if none was best

    @property
    def temperature(self) -> float | None:
        """The temperature of the classifier that was chosen, which has not seen the held-out
        labels; None: unknown.
        """
        chosen = [record for record in self.records if record["chosen"]]
        return chosen[-1].get("held_out_temperature") if chosen else None


def select(config: EfficientConfig, phases: ClassifierPhases) -> Selection:
    """Selects settings of the first phase on the held-out labels and then, with the best, the
    length of fine-tuning.

    The temperature is fitted on the same labels, so a frozen phase is trained without them even if
    nothing is chosen.

    Raises:
      Diverged: all settings diverge. If only some do, they are recorded and not chosen.
    """
    phase = first_phase(config)
    tried = trials(config)
    if len(tried) == 1 and phase == SUPERVISED and not config.sgd.patience:
        return as_given(config)  # only for the temperature it would take as long again
    records = []
    divergence = None
    for number, settings in enumerate(tried):
        trial = replace(in_folder(config, SEARCH, phase, str(number)), **settings)
        try:
            scores = _scores(trial, phases)
        except loop.Diverged as error:
            # whose frames hold a network
            divergence = error.with_traceback(None)
            scores = DIVERGED
        records.append({"phase": phase, **settings, **scores, "chosen": False})
        _report(f"{phase}, settings {number + 1} of {len(tried)}", records[-1], phases)
    if divergence and all(record.get("diverged") for record in records):
        raise divergence
    chosen = choose(records, phases.inputs.score)
    length = length_of_chosen(records) if config.sgd.patience else None
    selection = Selection(records, replace(config, **tried[chosen]), length)
    if not fine_tuning(config):
        return selection
    # Chosen lengths are trained once more: of a phase that went on after them only the last
    # checkpoints are there.
    names = [SEARCH, phase, str(chosen)]
    if length:
        names.append("best")
    return _select_length(selection, in_folder(selection.config, *names), phases)


def length_of_chosen(records: list[dict[str, Any]]) -> Length:
    """Returns the length of the chosen trial of the first phase."""
    chosen = next(record for record in records if record["chosen"])
    return Length(chosen["steps"], tuple(chosen.get("drop_steps", ())))


def as_given(config: EfficientConfig) -> Selection:
    """Returns the settings as they are given, where there is nothing to choose."""
    return Selection([], replace(config, **trials(config)[0]))


def _scores(trial: EfficientConfig, phases: ClassifierPhases) -> dict[str, Any]:
    """Trains the first phase of a trial, of the given length or until its score stays; returns what
    it reached.

    A function of its own, so that no network of a trial is left when the next one is loaded.
    """
    if trial.sgd.patience:
        reached = phases.converge(trial)
        return {**held_out(reached.best), **reached.length._asdict(), "converged": reached.ended}
    trainee = phases.first(trial, "fit")
    return {**phases.held_out(trial, trainee), "steps": int(trainee.step.numpy())}


def _select_length(
    selection: Selection, first: EfficientConfig, phases: ClassifierPhases
) -> Selection:
    """Selects rate and length of fine-tuning; `first` has the settings and the folder of the best
    trial.
    """
    config = selection.config
    # Of a given length: finished before, only restored.
    start = phases.first(first, "fit", selection.length)
    weights = start.classifier.get_weights()
    untuned = {
        "phase": FINE_TUNED,
        "encoder_rate": 0.0,
        **phases.held_out(first, start),
        "steps": 0,
        "chosen": False,
    }
    records = [untuned]
    rates = config.search.numbers("search_encoder_rates") or [config.sgd.encoder_rate]
    for rate in rates:
        tuned = replace(in_folder(config, SEARCH, FINE_TUNED, f"{rate:g}"), encoder_rate=rate)
        trial = {"phase": FINE_TUNED, "encoder_rate": rate}
        start.classifier.set_weights(weights)
        try:
            most_steps = config.sgd.finetune_steps
            _, steps = phases.fine_tune(tuned, start, "fit", most_steps, evaluated=True)
            for step in steps:
                if phases.inputs.score in step:
                    scores = {**held_out(step), "steps": step["step"]}
                    records.append({**trial, **scores, "chosen": False})
        except loop.Diverged:
            records.append({**trial, **DIVERGED, "chosen": False})
        _report(f"{FINE_TUNED}, encoder rate {rate:g}", records[-1], phases)
    chosen = records[choose(records, phases.inputs.score)]
    tuned = replace(config, encoder_rate=chosen["encoder_rate"] or rates[0])
    return Selection([*selection.records, *records], tuned, selection.length, chosen["steps"])


def trials(config: EfficientConfig) -> list[dict[str, Any]]:
    """Returns the settings to try in the first phase, {flag: value}: the given ones, then random
    ones.

    Rates, multiples of the batch and several backbones are drawn from their lists, weight decay
    uniformly on the log scale, dropout uniformly. A function of the seed: trial n is the same
    whatever the number of trials.
    """
    search = config.search
    backbones = config.classifier.backbones
    settings = {
        "learning_rate": config.sgd.learning_rate,
        "weight_decay": config.sgd.weight_decay,
        "dropout": config.classifier.dropout,
        "batch_size": config.training.batch_size,
    }
    several = len(backbones) > 1
    if several:
        settings["backbone"] = backbones[0]
    tried = [settings]
    rates = search.numbers("search_rates") or [config.sgd.learning_rate]
    for number in range(1, search.search_trials):
        # The order of the draws is part of what is drawn.
        random = np.random.default_rng([config.training.seed, number])
        decay = np.exp(random.uniform(*np.log(search.numbers("search_decays"))))
        trial = {
            "learning_rate": float(random.choice(rates)),
            "weight_decay": float(f"{decay:.3g}"),
            "dropout": min(0.99, round(random.uniform(*search.numbers("search_dropouts")), 3)),
        }
        multiple = int(random.choice(search.numbers("search_multiples")))
        trial["batch_size"] = config.training.batch_size * multiple
        if several:
            trial["backbone"] = str(random.choice(backbones))
        tried.append(trial)
    return tried


def _report(title: str, record: dict[str, Any], phases: ClassifierPhases) -> None:
    """Prints what a trial scored on the held-out labels, and on how many."""
    if record.get("diverged"):
        print(f"{title}: diverged", flush=True)
    else:
        kind = phases.inputs.kind
        scores = {kind.main: record[f"held_out_{kind.main}"], "tested": phases.inputs.held_out}
        print(
            f"{title}: held-out {kind.score_names[kind.main]} {kind.value(kind.main, scores)}",
            flush=True,
        )
