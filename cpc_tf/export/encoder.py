"""An encoder -> a checked TF-Hub module with encoder.json and README.md, whatever run it comes from."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from cpc_tf.data.config import GeometryConfig
from cpc_tf.encoders import card
from cpc_tf.encoders.network import Network
from cpc_tf.export import readme
from cpc_tf.export.config import ExportConfig
from cpc_tf.export.module import HubEncoder, save
from cpc_tf.export.output import writing
from cpc_tf.export.verify import encoder_reference, verify
from cpc_tf.files import write_file
from cpc_tf.settings import flatten


@dataclasses.dataclass(frozen=True)
class History:
    """What only one kind of run can state, as parts of the README."""

    title: str
    summary: str  # how the encoder learned; sentences
    seen: str  # how images were shown to it, in terms of the geometry; sentences
    rows: Sequence[tuple[str, str]]  # (name, value) of the table on its training
    figures: str  # what the run measured: a table, or a sentence if there is nothing


def write_encoder(
    encoder: Network,
    geometry: GeometryConfig,
    training: card.Training,
    history: History,
    config: ExportConfig,
    directory: str,
) -> dict[str, Any]:
    """Writes the module to a directory; returns the content of encoder.json and what the check measured.

    Args:
      encoder: computes in float32, has its variables.
      training, history: where its values come from, for encoder.json and for the README.
      directory: aside of `config.output`, which is only named in messages.
    """
    parameters = int(sum(np.prod(v.shape) for v in encoder.trainable_variables))
    about = card.EncoderCard(encoder.config, geometry, training, encoder.feature_dim, parameters, readme.versions())
    module, description = HubEncoder(encoder, geometry), about.to_json()
    with writing(config.output):
        save(module, directory)
        write_file(os.path.join(directory, card.FILE), json.dumps(description, indent=2) + "\n")
        text = readme_text(about, type(encoder).OPTIONS, module.endpoint_names(), history)
        write_file(os.path.join(directory, "README.md"), text)
    measured = verify("encoder", directory, encoder_reference(encoder, geometry))
    summary = (
        f"{encoder.config.encoder}, {training.weights} weights of step {training.step}; in a fresh process: largest "
        f"difference {measured['difference']:.0e}, {measured['variables']} variables trainable"
    )
    return {**description, **measured, "summary": summary}


def readme_text(about: card.EncoderCard, options: Sequence[str], endpoints: Sequence[str], history: History) -> str:
    """The README of a module with these options and endpoints."""
    settings = flatten(about.encoder)
    shown = [f"{name} `{settings[name]}`" for name in options if name != "recompute"]
    architecture = ", ".join([f"`{settings['encoder']}`", f"{about.parameters:,} parameters", *shown])
    software = readme.software(about.versions)
    inner = [f"`{name}`" for name in sorted(endpoints) if name not in ("feature_map", "features")]
    return readme.render(
        "encoder",
        **flatten(about.geometry),
        grid=about.geometry.grid,
        feature_dim=about.feature_dim,
        inner=", ".join(inner) or "nothing",
        **vars(history),
        training=readme.table([("encoder", architecture), *history.rows, ("software", software)]),
        pictures=", ".join(f"`{dataset}`" for dataset in dict.fromkeys(_datasets(about.training))),
    )


def _datasets(training: card.Training | None) -> list[str]:
    """The data sets that an encoder learned from, oldest first."""
    return [*_datasets(training.began_as), training.dataset] if training else []


def run_row(training: card.Training, batch_size: int) -> tuple[str, str]:
    """The row of a table that names the run."""
    phase = f"phase `{training.phase}`, " if training.phase else ""
    step = f"step {training.step} of batches of {batch_size}"
    return "run", f"`{training.run}`, {phase}{step}, {training.weights} weights"


def past(training: card.Training) -> str:
    """What an encoder has learned, from the first step on, as far as its card and those of its ancestors know."""
    run, before = f"(run `{training.run}`, step {training.step})", training.began_as
    if not training.on_labels:
        own = f"pre-trained on `{training.dataset}` without labels {run}"
        return f"{past(before)}, then {own}" if before else own
    own = f"on {labels_of(training)} of `{training.dataset}` {run}"
    return f"{past(before)}, then fine-tuned {own}" if before else f"trained from scratch {own}"


def labels_of(training: card.Training) -> str:
    """How many labels a run on labels had."""
    return f"{training.num_train_labels} labels ({100 * training.label_fraction:.3g} %)"
