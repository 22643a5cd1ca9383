"""Classification with few labels (appendix C of the paper): on an encoder, frozen and fine-tuned, or on pixels."""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from cpc_tf.augment.config import warn_of_colour
from cpc_tf.data import catalog
from cpc_tf.data.pipeline import fetching
from cpc_tf.data.source import Source
from cpc_tf.efficient.config import NONE, EfficientConfig
from cpc_tf.efficient.inputs import Inputs
from cpc_tf.efficient.labels import Labels, choose_labels, from_encoder, from_labels
from cpc_tf.efficient.phases import (
    Phases,
    Selection,
    Tested,
    as_given,
    fine_tuning,
    first_phase,
    load_encoder,
    select,
)
from cpc_tf.encoders.config import PIXELS
from cpc_tf.evaluation import calibration, class_counts, label_kinds, predictions
from cpc_tf.settings import ConfigError, replace
from cpc_tf.training.kept_data import keep_data
from cpc_tf.training.phases import FINE_TUNED, in_folder
from cpc_tf.training.workdir import Workdir, open_run

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
        result = workdir.result(_is_whole)
        if result is None:
            result = _run(workdir, strategy, data)
        else:
            print(f"{config.workdir}: already finished", flush=True)
        kind = label_kinds.of_result(result)
        for phase in result["phases"]:
            print(f"{phase:12} {kind.described(result, phase)}")
        print(*class_counts.lines(result), *kind.caution(result), f"results: {config.workdir}", sep="\n", flush=True)
    return result


def _is_whole(result: dict[str, Any]) -> bool:
    phases = result.get("phases")
    scores = phases.values() if isinstance(phases, dict) and phases else [None]
    wanted = label_kinds.of_result(result).main
    return all(isinstance(phase, dict) and wanted in phase for phase in scores)


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
    propagated = config.propagation.propagation
    if propagated == NONE:
        return Data(source, test_source, None, summary)
    if source.several_labels:
        raise ConfigError("propagation", propagated, "needs pictures with one label each; these have several")
    unlabelled = catalog.open_unlabelled(config.data, source)
    told = f"--propagation={propagated}: {unlabelled.num_examples} images, whose labels are not used"
    return Data(source, test_source, unlabelled, f"{summary}\n{told}")


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
    config, of_encoder = from_encoder(config)
    source, test_source, unlabelled, summary = data or open_data(config)
    print(summary, flush=True)
    if config.classifier.encoder == PIXELS and config.classifier.blocks:
        blocks = config.classifier.head_blocks
        print(f"--head_blocks={blocks}: residual blocks after the network of --encoder={PIXELS}", flush=True)
    labels = choose_labels(source.labels(), source.class_names, config.labels, config.training.seed, source.groups())
    config, of_labels = from_labels(config, labels, strategy.num_replicas_in_sync)
    for line in filter(None, (of_encoder, of_labels)):
        print(line, flush=True)
    encoder = load_encoder(config, strategy)
    if config.augment.policy.always_grey:
        print(f"--augment={config.augment.title}: images are grey, in the test, too", flush=True)
    else:
        warn_of_colour(encoder.text, encoder.learned.augment, encoder.learned.augment_changes)
    inputs = Inputs(config, encoder, source, test_source, labels, strategy, unlabelled)
    return labels, Phases(encoder, inputs, strategy)


def _run(workdir: Workdir, strategy: tf.distribute.Strategy, data: Data) -> dict[str, Any]:
    labels, phases = prepare(workdir.config, strategy, data)
    config = workdir.config = phases.inputs.config
    names, levels = phases.inputs.class_names, phases.inputs.sources[0].intensity_range
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
    files, kind = phases.inputs.sources[1].names(), phases.inputs.kind
    choices = kind.choices(tested.logits, tested.labels)
    workdir.write("predictions.csv", predictions.to_csv(files, tested.logits, tested.labels, names, kind))
    _draw(phases, workdir)
    held_out = len(labels.held_out) if selection.records else 0
    dataset, part = PARTS.get(config.data.origin.partition(":")[0], (config.data.origin, 1.0))
    return workdir.finish(
        {
            "encoder": config.classifier.encoder,
            "identity": phases.encoder.identity.to_json(),
            "backbone": selection.config.classifier.backbone,
            "dataset": dataset,
            "num_classes": len(names),
            "class_names": names,
            "label_fraction": part * labels.fraction,
            "num_train_labels": len(labels.chosen),
            "levels": levels,
            "seed": config.training.seed,
            **tested.scores,
            "classes": kind.classes(tested.logits, tested.labels, names),
            **({"propagation": propagated} if (propagated := config.propagation.propagation) != NONE else {}),
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


def _train(selection: Selection, phases: Phases) -> tuple[Tested, dict[str, dict[str, Any]]]:
    """Trains on all chosen labels; returns the test of the last phase, and the scores and steps of each."""
    config, steps = selection.config, selection.finetune_steps
    first = first_phase(config)
    trainee = phases.first(in_folder(config, first), "chosen", selection.length)
    tested = phases.test(config, trainee)
    results = {first: {**tested.scores, "steps": int(trainee.step.numpy())}}
    if fine_tuning(config):
        if steps:
            trainee, _ = phases.fine_tune(in_folder(config, FINE_TUNED), trainee, "chosen", steps)
            tested = phases.test(config, trainee)
        results[FINE_TUNED] = {**tested.scores, "steps": steps}
    return tested, results
