"""A run of pre-training or on labels -> its encoder, restored in float32 and made a module."""

from __future__ import annotations

import dataclasses
import functools
import os
from typing import Any

import numpy as np
import tensorflow as tf

from cpc_tf.data.config import GeometryConfig
from cpc_tf.efficient.classifier import FINE_TUNED, SUPERVISED
from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.encoders.card import EncoderCard, EncoderName, Training, module_name
from cpc_tf.encoders.load import LoadedEncoder, load_feature_maps, with_values
from cpc_tf.encoders.network import Network
from cpc_tf.encoders.networks import NETWORKS
from cpc_tf.evaluation import label_kinds
from cpc_tf.export.module import Export, HubEncoder, encoder_reference, save
from cpc_tf.export.restore import (
    dataset_name,
    needed,
    read_checkpoint,
    read_levels,
    render,
    restore,
    result_of,
    result_of_ended,
    run_name,
    versions,
)
from cpc_tf.export.verify import NotVerified
from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.pretrain.trainee import build_model, read_initial_card
from cpc_tf.settings import ConfigError, replace
from cpc_tf.training.workdir import read_config

TOLERANCE = 1e-4  # of features, relative to the largest of them


def export_pretraining(run: PretrainConfig, workdir: str, step: int, weights: str) -> Export:
    """Returns the encoder of a pre-training run, with 'averaged' or 'raw' weights."""
    model = build_model(replace(run, precision="float32"))

    def read(path: str) -> None:
        restore(path, model=model)
        if weights == "averaged":
            # The averages straight into the variables they are averages of. Statistics of batch norm have none.
            restore(path, average=tf.train.Checkpoint(averages=model.trainable_variables))

    step = read_checkpoint(workdir, step, read)
    before = None
    if run.initial_encoder:
        with needed(workdir):
            before = read_initial_card(run.initial_encoder).training
        before = dataclasses.replace(before, module=module_name(run.initial_encoder))
    objective, result = run.objective.kind, result_of(workdir)
    training = Training(
        objective=objective.NAME,
        dataset=dataset_name(run.data.origin),
        augment=run.augment.augment,
        augment_changes=run.augment.augment_changes or None,
        seed=run.training.seed,
        run=run_name(workdir),
        step=step,
        weights=weights,
        began_as=before,
    )
    figures = [(text, form.format(result[key])) for key, (text, form) in objective.FIGURES.items() if key in result]
    facts = {"objective": objective, "run": run, "result": result, "figures": figures}
    return _export(model.encoder, run.geometry, training, workdir, **facts)


def export_efficient(run: EfficientConfig, workdir: str, step: int, weights: str) -> Export:
    """Returns the encoder that a run on labels trained or fine-tuned.

    Only fine-tuning with --encoder_adam=paper has averages; without them the raw weights are exported, whatever
    `weights` is.
    """
    name, result = EncoderName.parse(run.classifier.encoder), result_of_ended(workdir, "efficient")
    phase = _trained_phase(run, workdir, result)
    with needed(workdir):
        before = None if name.is_new else name.card()
    folder = os.path.join(workdir, phase)
    averaged = phase == FINE_TUNED and run.sgd.encoder_adam == "paper" and weights == "averaged"
    chosen = read_config(folder, EfficientConfig)  # the phase has settings of its own: the search chose them
    encoder, step = _load_trained(chosen, before, folder, step, averaged)
    training = Training(
        dataset=dataset_name(result.get("dataset", run.data.origin)),
        augment=run.augment.augment,
        augment_changes=run.augment.augment_changes or None,
        seed=run.training.seed,
        run=run_name(workdir),
        step=step,
        weights="averaged" if averaged else "raw",
        phase=phase,
        num_train_labels=result["num_train_labels"],
        label_fraction=result["label_fraction"],
        began_as=dataclasses.replace(before.training, module=module_name(name.module), phase=None) if before else None,
    )
    images, side = chosen.images, chosen.images.image_size
    whole = {"image_size": side, "patch_size": side, "patch_stride": side}
    geometry = before.geometry if before else GeometryConfig(resize=images.resize, mirror=images.mirror, **whole)
    facts = {"run": chosen, "result": result, "figures": label_kinds.of_result(result).titled(result, phase)}
    return _export(encoder, geometry, training, workdir, **facts)


def _trained_phase(run: EfficientConfig, workdir: str, result: dict[str, Any]) -> str:
    """Returns the phase in which the encoder was trained. Raises ConfigError if there is none."""
    if SUPERVISED in result["phases"]:
        return SUPERVISED
    if result["phases"].get(FINE_TUNED, {"steps": 0})["steps"]:
        return FINE_TUNED
    name = run.classifier.encoder
    reason = "0 steps of fine-tuning did best" if run.sgd.finetune_steps else "--finetune_steps=0"
    way_out = "there is nothing to export" if EncoderName.parse(name).is_new else f"use --encoder={name} itself"
    raise ConfigError(f"--workdir={workdir}: its encoder never changed ({reason}); {way_out}")


def original_maps(run: EfficientConfig, workdir: str) -> LoadedEncoder:
    """Returns the encoder as the run began with it, in float32. Raises ConfigError if its module is gone."""
    chosen, seed = run.classifier, run.training.seed
    with needed(workdir):
        return load_feature_maps(
            chosen.encoder,
            chosen.endpoint,
            run.images.image_size,
            backbone=chosen.backbone,
            seed=seed,
            norm=chosen.norm,
            signature=chosen.signature,
        )


def restore_maps(path: str, maps: LoadedEncoder, averaged: bool) -> None:
    """Reads the encoder, or its averages, from a checkpoint of a phase that trained it. Raises ConfigError."""
    try:
        restore(path, encoder=maps.saved())
        if averaged:
            restore(path, average=tf.train.Checkpoint(averages=maps.trainable_variables))
    except (AssertionError, ValueError) as error:
        raise ConfigError(
            f"--encoder={maps.text}: no longer what {path} was trained from: other variables; bring it back"
        ) from error


def _load_trained(
    run: EfficientConfig, before: EncoderCard | None, folder: str, step: int, averaged: bool
) -> tuple[Network, int]:
    """Returns the encoder of a phase, in `folder`, and the step; `before` is the card of the module it began as."""
    chosen = run.classifier
    maps = original_maps(run, folder)
    step = read_checkpoint(folder, step, lambda path: restore_maps(path, maps, averaged))
    if isinstance(maps.encoder, Network):
        return maps.encoder, step
    # The layer lists trainable variables first, the SavedModel lists them in the order of `Network.variables`.
    encoder = with_values(before.encoder, maps.encoder.resolved_object.variables, chosen.encoder)
    # Variables of equal shapes could have been mixed up.
    side = before.geometry.patch_size
    images = tf.constant(np.random.default_rng(0).uniform(size=[2, side, side, 3]).astype(np.float32))
    wanted = maps.outputs(images)
    wanted = wanted["features"] if isinstance(wanted, dict) else wanted[:, 0, 0]  # [2, D]; of the only patch
    difference = float(np.abs(encoder(images) - wanted).max() / max(np.abs(wanted).max(), 1e-30))
    if not difference <= TOLERANCE:
        raise NotVerified(f"features of the rebuilt encoder differ from the run's by {difference:.1e} of their scale")
    return encoder, step


def _export(encoder: Network, geometry: GeometryConfig, training: Training, workdir: str, **facts: Any) -> Export:
    """Returns an encoder, with its values and in float32, as a module; its README also has these `facts` of the run."""
    encoder.recompute = False  # the card keeps the setting of the run
    parameters = int(sum(np.prod(v.shape) for v in encoder.trainable_variables))
    card = EncoderCard(
        encoder.config,
        geometry,
        training,
        encoder.feature_dim,
        parameters,
        versions("tensorflow-hub"),
        read_levels(workdir),
    )
    module = HubEncoder(encoder, geometry)
    options = [name for name in NETWORKS[encoder.config.encoder].options if name != "recompute"]
    endpoints = [name for name in module.endpoint_names() if name not in ("feature_map", "features")]
    return Export(
        kind="encoder",
        module=module,
        save=save,
        card=card.to_json(),
        readme=render("encoder", card=card, options=options, endpoints=endpoints, **facts),
        reference=functools.partial(encoder_reference, encoder, geometry),
        summary=(
            f"{encoder.config.encoder}, {training.weights} weights of step {training.step}; in a fresh process: "
            "largest difference {difference:.0e}, {variables} variables trainable"
        ),
    )
