"""A run on labels -> its encoder, trained or fine-tuned, as a checked TF-Hub module."""

from __future__ import annotations

import os
from typing import Any

import tensorflow as tf

from cpc_tf.data.config import GeometryConfig, ImageConfig
from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.efficient.trainee import FINE_TUNED, SUPERVISED
from cpc_tf.encoders.card import read_card
from cpc_tf.encoders.name import EncoderName
from cpc_tf.settings import ConfigError
from cpc_tf.training.workdir import read_config
from export import efficient_card
from export.config import ExportConfig
from export.description import origin, result_of, without_folders
from export.encoder import describe, write_encoder
from export.rebuild import load_trained_encoder

# What a module's encoder.json passes on to the modules that began as it.
ANCESTRY = ("dataset", "run", "step", "weights", "num_train_labels", "label_fraction", "began_as")


def export_efficient(run: EfficientConfig, config: ExportConfig, directory: str) -> dict[str, Any]:
    """Writes the module to a directory; returns what its encoder.json says and what the check measured.

    There are no averages here: its weights are the raw ones, whatever `config.weights` says.

    Raises:
      ConfigError: if there is no trained encoder, or the checkpoint or the output is not to be had.
      NotVerified: if the module does not do what the checkpoint does.
    """
    phase, result = trained_phase(run, config.workdir)
    module = module_before(run, config.workdir)
    folder = os.path.join(config.workdir, phase)
    encoder, step = load_trained_encoder(run, module, folder, config.step)
    geometry = GeometryConfig(**module["geometry"]) if module else one_patch(run.images)
    known = {name: module[name] for name in ANCESTRY if name in module}
    description = {
        **describe(encoder.config, geometry, encoder),
        "weights": "raw",
        **origin(run.data.dataset, config.workdir, step),
        "phase": phase,
        "num_train_labels": result["num_train_labels"],
        "label_fraction": result["label_fraction"],
        "began_as": {"module": without_folders(run.classifier.encoder), **known} if module else None,
    }
    # The phase has settings of its own: the search chose them.
    history = efficient_card.history(description, read_config(folder, EfficientConfig), result)
    return write_encoder(encoder, description, history, config, directory)


def trained_phase(run: EfficientConfig, workdir: str) -> tuple[str, dict[str, Any]]:
    """(the phase in which the encoder was trained, the run's result). Raises ConfigError if there is none."""
    result, name = result_of(workdir), run.classifier.encoder
    if not result:
        raise ConfigError(
            f"--workdir={workdir}: has no result.json; let `python -m cpc_tf.efficient` get to its end, and name its "
            "--workdir, not the directory of a phase in it"
        )
    if SUPERVISED in result["phases"]:
        return SUPERVISED, result
    if result["phases"].get(FINE_TUNED, {"steps": 0})["steps"]:
        return FINE_TUNED, result
    reason = "0 steps of fine-tuning did best" if run.sgd.finetune_steps else "--finetune_steps=0"
    way_out = "there is nothing to export" if EncoderName.parse(name).is_new else f"use --encoder={name} itself"
    raise ConfigError(f"--workdir={workdir}: its encoder never changed ({reason}); {way_out}")


def module_before(run: EfficientConfig, workdir: str) -> dict[str, Any]:
    """The encoder.json of the module that the run began with; empty for a new network."""
    name = EncoderName.parse(run.classifier.encoder)
    if name.is_new:
        return {}
    try:
        return read_card(name.module).to_json()
    except (ConfigError, tf.errors.OpError) as error:
        raise ConfigError(
            f"--workdir={workdir}: no encoder.json in --encoder={name.text}, so it cannot be rebuilt; only what began "
            "as a module of `python -m export` can be exported, and that must still be there"
        ) from error


def one_patch(images: ImageConfig) -> GeometryConfig:
    """A whole image as a grid of one patch."""
    side = images.image_size
    return GeometryConfig(
        resize=images.resize, image_size=side, patch_size=side, patch_stride=side, mirror=images.mirror
    )
