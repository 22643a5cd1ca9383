"""Classification with few labels (appendix C of the paper): on an encoder, frozen and fine-tuned,
or on pixels.

Settings are selected on held-out labels by random search in the space of appendix C.1; then a
classifier is trained with the best of them on all chosen labels, and tested once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from cpc_tf.augment.config import warn_of_colour
from cpc_tf.core.files import read_json, to_json
from cpc_tf.core.settings import replace
from cpc_tf.data.pipeline import fetching
from cpc_tf.efficient.classifier import Classification
from cpc_tf.efficient.config import PARTS, EfficientConfig
from cpc_tf.efficient.data import FewLabelData, choose, open_data, relabelled
from cpc_tf.efficient.inputs import Inputs, Labels, from_encoder, from_labels, loss_of_guessing
from cpc_tf.efficient.phases import (
    ClassifierPhases,
    ClassifierTest,
    fine_tuning,
    first_phase,
    load_encoder,
)
from cpc_tf.efficient.propagation_config import NONE, SELF_TRAINING
from cpc_tf.efficient.selection import Selection, as_given, length_of_chosen, select
from cpc_tf.encoders.config import PIXELS
from cpc_tf.evaluation import label_kinds
from cpc_tf.evaluation.counts import interval
from cpc_tf.evaluation.predictions import PREDICTIONS, predictions_csv
from cpc_tf.evaluation.scores import calibration
from cpc_tf.training.kept_data import keep_data
from cpc_tf.training.phases import FINE_TUNED, SEARCH, Length, in_folder
from cpc_tf.training.session import open_run
from cpc_tf.training.workdir import REFIT, Workdir, read_config

PSEUDO_LABELS = (  # of self-training: the label of each image that the second training learns from
    "pseudo_labels.json"
)


def efficient(config: EfficientConfig) -> dict[str, Any]:
    """Selects settings, trains, tests and prints the accuracies; returns the content of
    result.json.

    A finished run is not tested again: its result is read.

    Raises:
      ConfigError, loop.Stopped, loop.Diverged.
    """
    with open_run(config, "efficient") as (workdir, strategy):
        data = open_data(config)
        keep_data(workdir, strategy, data.splits)
        result, phases = _finished(config, workdir, strategy, data)
        if config.labels.refit and REFIT not in result:
            result = _refit(workdir, result, phases or prepare(workdir.config, strategy, data)[1])
        if REFIT in result:
            count = result[REFIT]["num_train_labels"]
            print(
                f"refit: cpc-tf export writes the classifier trained on all {count} labels,"
                " including those of the test; the figures are those of the classifier before"
                " that",
                flush=True,
            )
    return result


def _finished(
    config: EfficientConfig, workdir: Workdir, strategy: tf.distribute.Strategy, data: FewLabelData
) -> tuple[dict[str, Any], ClassifierPhases | None]:
    """Finishes a run if need be and prints what it reached; returns its result, and its phases if
    it was not finished.

    `config` are the settings as they are given; those of `workdir` may have been derived by a
    session before.
    """
    result = workdir.result(_is_whole)
    phases = None
    if result is None:
        taught = None
        if config.propagation.propagation == SELF_TRAINING:
            taught = _taught(config.of_teacher(), workdir, strategy, data)
        result, phases = _run(workdir, strategy, data, taught)
    else:
        print(f"{workdir.path}: already finished", flush=True)
    kind = label_kinds.of_result(result)
    for phase in result["phases"]:
        print(f"{phase:12} {kind.described(result, phase)}")
    lines = [*label_kinds.meanings(result), *calibration_lines(result), *kind.remarks(result)]
    print(*lines, f"results: {workdir.path}", sep="\n", flush=True)
    return result, phases


def calibration_lines(result: dict[str, Any]) -> list[str]:
    """Returns lines of text on how far the probabilities of a result.json can be trusted."""
    values = result["calibration"]
    confidence, right = (f"{100 * values[name]:.0f} %" for name in ("confidence", "right"))
    error = f"calibration error {100 * values['ece']:.0f} points"
    if values["fitted"]:
        fitted_on = f"calibrated on {values['held_out']} held-out labels"
        remedy = "more labels make them better"
    else:
        fitted_on = "not calibrated"
        remedy = "--held_out keeps labels aside to calibrate them"
    lines = [f"probabilities: {confidence} on average, {right} are right; {error}, {fitted_on}"]
    _, high = interval(values["right"] * values["tested"], values["tested"])
    if values["confidence"] > high:
        if result["encoder"] != PIXELS:
            remedy += "; cpc-tf classify on this encoder calibrates them on all labels"
        lines.append(f"note: these probabilities are too high; rely on the scores above. {remedy}")
    return lines


def _taught(
    config: EfficientConfig, student: Workdir, strategy: tf.distribute.Strategy, data: FewLabelData
) -> np.ndarray:
    """Returns the class that the first classifier of self-training predicts of each of its images,
    int64 [N].

    It is trained, tested and selected as a run of its own; its predictions are kept in the
    directory of `student`.
    """
    path = student.file(PSEUDO_LABELS)
    if tf.io.gfile.exists(path):
        return np.array(read_json(path)["predicted"], np.int64)
    print(f"self-training, first on the labels alone: {config.workdir}", flush=True)
    workdir = Workdir(config, "efficient", student.chief)
    pool = data.pool
    data = data._replace(unlabelled=None)
    result, phases = _finished(config, workdir, strategy, data)
    phases = phases or prepare(workdir.config, strategy, data)[1]
    # Trained before, only restored.
    for name, chosen in _settings_of_phases(workdir, result).items():
        steps = result["phases"][name]["steps"]
        if name == first_phase(config):
            trainee = phases.first(in_folder(chosen, name), "chosen", Length(steps))
        else:
            trainee, _ = phases.fine_tune(in_folder(chosen, name), trainee, "chosen", steps)
    with fetching(pool):
        predicted = trainee.classes(phases.inputs.images(pool))
    student.write(PSEUDO_LABELS, to_json({"predicted": predicted.tolist()}))
    return predicted


def _is_whole(result: dict[str, Any]) -> bool:
    phases = result.get("phases")
    main = label_kinds.of_result(result).main
    scores = phases.values() if isinstance(phases, dict) and phases else [None]
    return all(isinstance(phase, dict) and main in phase for phase in scores)


def prepare(
    config: EfficientConfig,
    strategy: tf.distribute.Strategy,
    data: FewLabelData | None = None,
    taught: np.ndarray | None = None,
) -> tuple[Labels, ClassifierPhases]:
    """Prints a summary of the data, chooses the labels and loads the encoder.

    What the settings leave open is derived: those of the run are `ClassifierPhases.inputs.config`.

    Args:
      config: of the run.
      strategy: of the run.
      data: as `open_data` returns it, which is called without it.
      taught: for the second training of self-training, see `_taught`.

    Raises:
      ConfigError: see `open_data`, `choose` and `load_encoder`.
    """
    config, encoder_line = from_encoder(config)
    data = data or open_data(config)
    print(data.summary, flush=True)
    if config.classifier.encoder == PIXELS and config.classifier.blocks:
        blocks = config.classifier.head_blocks
        print(
            f"--head_blocks={blocks}: residual blocks after the network of --encoder={PIXELS}",
            flush=True,
        )
    labels, split_line = choose(config, data)
    source = data.source
    learned = labels
    unlabelled = data.pool
    taught_line = ""
    if taught is not None:
        source, learned = relabelled(source, labels, unlabelled, taught)
        unlabelled = None
        num_labels = len(labels.chosen)
        taught_line = (
            f"self-training, anew on {source.num_examples} images: {num_labels} labels, the others"
            " predicted"
        )
    guess = loss_of_guessing(source.labels()[learned.chosen])
    config, labels_line = from_labels(config, learned, strategy.num_replicas_in_sync, guess)
    for line in filter(None, (encoder_line, split_line, taught_line, labels_line)):
        print(line, flush=True)
    encoder = load_encoder(config, strategy)
    if config.augment.policy.always_grey:
        print(
            f"--augment={config.augment.title}: all images are made grey, also in the test",
            flush=True,
        )
    else:
        warn_of_colour(encoder.text, encoder.learned.augment, encoder.learned.augment_changes)
    inputs = Inputs(
        config, encoder, source, data.test_source, learned, strategy, unlabelled, data.validation
    )
    return labels, ClassifierPhases(encoder, inputs, strategy)


def _run(
    workdir: Workdir,
    strategy: tf.distribute.Strategy,
    data: FewLabelData,
    taught: np.ndarray | None,
) -> tuple[dict[str, Any], ClassifierPhases]:
    labels, phases = prepare(workdir.config, strategy, data, taught)
    config = workdir.config = phases.inputs.config
    (source, test_source), names = phases.inputs.sources, phases.inputs.class_names
    workdir.begin(0)
    workdir.write("labels.json", labels.to_json())
    print(f"{len(labels.chosen)} labels of {len(names)} classes", flush=True)
    with fetching(*phases.inputs.sources, *filter(None, [phases.inputs.unlabelled])):
        if not phases.inputs.held_out:
            print("no labels are held out: settings and lengths are used as given", flush=True)
            selection = as_given(config)._replace(finetune_steps=fine_tuning(config))
        else:
            selection = select(config, phases)
        tested, results = _train(selection, phases)

    # The files of the run.
    kind = phases.inputs.kind
    outputs = (tested.logits, tested.labels)
    workdir.write(PREDICTIONS, predictions_csv(test_source.names(), *outputs, names, kind))
    _draw(phases, workdir)
    held_out = phases.inputs.held_out if selection.records else 0
    split = config.labels.validation_split
    validation = {"validation": {"split": split, "labels": phases.inputs.held_out}} if split else {}
    method = config.propagation.propagation
    propagation = {} if method == NONE else {"propagation": method}
    multi_label = {"multi_label": True} if source.multi_label else {}
    dataset, part = PARTS.get(config.data.ref.builder, (config.data.origin, 1.0))
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
            **validation,
            "levels": source.intensity_range,
            "seed": config.training.seed,
            **tested.scores,
            "classes": kind.classes(*outputs, names),
            **propagation,
            **multi_label,
            "calibration": calibration(*kind.choices(*outputs), held_out, selection.temperature),
            "phases": results,
            "search": selection.records,
            "steps": sum(phase["steps"] for phase in results.values()),
            "wall_seconds": phases.seconds,
        }
    )
    return result, phases


def _train(
    selection: Selection, phases: ClassifierPhases
) -> tuple[ClassifierTest, dict[str, dict[str, Any]]]:
    """Trains on all chosen labels; returns the test of the last phase, and the scores and steps of
    each.

    A length that was found on a part of these labels is kept in epochs.
    """
    config = selection.config
    length = selection.length
    steps = selection.finetune_steps
    if length:
        more = phases.inputs.size("chosen") / phases.inputs.size("fit")
        length = length.times(more)
        steps = round(steps * more)
    first = first_phase(config)
    trainee = _on_chosen(config, phases, selection.records, length)
    tested = phases.test(config, trainee)
    results = {first: {**tested.scores, "steps": int(trainee.step.numpy())}}
    if fine_tuning(config):
        if steps:
            trainee, _ = phases.fine_tune(in_folder(config, FINE_TUNED), trainee, "chosen", steps)
            tested = phases.test(config, trainee)
        results[FINE_TUNED] = {**tested.scores, "steps": steps}
    return tested, results


def _on_chosen(
    config: EfficientConfig,
    phases: ClassifierPhases,
    records: list[dict[str, Any]],
    length: Length | None,
) -> Classification:
    """Trains the first phase on all chosen labels.

    With --stop_at_loss it goes on from the trial that was chosen of `records`, and learns the
    held-out labels, too.
    """
    begin = None
    first = first_phase(config)
    if config.sgd.stop_at_loss and records:
        trial = next(number for number, record in enumerate(records) if record["chosen"])
        # Trained before, only restored.
        begin = phases.first(in_folder(config, SEARCH, first, str(trial)), "fit")
        print("training goes on from the chosen trial, with the held-out labels, too:", flush=True)
    return phases.first(in_folder(config, first), "chosen", length, begin)


def _refit(workdir: Workdir, result: dict[str, Any], phases: ClassifierPhases) -> dict[str, Any]:
    """Trains the phases of a run that has its result on all labels, those of the test too; returns
    it with 'refit'.

    Settings and lengths are those that the run chose; a length that --patience found is kept in
    epochs. With --stop_at_loss the classifier goes on from the tested one.
    """
    workdir.begin(0)  # a run that had ended without --refit has it from now on
    chosen = _settings_of_phases(workdir, result)
    first = first_phase(workdir.config)
    length = None
    begin = None
    more = 1.0
    if workdir.config.sgd.stop_at_loss:
        # Trained before, only restored.
        begin = _on_chosen(chosen[first], phases, result["search"], None)
    before = phases.inputs
    phases = phases.on_all_labels()
    if workdir.config.sgd.patience:
        length = length_of_chosen(result["search"]).times(phases.inputs.count / before.size("fit"))
        more = phases.inputs.count / before.count
    count = phases.inputs.count
    views = phases.inputs.config.sgd.cached_views
    print(f"refit: on all {count} labels, including those of the test", flush=True)
    steps = {}
    with fetching(*phases.inputs.sources, *filter(None, [phases.inputs.unlabelled])):
        for name in chosen:
            config = in_folder(replace(chosen[name], cached_views=views), REFIT, name)
            if name == first:
                trainee = phases.first(config, "chosen", length, begin)
            else:
                finetune_steps = round(result["phases"][name]["steps"] * more)
                trainee, _ = phases.fine_tune(config, trainee, "chosen", finetune_steps)
            steps[name] = {"steps": int(trainee.step.numpy())}
    return workdir.finish({**result, REFIT: {"num_train_labels": count, "phases": steps}})


def _settings_of_phases(workdir: Workdir, result: dict[str, Any]) -> dict[str, EfficientConfig]:
    """Returns {phase: settings} of those that a run with this result trained, in its directory: as
    they were chosen.
    """
    names = [name for name, phase in result["phases"].items() if phase["steps"]]
    return {
        name: replace(read_config(workdir.file(name), EfficientConfig), workdir=workdir.path)
        for name in names
    }


def _draw(phases: ClassifierPhases, workdir: Workdir) -> None:
    """Draws what was predicted of test images, and a map of them by the features of the encoder, if
    there is one.
    """
    from cpc_tf.drawing import map as embedding_map  # here: a training does not need Matplotlib
    from cpc_tf.drawing import predictions as sheet

    test_source = phases.inputs.sources[1]
    config = workdir.config
    sample = None
    if config.classifier.encoder != PIXELS:
        with fetching(test_source):  # several workers encode together
            sample = phases.inputs.sample("test", embedding_map.SAMPLE)
    if workdir.chief:
        sheet.write_sheet(workdir.path, test_source, config.images)
        if sample:
            images, (features, labels) = sample
            embedding_map.write(workdir.path, features, images, labels, phases.inputs.class_names)
