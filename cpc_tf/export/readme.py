"""A module's card: README.md inside the exported directory, from a template. It states only what is known."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import metadata
from string import Template
from typing import Any

from cpc_tf.data.names import of_folder
from cpc_tf.encoders.card import EncoderCard, Training
from cpc_tf.settings import flatten

NO_FIGURES = "The run had not ended when this was exported: there are no figures."


def encoder_readme(
    card: EncoderCard, options: Sequence[str], endpoints: Sequence[str], rows: Sequence[tuple[str, str]], **texts: str
) -> str:
    """Returns the README of an encoder.

    Args:
      options, endpoints: of its network.
      rows: (name, value) of the table on its training.
      texts: 'title', 'summary' of its training, how images were 'seen', and the table of 'figures', as in encoder.md.
    """
    settings = flatten(card.encoder)
    shown = [f"{name} `{settings[name]}`" for name in options if name != "recompute"]
    architecture = ", ".join([f"`{settings['encoder']}`", f"{card.parameters:,} parameters", *shown])
    inner = [f"`{name}`" for name in sorted(endpoints) if name not in ("feature_map", "features")]
    datasets, training = [], card.training  # that it learned from, newest first
    while training:
        datasets.append(f"`{training.dataset}`")
        training = training.began_as
    return render(
        "encoder",
        **flatten(card.geometry),
        grid=card.geometry.grid,
        feature_dim=card.feature_dim,
        inner=", ".join(inner) or "nothing",
        **texts,
        training=table([("encoder", architecture), *rows, ("software", software(card.versions))]),
        datasets=", ".join(dict.fromkeys(datasets[::-1])),
    )


def run_row(training: Training, batch_size: int) -> tuple[str, str]:
    """The row of a table that names the run."""
    phase = f"phase `{training.phase}`, " if training.phase else ""
    step = f"step {training.step} of batches of {batch_size}"
    return "run", f"`{training.run}`, {phase}{step}, {training.weights} weights"


def past(training: Training) -> str:
    """How an encoder was trained, from the first run on, as far as its card knows."""
    run, before = f"(run `{training.run}`, step {training.step})", training.began_as
    if not training.on_labels:
        own = f"pre-trained on `{training.dataset}` without labels {run}"
        return f"{past(before)}, then {own}" if before else own
    own = f"on {labels_of(training)} of `{training.dataset}` {run}"
    return f"{past(before)}, then fine-tuned {own}" if before else f"trained from scratch {own}"


def labels_of(training: Training) -> str:
    """How many labels a run on labels had."""
    return f"{training.num_train_labels} labels ({100 * training.label_fraction:.3g} %)"


def render(template: str, **values: Any) -> str:
    """Returns the text of the template export/NAME.md with these values."""
    with open(os.path.join(os.path.dirname(__file__), f"{template}.md"), encoding="utf-8") as file:
        return Template(file.read()).substitute(values)


def table(rows: Sequence[tuple[str, str]], head: str = "") -> str:
    """A table of names and values; `head` stands above the names."""
    lines = [f"| {head} | |" if head else "| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)]
    return "\n".join(lines)


def measured_at(where: str, measured: int, exported: int) -> str:
    """Where figures were measured, which may be at another step than the exported one."""
    other = "" if measured == exported else ", which is not the exported step"
    return f"measured {where}, step {measured}{other}"


def versions() -> dict[str, str]:
    """The versions of the libraries that write a module."""
    return {name: metadata.version(name) for name in ("tensorflow", "tensorflow-hub")}


def software(versions: dict[str, str]) -> str:
    """Versions as a line of text."""
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def dataset_name(dataset: str) -> str:
    """A --dataset without the folders of this machine: 'folder:birds' for 'folder:/home/me/birds/train'."""
    kind, colon, path = dataset.partition(":")
    return f"{kind}:{of_folder(path)}" if colon else dataset
