"""A run on labels -> its encoder, trained or fine-tuned, as a checked TF-Hub module."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

from cpc_tf.data.config import GeometryConfig, ImageConfig
from cpc_tf.efficient.classifier import FINE_TUNED, SUPERVISED
from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.encoders.card import EncoderCard, Training, module_name
from cpc_tf.encoders.load import LATENTS, EncoderName
from cpc_tf.export.config import ExportConfig
from cpc_tf.export.encoder import History, labels_of, past, run_row, write_encoder
from cpc_tf.export.readme import dataset_name, measured_at, table, without_folders
from cpc_tf.export.restored import load_trained, result_of
from cpc_tf.settings import ConfigError
from cpc_tf.training.workdir import read_config


def export_efficient(run: EfficientConfig, config: ExportConfig, directory: str) -> dict[str, Any]:
    """Writes the module to a directory; see `exporter.export` and `write_encoder`.

    Only fine-tuning with --encoder_adam=paper has averages: else its weights are the raw ones, whatever
    `config.weights` asks for.
    """
    phase, result = trained_phase(run, config.workdir)
    before = _card_before(run, config.workdir)
    folder = os.path.join(config.workdir, phase)
    averaged = phase == FINE_TUNED and run.sgd.encoder_adam == "paper" and config.weights == "averaged"
    encoder, step = load_trained(run, before, folder, config.step, averaged)
    name = module_name(EncoderName.parse(run.classifier.encoder).module)
    training = Training(
        dataset=dataset_name(run.data.dataset),
        seed=run.training.seed,
        run=without_folders(config.workdir),
        step=step,
        weights="averaged" if averaged else "raw",
        phase=phase,
        num_train_labels=result["num_train_labels"],
        label_fraction=result["label_fraction"],
        began_as=dataclasses.replace(before.training, module=name, phase=None) if before else None,
    )
    # The phase has settings of its own: the search chose them.
    history = describe(encoder.config.encoder, training, read_config(folder, EfficientConfig), result)
    geometry = before.geometry if before else one_patch(run.images)
    return write_encoder(encoder, geometry, training, history, config, directory)


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


def _card_before(run: EfficientConfig, workdir: str) -> EncoderCard | None:
    """The card of the module that the run began with; None for a new network."""
    name = EncoderName.parse(run.classifier.encoder)
    try:
        return None if name.is_new else name.card()
    except ConfigError as error:
        raise ConfigError(
            f"--workdir={workdir}: only a run that began with a module of `python -m cpc_tf.export` can be exported, "
            f"and that module is still needed: {error}"
        ) from error


def one_patch(images: ImageConfig) -> GeometryConfig:
    """A whole image as a grid of one patch."""
    side = images.image_size
    return GeometryConfig(
        resize=images.resize, image_size=side, patch_size=side, patch_stride=side, mirror=images.mirror
    )


def describe(architecture: str, training: Training, phase: EfficientConfig, result: dict[str, Any]) -> History:
    """What the README states of the run, from the settings of the phase that the encoder comes from."""
    before, classifier = training.began_as, phase.classifier
    found, size = result["phases"][training.phase], f"{phase.images.image_size} x {phase.images.image_size} px"
    if not before:
        seen = f"It saw whole images, {size}: the grid is a single patch."
    elif classifier.endpoint == LATENTS:
        seen = f"While it was fine-tuned it saw the patches of the grid on images of {size}, each on its own."
    else:
        seen = f"Patches are those of the module that it began as; while it was fine-tuned it saw whole images, {size}."
    head = f"{classifier.head_blocks} residual blocks on endpoint `{classifier.endpoint}`"
    if training.phase == SUPERVISED:  # which ends in a linear layer, whatever the flags are
        head = "a linear layer"
    where = f"on split `{phase.labels.test_split}`, {result['num_classes']} classes"
    return History(
        title=f"Encoder `{architecture}`, {'fine-tuned' if before else 'trained'} on labels of `{training.dataset}`",
        summary=(
            f"It was {past(training)}.\nThe protocol is that of CPC v2 for few labels (Hénaff et al., ICML 2020, "
            "appendix C), as implemented by cpc_tf."
        ),
        seen=seen,
        rows=[
            ("pictures", f"`{training.dataset}`, split `{phase.data.split}`, {labels_of(training)}"),
            ("began as", f"module `{before.module}`" if before else "random weights"),
            (
                "image augmentation",
                f"`{phase.augment.title}`, crops of at least {100 * phase.images.crop_area:.3g} %",
            ),
            ("classifier", f"{head}; not part of this module"),
            run_row(training, phase.training.batch_size),
        ],
        figures=table(
            [(text, f"{100 * found[name]:.1f} %") for name, text in (("top1", "top-1"), ("top5", "top-5"))],
            measured_at(where, found["steps"], training.step),
        ),
    )
