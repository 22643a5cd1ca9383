"""A pre-training run -> its encoder as a checked TF-Hub module."""

from __future__ import annotations

import dataclasses
from typing import Any

from cpc_tf.encoders.card import Training, module_name
from cpc_tf.export.config import ExportConfig
from cpc_tf.export.encoder import History, past, run_row, write_encoder
from cpc_tf.export.readme import NO_FIGURES, dataset_name, measured_at, table, without_folders
from cpc_tf.export.restored import load_pretrained, result_of
from cpc_tf.objectives.base import Objective
from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.pretrain.trainee import read_initial_card
from cpc_tf.settings import ConfigError


def export_pretraining(run: PretrainConfig, config: ExportConfig, directory: str) -> dict[str, Any]:
    """Writes the module to a directory; see `exporter.export` and `write_encoder`."""
    encoder, step = load_pretrained(run, config.workdir, config.weights, config.step)
    training = Training(
        objective=run.objective.kind.NAME,
        dataset=dataset_name(run.data.dataset),
        seed=run.training.seed,
        run=without_folders(config.workdir),
        step=step,
        weights=config.weights,
        began_as=_before(run, config.workdir),
    )
    history = describe(training, run, result_of(config.workdir))
    return write_encoder(encoder, run.geometry, training, history, config, directory)


def _before(run: PretrainConfig, workdir: str) -> Training | None:
    """How the module was trained that the run began with; None if it began with new values."""
    if not run.initial_encoder:
        return None
    try:
        training = read_initial_card(run.initial_encoder).training
    except ConfigError as error:
        raise ConfigError(f"--workdir={workdir}: the module that this run began with is needed: {error}") from error
    return dataclasses.replace(training, module=module_name(run.initial_encoder))


def describe(training: Training, run: PretrainConfig, result: dict[str, Any]) -> History:
    """What the README states of the run; `result` is empty if it has not ended."""
    objective, before = run.objective.kind, training.began_as
    return History(
        title=f"{objective.TITLE} encoder `{run.encoder.encoder}`, pre-trained on `{training.dataset}`",
        summary=f"It learned from pictures without labels,\nby {objective.SUMMARY}, as implemented by cpc_tf.",
        seen=f"In pre-training it saw {objective.VIEW.seen}.",
        rows=[
            ("pictures", f"`{training.dataset}`, split `{run.data.split}`, labels not used"),
            ("augmentation", f"`{run.augment.title}`"),
            run_row(training, run.training.batch_size),
            *([("began with", f"`{before.module}`: {past(before)}")] if before else []),
        ],
        figures=_figures(objective, result, training.step),
    )


def _figures(objective: type[Objective], result: dict[str, Any], step: int) -> str:
    """A table of what the run measured."""
    rows = [(text, form.format(result[key])) for key, (text, form) in objective.FIGURES.items() if key in result]
    return table(rows, measured_at("at the end of the run", result.get("step"), step)) if rows else NO_FIGURES
