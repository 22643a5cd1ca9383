"""A run of pre-training -> its encoder as a module."""

from __future__ import annotations

import dataclasses

import tensorflow as tf

from cpc_tf.core.settings import replace
from cpc_tf.encoders.card import Training, module_name
from cpc_tf.export.encoder import encoder_export
from cpc_tf.export.shared import (
    Export,
    dataset_name,
    missing_module_named,
    read_checkpoint,
    restore,
    result_of,
    run_name,
)
from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.pretrain.trainee import build_model, read_initial_card


def export_pretraining(run: PretrainConfig, workdir: str, step: int, weights: str) -> Export:
    """Returns the encoder of a pre-training run, with 'averaged' or 'raw' weights."""
    model = build_model(replace(run, precision="float32"))

    def read(path: str) -> None:
        restore(path, model=model)
        if weights == "averaged":
            # The averages straight into the variables they are averages of. Statistics of batch
            # norm have none.
            restore(path, average=tf.train.Checkpoint(averages=model.trainable_variables))

    step = read_checkpoint(workdir, step, read)
    before = None
    if run.initial_encoder:
        with missing_module_named(workdir):
            before = read_initial_card(run.initial_encoder).training
        before = dataclasses.replace(before, module=module_name(run.initial_encoder))
    objective = run.objective.kind
    result = result_of(workdir)
    training = Training(
        objective=objective.NAME,
        method=run.objective_settings.method(run.augment.augment),
        rung=run.rung or None,
        dataset=dataset_name(run.data.origin),
        augment=run.augment.augment,
        augment_changes=run.augment.augment_changes or None,
        seed=run.training.seed,
        run=run_name(workdir),
        step=step,
        weights=weights,
        began_as=before,
    )
    figures = [
        (text, form.format(result[key]))
        for key, (text, form) in objective.FIGURES.items()
        if key in result
    ]
    facts = {"objective": objective, "run": run, "result": result, "figures": figures}
    return encoder_export(model.encoder, run.geometry, training, workdir, **facts)
