"""The section of one dataset: what of its runs stands where."""

from __future__ import annotations

import re
from collections.abc import Sequence

from cpc_tf.reporting import (
    confusion,
    detection,
    efficient,
    headline,
    ladder,
    linear_table,
    methods,
    pictures,
    training_curves,
)
from cpc_tf.reporting.blocks import Section, Subject
from cpc_tf.reporting.collect import Found, Run


def sections(found: Found, runs_dir: str) -> list[Section]:
    """One for each dataset that something was measured on: first those with the most classifiers."""
    by_name: dict[str, list[Run]] = {}
    for run in found.runs:
        by_name.setdefault(methods.dataset_name(run["dataset"]), []).append(run)

    def order(name: str) -> tuple:
        kinds = [run["kind"] for run in by_name[name]]
        return -kinds.count("efficient"), -kinds.count("linear"), name

    made, slugs = [], []
    for name in sorted(by_name, key=order):
        slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "unnamed"
        slug += f"-{len(slugs) + 1}" if slug in slugs else ""
        slugs.append(slug)
        made.append(_section(name, slug, by_name[name], found, runs_dir))
    return made


def _section(name: str, slug: str, runs: Sequence[Run], found: Found, runs_dir: str) -> Section:
    of = {kind: [run for run in runs if run["kind"] == kind] for kind in ("pretrain", "linear", "efficient", "detect")}
    classified = of["linear"] + of["efficient"]
    dataset = (classified + list(runs))[0]["dataset"]
    subjects = []
    if classified or of["pretrain"]:
        subjects += [
            ("labels", "Few labels", efficient.blocks(of["efficient"], dataset, found, runs_dir)),
            ("linear", "Linear classifiers", linear_table.blocks(of["linear"], dataset, found, runs_dir)),
            ("rungs", "From CPC v1 to CPC v2", ladder.blocks(of["linear"], dataset, runs_dir)),
        ]
    subjects += [
        ("detection", "Detection", detection.blocks(of["detect"], name, found, runs_dir)),
        ("confusions", "Confusions", confusion.blocks(of["efficient"]) or confusion.blocks(of["linear"])),
        ("features", "What the encoder saw, and what it finds similar", pictures.blocks(of["pretrain"], of["linear"])),
        ("training", "Training", [
            *training_curves.pretraining(of["pretrain"]),
            *training_curves.classifiers(of["linear"], "linear"),
            *training_curves.classifiers(of["efficient"], "efficient"),
        ]),
    ]  # fmt: skip
    said = headline.sentences(of["efficient"], of["linear"], of["detect"])
    return Section(name, slug, said, [Subject(*subject) for subject in subjects if subject[2]])
