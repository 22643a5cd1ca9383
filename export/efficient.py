"""A run with few labels -> its classifier with the encoder, or the encoder that it trained, as a
module.
"""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import numpy as np
import tensorflow as tf

from cpc_tf import augment
from cpc_tf.core.settings import ConfigError, replace
from cpc_tf.data.config import GeometryConfig
from cpc_tf.efficient.classifier import FINE_TUNED, FROZEN, SUPERVISED, build_classifier
from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.encoders.card import EncoderCard, EncoderName, Training, module_name
from cpc_tf.encoders.load import LoadedEncoder, load_feature_maps, with_values
from cpc_tf.encoders.network import Network
from cpc_tf.evaluation import label_kinds
from cpc_tf.export.classifier import (
    Classifying,
    classifier_export,
    measured,
    refuse_another,
)
from cpc_tf.export.encoder import TOLERANCE, encoder_export
from cpc_tf.export.shared import (
    Export,
    dataset_name,
    missing_module_named,
    read_checkpoint,
    restore,
    result_of_ended,
    run_name,
)
from cpc_tf.export.verify import NotVerified
from cpc_tf.training.workdir import REFIT, read_config


def export_classifier(run: EfficientConfig, workdir: str, step: int, weights: str) -> Export:
    """Returns the classifier that a run on few labels ended with: frozen, fine-tuned or supervised.

    Only fine-tuning with --encoder_adam=paper has averages; without them the raw weights are
    exported, whatever `weights` is.
    """
    result = result_of_ended(workdir, "efficient")
    refit = result.get(REFIT)
    trained = (refit or result)["phases"]
    phase = next(
        name for name in (SUPERVISED, FINE_TUNED, FROZEN) if trained.get(name, {}).get("steps")
    )
    folder = os.path.join(workdir, REFIT if refit else "", phase)
    names = result["class_names"]
    chosen = replace(read_config(folder, EfficientConfig), precision="float32", recompute=False)
    averaged = phase == FINE_TUNED and run.sgd.encoder_adam == "paper" and weights == "averaged"
    maps = _original_maps(chosen, workdir)
    if phase == FROZEN:  # whose checkpoints have no encoder, since it does not change it
        refuse_another(maps.identity, maps.text, result, workdir)
    classifier = build_classifier(
        chosen, phase, maps.map_shape(chosen.images.image_size), len(names)
    )

    def read(path: str) -> None:
        if phase != FROZEN:
            _restore_maps(path, maps, averaged)
        restore(path, classifier=classifier)

    step = read_checkpoint(folder, step, read)

    def logits(images: tf.Tensor) -> tf.Tensor:
        images = augment.at_test(images, chosen.augment.policy)
        return classifier(maps(tf.image.convert_image_dtype(images, tf.float32)))

    model = Classifying(
        logits=logits,
        held=[*maps.held, *classifier.variables],
        geometry=chosen.images,
        class_names=names,
        **measured(result, run),
    )
    return classifier_export(
        model,
        result,
        run,
        workdir,
        tested_on=f"split `{run.labels.test_split}`",
        step=step,
        tested=trained[phase]["steps"],
        chosen=chosen,
        phase=phase,
    )


def export_encoder(run: EfficientConfig, workdir: str, step: int, weights: str) -> Export:
    """Returns the encoder that a run on labels trained or fine-tuned.

    Only fine-tuning with --encoder_adam=paper has averages; without them the raw weights are
    exported, whatever `weights` is.
    """
    name = EncoderName.parse(run.classifier.encoder)
    result = result_of_ended(workdir, "efficient")
    phase = _trained_phase(run, workdir, result)
    with missing_module_named(workdir):
        before = None if name.is_new else name.card()
    folder = os.path.join(workdir, phase)
    averaged = phase == FINE_TUNED and run.sgd.encoder_adam == "paper" and weights == "averaged"
    # the phase has settings of its own: the search chose them
    chosen = read_config(folder, EfficientConfig)
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
        began_as=(
            dataclasses.replace(before.training, module=module_name(name.module), phase=None)
            if before
            else None
        ),
    )
    images = chosen.images
    side = chosen.images.image_size
    whole = {"image_size": side, "patch_size": side, "patch_stride": side}
    geometry = (
        before.geometry
        if before
        else GeometryConfig(resize=images.resize, mirror=images.mirror, **whole)
    )
    facts = {
        "run": chosen,
        "result": result,
        "figures": label_kinds.of_result(result).titled(result, phase),
    }
    return encoder_export(encoder, geometry, training, workdir, **facts)


def _trained_phase(run: EfficientConfig, workdir: str, result: dict[str, Any]) -> str:
    """Returns the phase in which the encoder was trained. Raises ConfigError if there is none."""
    if SUPERVISED in result["phases"]:
        return SUPERVISED
    if result["phases"].get(FINE_TUNED, {"steps": 0})["steps"]:
        return FINE_TUNED
    name = run.classifier.encoder
    reason = "0 steps of fine-tuning did best" if run.sgd.finetune_steps else "--finetune_steps=0"
    way_out = (
        "there is nothing to export"
        if EncoderName.parse(name).is_new
        else f"use --encoder={name} itself"
    )
    raise ConfigError("workdir", workdir, f"its encoder never changed ({reason}); {way_out}")


def _original_maps(run: EfficientConfig, workdir: str) -> LoadedEncoder:
    """Returns the encoder as the run began with it, in float32. Raises ConfigError if its module is
    gone.
    """
    chosen = run.classifier
    seed = run.training.seed
    with missing_module_named(workdir):
        return load_feature_maps(
            chosen.encoder,
            chosen.endpoint,
            run.images.image_size,
            backbone=chosen.backbone,
            seed=seed,
            norm=chosen.norm,
            signature=chosen.signature,
        )


def _restore_maps(path: str, maps: LoadedEncoder, averaged: bool) -> None:
    """Reads the encoder, or its averages, from a checkpoint of a phase that trained it. Raises
    ConfigError.
    """
    try:
        restore(path, encoder=maps.saved())
        if averaged:
            restore(path, average=tf.train.Checkpoint(averages=maps.trainable_variables))
    except (AssertionError, ValueError) as error:
        raise ConfigError(
            "encoder",
            maps.text,
            f"no longer what {path} was trained from: its variables differ; restore it",
        ) from error


def _load_trained(
    run: EfficientConfig, before: EncoderCard | None, folder: str, step: int, averaged: bool
) -> tuple[Network, int]:
    """Returns the encoder of a phase, in `folder`, and the step; `before` is the card of the module
    it began as.
    """
    chosen = run.classifier
    maps = _original_maps(run, folder)
    step = read_checkpoint(folder, step, lambda path: _restore_maps(path, maps, averaged))
    if isinstance(maps.encoder, Network):
        return maps.encoder, step
    # The layer lists trainable variables first, the SavedModel lists them in the order of
    # `Network.variables`.
    encoder = with_values(before.encoder, maps.encoder.resolved_object.variables, chosen.encoder)
    # Variables of equal shapes could have been mixed up.
    side = before.geometry.patch_size
    images = tf.constant(
        np.random.default_rng(0).uniform(size=[2, side, side, 3]).astype(np.float32)
    )
    wanted = maps.outputs(images)
    # [2, D]; of the only patch
    wanted = wanted["features"] if isinstance(wanted, dict) else wanted[:, 0, 0]
    difference = float(np.abs(encoder(images) - wanted).max() / max(np.abs(wanted).max(), 1e-30))
    if not difference <= TOLERANCE:
        raise NotVerified(
            f"features of the rebuilt encoder differ from the run's by {difference:.1e} of their"
            " scale"
        )
    return encoder, step
