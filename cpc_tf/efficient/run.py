"""Classification with few labels (appendix C of the paper): on an encoder, frozen and fine-tuned, or on pixels.

Settings and the length of fine-tuning are selected on held-out labels, by random search in the space of appendix C.1.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from cpc_tf.data import catalog
from cpc_tf.data.pipeline.fetch import fetching
from cpc_tf.efficient.classifier import FINE_TUNED, SUPERVISED
from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.efficient.labels import Labels, choose_labels
from cpc_tf.efficient.phases import Evaluated, Inputs, Phases, fine_tuning, first_phase, folder
from cpc_tf.encoders.card import PIXELS
from cpc_tf.encoders.load import load_feature_maps
from cpc_tf.evaluation import calibration, label_kinds, predictions
from cpc_tf.results import map as embedding_map
from cpc_tf.results import predictions as sheet
from cpc_tf.settings import replace
from cpc_tf.training import loop
from cpc_tf.training.strategy import is_chief, wants_xla
from cpc_tf.training.workdir import Workdir, open_run

# Fields of a trial that diverged, in place of its scores.
DIVERGED = {"steps": 0, "diverged": True}


class Selection(NamedTuple):
    """The settings to train with on all chosen labels."""

    records: list[dict[str, Any]]  # of all trials; empty if there was nothing to choose
    config: EfficientConfig  # the run's settings with the best of these
    finetune_steps: int  # length of fine-tuning; 0 if there is none, or if none was best

    @property
    def temperature(self) -> float | None:
        """The temperature of the classifier that was chosen, which has not seen the held-out labels; None: unknown."""
        chosen = [record for record in self.records if record["chosen"]]
        return chosen[-1].get("held_out_temperature") if chosen else None


def efficient(config: EfficientConfig) -> dict[str, Any]:
    """Selects settings, trains, tests and prints the accuracies; returns the content of result.json.

    A finished run is not tested again: its result is read.

    Raises:
      ConfigError, loop.Stopped, loop.Diverged.
    """
    with open_run(config, "efficient", *config.search.numbers("search_batches")) as (workdir, strategy):
        result = workdir.result(_is_whole)
        if result is None:
            result = _run(config, workdir, strategy)
        else:
            print(f"{config.workdir}: already finished", flush=True)
    for phase, found in result["phases"].items():
        print(f"{phase:12} {label_kinds.of_result(result).described(found)}")
    print(f"results: {config.workdir}")
    return result


def _is_whole(result: dict[str, Any]) -> bool:
    phases = result.get("phases")
    accuracies = phases.values() if isinstance(phases, dict) and phases else [None]
    wanted = label_kinds.of_result(result).score_names.keys()
    return all(isinstance(found, dict) and wanted <= found.keys() for found in accuracies)


def prepare(config: EfficientConfig, strategy: tf.distribute.Strategy) -> tuple[Labels, Phases]:
    """Opens the data and prints a summary, chooses the labels and loads the encoder. Raises ConfigError."""
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
            recompute=chosen.recompute,
            xla=wants_xla(config.numerics.xla, strategy),
        )
    return labels, Phases(encoder, Inputs(config, encoder, source, test_source, labels, strategy), strategy)


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
        tested, results = _train(selection, phases)
    files, kind = phases.inputs.sources[1].names(), phases.inputs.kind
    choices = kind.choices(tested.logits, tested.labels)
    workdir.write("predictions.csv", predictions.to_csv(files, tested.logits, tested.labels, kind))
    _draw(phases, workdir)
    held_out = len(labels.held_out) if selection.records else 0
    return workdir.finish(
        {
            "encoder": config.classifier.encoder,
            "identity": phases.encoder.identity.to_json(),
            "backbone": config.classifier.backbone,
            "dataset": config.data.origin,
            "num_classes": len(names),
            "class_names": names,
            "label_fraction": labels.fraction,
            "num_train_labels": len(labels.chosen),
            "levels": levels,
            "seed": config.training.seed,
            **tested.scores,
            **({"several_labels": True} if phases.inputs.sources[0].several_labels else {}),
            "calibration": calibration.measured(*choices, held_out, selection.temperature),
            "phases": results,
            "search": selection.records,
            "steps": sum(phase["steps"] for phase in results.values()),
            "wall_seconds": phases.seconds,
        }
    )


def _draw(phases: Phases, workdir: Workdir) -> None:
    """Draws what was predicted of test images, and a map of them by the features of the encoder, if there is one."""
    test_source, config = phases.inputs.sources[1], workdir.config
    shown = None
    if config.classifier.encoder != PIXELS:
        with fetching(test_source):  # several workers encode together
            shown = phases.inputs.sample("test", embedding_map.SAMPLE)
    if workdir.chief:
        sheet.write_sheet(workdir.path, test_source, config.images)
        if shown:
            images, (features, labels) = shown
            embedding_map.write(workdir.path, features, images, labels, phases.inputs.class_names)


def _train(selection: Selection, phases: Phases) -> tuple[Evaluated, dict[str, dict[str, Any]]]:
    """Trains on all chosen labels; returns the test of the last phase, and the scores and steps of each."""
    config, steps = selection.config, selection.finetune_steps
    first = first_phase(config)
    trainee = phases.first(folder(config, first), "chosen")
    tested = phases.test(config, trainee)
    results = {first: {**tested.scores, "steps": int(trainee.step.numpy())}}
    if fine_tuning(config):
        if steps:
            trainee, _ = phases.fine_tune(folder(config, FINE_TUNED), trainee, "chosen", steps)
            tested = phases.test(config, trainee)
        results[FINE_TUNED] = {**tested.scores, "steps": steps}
    return tested, results


def select(config: EfficientConfig, phases: Phases) -> Selection:
    """Selects settings of the first phase on the held-out labels and then, with the best, the length of fine-tuning.

    The temperature is fitted on the same labels, so a frozen phase is trained without them even if nothing is chosen.

    Raises:
      Diverged: all settings diverge. If only some do, they are recorded and not chosen.
    """
    phase, tried = first_phase(config), trials(config)
    if len(tried) == 1 and phase == SUPERVISED:  # only for the temperature it would take as long again
        return Selection([], config, 0)
    records, divergence = [], None
    for number, settings in enumerate(tried):
        trial = replace(folder(config, "search", phase, str(number)), **settings)
        try:
            trainee = phases.first(trial, "fit")
            found = {**phases.held_out(trial, trainee), "steps": int(trainee.step.numpy())}
        except loop.Diverged as error:
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
    """Adds rate and length of fine-tuning; `first` has the settings and the folder of the best trial."""
    config = selection.config
    start = phases.first(first, "fit")  # finished before: only restored
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
        _report(f"{FINE_TUNED}, encoder rate {rate:g}", records[-1])
    chosen = records[best(records)]
    chosen["chosen"] = True
    tuned = replace(config, encoder_rate=chosen["encoder_rate"] or rates[0])
    return Selection([*selection.records, *records], tuned, chosen["steps"])


def trials(config: EfficientConfig) -> list[dict[str, Any]]:
    """Returns the settings to try in the first phase, {flag: value}: the given ones, then random ones.

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
    """Returns the index of the highest held-out top-1 or mAP; among equals, of the lowest 'held_out_loss'."""
    ended = [i for i, record in enumerate(records) if not record.get("diverged")]
    return min(ended, key=lambda i: (-_main(records[i])[1], records[i]["held_out_loss"]))


def _main(record: dict[str, Any]) -> tuple[str, float]:
    """Returns the title and the value of the score of a trial that settings are selected by."""
    kind = label_kinds.of("held_out_map" in record)
    return kind.score_names[kind.main], record[f"held_out_{kind.main}"]


def _report(title: str, record: dict[str, Any]) -> None:
    if record.get("diverged"):
        print(f"{title}: diverged", flush=True)
    else:
        name, value = _main(record)
        print(f"{title}: held-out {name} {100 * value:.1f} %", flush=True)
