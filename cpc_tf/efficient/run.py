"""Classification with few labels (appendix C of the paper): on an encoder, frozen and fine-tuned, or on pixels.

Settings are selected on held-out labels by random search in the space of appendix C.1; then a classifier is trained
with the best of them on all chosen labels, and tested once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from cpc_tf.augment.config import warn_of_colour
from cpc_tf.data import catalog
from cpc_tf.data.pipeline import fetching
from cpc_tf.data.source import Source
from cpc_tf.efficient.classifier import SUPERVISED, Classification
from cpc_tf.efficient.config import NONE, EfficientConfig
from cpc_tf.efficient.inputs import Inputs, Labels, choose_labels, from_encoder, from_labels, guessing
from cpc_tf.efficient.phases import Phases, Tested, fine_tuning, first_phase, load_encoder
from cpc_tf.encoders.config import PIXELS
from cpc_tf.evaluation import label_kinds
from cpc_tf.evaluation.label_kinds import PREDICTIONS, predictions_csv
from cpc_tf.evaluation.scores import calibration
from cpc_tf.settings import ConfigError, replace
from cpc_tf.training import loop
from cpc_tf.training.kept_data import keep_data
from cpc_tf.training.phases import FINE_TUNED, REFIT, SEARCH, Length, choose, held_out, in_folder
from cpc_tf.training.workdir import Workdir, open_run, read_config

# Fields of a trial that diverged, in place of its scores.
DIVERGED = {"steps": 0, "diverged": True}

# Datasets of TFDS that are a part of another one's training images, with all its test images -> that one, which part.
# Without a name of its part the first one is TFDS' default.
PARTS = {
    **dict.fromkeys(("imagenet2012_subset", "imagenet2012_subset/1pct"), ("imagenet2012", 0.01)),
    "imagenet2012_subset/10pct": ("imagenet2012", 0.1),
}


def efficient(config: EfficientConfig) -> dict[str, Any]:
    """Selects settings, trains, tests and prints the accuracies; returns the content of result.json.

    A finished run is not tested again: its result is read.

    Raises:
      ConfigError, loop.Stopped, loop.Diverged.
    """
    with open_run(config, "efficient") as (workdir, strategy):
        data = open_data(config)
        keep_data(workdir, strategy, data.splits)
        result, phases = workdir.result(_is_whole), None
        if result is None:
            result, phases = _run(workdir, strategy, data)
        else:
            print(f"{config.workdir}: already finished", flush=True)
        kind = label_kinds.of_result(result)
        for phase in result["phases"]:
            print(f"{phase:12} {kind.described(result, phase)}")
        print(*kind.remarks(result), f"results: {config.workdir}", sep="\n", flush=True)
        if config.labels.refit and REFIT not in result:
            result = _refit(workdir, result, phases or prepare(workdir.config, strategy, data)[1])
        if REFIT in result:
            count = result[REFIT]["num_train_labels"]
            print(
                f"refit: cpc-tf export takes the classifier on all {count} labels, those of the test too; the figures "
                "are those of the classifier before",
                flush=True,
            )
    return result


def _is_whole(result: dict[str, Any]) -> bool:
    phases, main = result.get("phases"), label_kinds.of_result(result).main
    scores = phases.values() if isinstance(phases, dict) and phases else [None]
    return all(isinstance(phase, dict) and main in phase for phase in scores)


class Data(NamedTuple):
    """What a run learns from and is tested on."""

    source: Source
    test_source: Source
    unlabelled: Source | None  # for label propagation
    summary: str  # lines for the user

    @property
    def splits(self) -> dict[str, Source | None]:
        return {"split": self.source, "test_split": self.test_source, "unlabelled": self.unlabelled}


def open_data(config: EfficientConfig) -> Data:
    """Opens the splits of a run. Raises ConfigError if one leads nowhere or does not fit the settings."""
    source, test_source, summary = catalog.open_pair(replace(config.data, unlabelled=""), config.labels.test_split)
    method = config.propagation.propagation
    if method == NONE:
        return Data(source, test_source, None, summary)
    if source.multi_label:
        raise ConfigError("propagation", method, "needs pictures with one label each; these have several")
    unlabelled = catalog.open_unlabelled(config.data, source)
    line = f"--propagation={method}: {unlabelled.num_examples} images, whose labels are not used"
    return Data(source, test_source, unlabelled, f"{summary}\n{line}")


def prepare(
    config: EfficientConfig, strategy: tf.distribute.Strategy, data: Data | None = None
) -> tuple[Labels, Phases]:
    """Prints a summary of the data, chooses the labels and loads the encoder.

    What the settings leave open is derived: those of the run are `Phases.inputs.config`.

    Args:
      config: of the run.
      strategy: of the run.
      data: as `open_data` returns it, which is called without it.

    Raises:
      ConfigError: see `open_data`, `choose_labels` and `load_encoder`.
    """
    config, encoder_line = from_encoder(config)
    source, test_source, unlabelled, summary = data or open_data(config)
    print(summary, flush=True)
    if config.classifier.encoder == PIXELS and config.classifier.blocks:
        blocks = config.classifier.head_blocks
        print(f"--head_blocks={blocks}: residual blocks after the network of --encoder={PIXELS}", flush=True)
    labels = choose_labels(source.labels(), source.class_names, config.labels, config.training.seed, source.groups())
    guess = guessing(source.labels()[labels.chosen])
    config, labels_line = from_labels(config, labels, strategy.num_replicas_in_sync, guess)
    for line in filter(None, (encoder_line, labels_line)):
        print(line, flush=True)
    encoder = load_encoder(config, strategy)
    if config.augment.policy.always_grey:
        print(f"--augment={config.augment.title}: images are grey, in the test, too", flush=True)
    else:
        warn_of_colour(encoder.text, encoder.learned.augment, encoder.learned.augment_changes)
    inputs = Inputs(config, encoder, source, test_source, labels, strategy, unlabelled)
    return labels, Phases(encoder, inputs, strategy)


def _run(workdir: Workdir, strategy: tf.distribute.Strategy, data: Data) -> tuple[dict[str, Any], Phases]:
    labels, phases = prepare(workdir.config, strategy, data)
    config = workdir.config = phases.inputs.config
    (source, test_source), names = phases.inputs.sources, phases.inputs.class_names
    workdir.begin(0)
    workdir.write("labels.json", labels.to_json())
    print(f"{len(labels.chosen)} labels of {len(names)} classes", flush=True)
    with fetching(*phases.inputs.sources, *filter(None, [phases.inputs.unlabelled])):
        if labels.held_out is None:
            print("nothing is held out: settings and lengths as given", flush=True)
            selection = as_given(config)._replace(finetune_steps=fine_tuning(config))
        else:
            selection = select(config, phases)
        tested, results = _train(selection, phases)
    kind, outputs = phases.inputs.kind, (tested.logits, tested.labels)
    workdir.write(PREDICTIONS, predictions_csv(test_source.names(), *outputs, names, kind))
    _draw(phases, workdir)
    held_out = len(labels.held_out) if selection.records else 0
    dataset, part = PARTS.get(config.data.origin.partition(":")[0], (config.data.origin, 1.0))
    result = workdir.finish(
        {
            "encoder": config.classifier.encoder,
            "identity": phases.encoder.identity.to_json(),
            "backbone": selection.config.classifier.backbone,
            "head_blocks": selection.config.classifier.blocks,
            **phases.parameters,
            "dataset": dataset,
            "test_split": config.labels.test_split,
            "num_classes": len(names),
            "class_names": names,
            "label_fraction": part * labels.fraction,
            "num_train_labels": len(labels.chosen),
            "levels": source.intensity_range,
            "seed": config.training.seed,
            **tested.scores,
            "classes": kind.classes(*outputs, names),
            **({"propagation": config.propagation.propagation} if config.propagation.propagation != NONE else {}),
            **({"multi_label": True} if source.multi_label else {}),
            "calibration": calibration(*kind.choices(*outputs), held_out, selection.temperature),
            "phases": results,
            "search": selection.records,
            "steps": sum(phase["steps"] for phase in results.values()),
            "wall_seconds": phases.seconds,
        }
    )
    return result, phases


class Selection(NamedTuple):
    """The settings to train with on all chosen labels."""

    records: list[dict[str, Any]]  # of all trials; empty if there was nothing to choose
    config: EfficientConfig  # the run's settings with the best of these
    length: Length | None = None  # of the first phase, if it was chosen; None: as given
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
        trial = replace(in_folder(config, SEARCH, phase, str(number)), **settings)
        try:
            scores = _scores(trial, phases)
        except loop.Diverged as error:
            divergence, scores = error.with_traceback(None), DIVERGED  # whose frames hold a network
        records.append({"phase": phase, **settings, **scores, "chosen": False})
        _report(f"{phase}, settings {number + 1} of {len(tried)}", records[-1], phases)
    if divergence and all(record.get("diverged") for record in records):
        raise divergence
    chosen = choose(records, phases.inputs.score)
    length = Length(records[chosen]["steps"], records[chosen]["drop_step"]) if config.sgd.patience else None
    selection = Selection(records, replace(config, **tried[chosen]), length)
    if not fine_tuning(config):
        return selection
    # Chosen lengths are trained once more: of a phase that went on after them only the last checkpoints are there.
    names = [SEARCH, phase, str(chosen), *(["best"] if length else [])]
    return _select_length(selection, in_folder(selection.config, *names), phases)


def as_given(config: EfficientConfig) -> Selection:
    """Returns the settings as they are given, where there is nothing to choose."""
    return Selection([], replace(config, **trials(config)[0]))


def _scores(trial: EfficientConfig, phases: Phases) -> dict[str, Any]:
    """Trains the first phase of a trial, of the given length or until its score stays; returns what it reached.

    A function of its own, so that no network of a trial is left when the next one is loaded.
    """
    if trial.sgd.patience:
        reached = phases.converge(trial)
        return {**held_out(reached.best), **reached.length._asdict(), "converged": reached.ended}
    trainee = phases.first(trial, "fit")
    return {**phases.held_out(trial, trainee), "steps": int(trainee.step.numpy())}


def _select_length(selection: Selection, first: EfficientConfig, phases: Phases) -> Selection:
    """Selects rate and length of fine-tuning; `first` has the settings and the folder of the best trial."""
    config = selection.config
    start = phases.first(first, "fit", selection.length)  # of a given length: finished before, only restored
    weights = start.classifier.get_weights()
    untuned = {"phase": FINE_TUNED, "encoder_rate": 0.0, **phases.held_out(first, start), "steps": 0, "chosen": False}
    records, rates = [untuned], config.search.numbers("search_encoder_rates") or [config.sgd.encoder_rate]
    for rate in rates:
        tuned = replace(in_folder(config, SEARCH, FINE_TUNED, f"{rate:g}"), encoder_rate=rate)
        trial = {"phase": FINE_TUNED, "encoder_rate": rate}
        start.classifier.set_weights(weights)
        try:
            _, steps = phases.fine_tune(tuned, start, "fit", config.sgd.finetune_steps, evaluated=True)
            evaluated = [step for step in steps if phases.inputs.score in step]
            records += [{**trial, **held_out(step), "steps": step["step"], "chosen": False} for step in evaluated]
        except loop.Diverged:
            records.append({**trial, **DIVERGED, "chosen": False})
        _report(f"{FINE_TUNED}, encoder rate {rate:g}", records[-1], phases)
    chosen = records[choose(records, phases.inputs.score)]
    tuned = replace(config, encoder_rate=chosen["encoder_rate"] or rates[0])
    return Selection([*selection.records, *records], tuned, selection.length, chosen["steps"])


def trials(config: EfficientConfig) -> list[dict[str, Any]]:
    """Returns the settings to try in the first phase, {flag: value}: the given ones, then random ones.

    Rates, multiples of the batch and several backbones are drawn from their lists, weight decay uniformly on the log
    scale, dropout uniformly. A function of the seed: trial n is the same whatever the number of trials.
    """
    search, backbones = config.search, config.classifier.backbones
    settings = {
        "learning_rate": config.sgd.learning_rate,
        "weight_decay": config.sgd.weight_decay,
        "dropout": config.classifier.dropout,
        "batch_size": config.training.batch_size,
    }
    several = len(backbones) > 1
    tried = [{**settings, **({"backbone": backbones[0]} if several else {})}]
    for number in range(1, search.search_trials):
        random = np.random.default_rng([config.training.seed, number])
        decay = np.exp(random.uniform(*np.log(search.numbers("search_decays"))))
        tried.append(
            {
                "learning_rate": float(random.choice(search.numbers("search_rates") or [settings["learning_rate"]])),
                "weight_decay": float(f"{decay:.3g}"),
                "dropout": min(0.99, round(random.uniform(*search.numbers("search_dropouts")), 3)),
                "batch_size": settings["batch_size"] * int(random.choice(search.numbers("search_multiples"))),
                **({"backbone": str(random.choice(backbones))} if several else {}),
            }
        )
    return tried


def _report(title: str, record: dict[str, Any], phases: Phases) -> None:
    """Prints what a trial scored on the held-out labels, and on how many."""
    if record.get("diverged"):
        print(f"{title}: diverged", flush=True)
    else:
        kind = phases.inputs.kind
        scores = {kind.main: record[f"held_out_{kind.main}"], "tested": phases.inputs.held_out}
        print(f"{title}: held-out {kind.score_names[kind.main]} {kind.value(kind.main, scores)}", flush=True)


def _train(selection: Selection, phases: Phases) -> tuple[Tested, dict[str, dict[str, Any]]]:
    """Trains on all chosen labels; returns the test of the last phase, and the scores and steps of each."""
    config, steps, first = selection.config, selection.finetune_steps, first_phase(selection.config)
    trainee = _on_chosen(config, phases, selection.records, selection.length)
    tested = phases.test(config, trainee)
    results = {first: {**tested.scores, "steps": int(trainee.step.numpy())}}
    if fine_tuning(config):
        if steps:
            trainee, _ = phases.fine_tune(in_folder(config, FINE_TUNED), trainee, "chosen", steps)
            tested = phases.test(config, trainee)
        results[FINE_TUNED] = {**tested.scores, "steps": steps}
    return tested, results


def _on_chosen(
    config: EfficientConfig, phases: Phases, records: list[dict[str, Any]], length: Length | None
) -> Classification:
    """Trains the first phase on all chosen labels.

    With --stop_at_loss it goes on from the trial that was chosen of `records`, and learns the held-out labels, too.
    """
    begin, first = None, first_phase(config)
    if config.sgd.stop_at_loss and records:
        trial = next(number for number, record in enumerate(records) if record["chosen"])
        begin = phases.first(in_folder(config, SEARCH, first, str(trial)), "fit")  # trained before, only restored
        print("with the held-out labels, too, from there on:", flush=True)
    return phases.first(in_folder(config, first), "chosen", length, begin)


def _refit(workdir: Workdir, result: dict[str, Any], phases: Phases) -> dict[str, Any]:
    """Trains the phases of a run that has its result on all labels, those of the test too; returns it with 'refit'.

    Settings and lengths are those that the run chose. With --stop_at_loss the classifier goes on from the tested one.
    """
    workdir.begin(0)  # a run that had ended without --refit has it from now on
    names = [name for name, phase in result["phases"].items() if phase["steps"]]
    chosen = {name: replace(read_config(workdir.file(name), EfficientConfig), workdir=workdir.path) for name in names}
    first, length, begin = first_phase(workdir.config), None, None
    if workdir.config.sgd.patience:
        record = next(record for record in result["search"] if record["chosen"])
        length = Length(record["steps"], record["drop_step"])
    if workdir.config.sgd.stop_at_loss:
        begin = _on_chosen(chosen[first], phases, result["search"], length)  # trained before, only restored
    phases = phases.on_all_labels()
    count, views = phases.inputs.count, phases.inputs.config.sgd.cached_views
    print(f"refit: on all {count} labels, those of the test too", flush=True)
    steps = {}
    with fetching(*phases.inputs.sources, *filter(None, [phases.inputs.unlabelled])):
        for name in names:
            config = in_folder(replace(chosen[name], cached_views=views), REFIT, name)
            if name == first:
                trainee = phases.first(config, "chosen", length, begin)
            else:
                trainee, _ = phases.fine_tune(config, trainee, "chosen", result["phases"][name]["steps"])
            steps[name] = {"steps": int(trainee.step.numpy())}
    return workdir.finish({**result, REFIT: {"num_train_labels": count, "phases": steps}})


def _draw(phases: Phases, workdir: Workdir) -> None:
    """Draws what was predicted of test images, and a map of them by the features of the encoder, if there is one."""
    from cpc_tf.drawing import map as embedding_map  # here: a training does not need Matplotlib
    from cpc_tf.drawing import predictions as sheet

    test_source, config = phases.inputs.sources[1], workdir.config
    sample = None
    if config.classifier.encoder != PIXELS:
        with fetching(test_source):  # several workers encode together
            sample = phases.inputs.sample("test", embedding_map.SAMPLE)
    if workdir.chief:
        sheet.write_sheet(workdir.path, test_source, config.images)
        if sample:
            images, (features, labels) = sample
            embedding_map.write(workdir.path, features, images, labels, phases.inputs.class_names)
