"""Which results belong together: datasets, methods, seeds."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from cpc_tf.reporting import paper
from cpc_tf.reporting.collect import Run

ROLES = ("cpc", "supervised", "random", "pixels")
SEED = re.compile(r"(seed|s)?[_=-]?\d+", re.IGNORECASE)
RUNG = re.compile(rf"([1-8])_({'|'.join(rung.name for rung in paper.LADDER)})", re.IGNORECASE)
IMAGENET = ("imagenet2012", "imagenet")
"""Datasets on which our figures and the paper's can be compared directly."""


class Spread(NamedTuple):
    """What several seeds gave."""

    mean: float
    low: float
    high: float
    count: int

    @property
    def half_range(self) -> float:
        """Half the distance of the worst from the best."""
        return (self.high - self.low) / 2


@dataclasses.dataclass(frozen=True, order=True)
class Method:
    """What a classifier was trained on.

    Attributes:
      role: 'cpc', 'supervised' (an encoder that began with labels), 'random' or 'pixels'.
      key: the encoder without its seed, or the backbone.
    """

    role: str
    key: str

    @property
    def name(self) -> str:
        """Short, for a legend where there is one of each role."""
        return {
            "cpc": "CPC",
            "supervised": "supervised encoder",
            "random": "random encoder",
            "pixels": "pixels",
        }[self.role]


def spread(values: Iterable[float]) -> Spread:
    """Of at least one value."""
    values = list(values)
    return Spread(sum(values) / len(values), min(values), max(values), len(values))


def dataset_name(dataset: str) -> str:
    """What a --dataset is called: 'photos' for 'photos/15200', a folder by its last part; 'voc/2007' as it is."""
    kind, _, rest = dataset.partition(":")
    if kind in ("folder", "voc"):
        return rest.rstrip("/").split("/")[-1] or dataset
    return "photos" if dataset.startswith("photos/") else dataset


def method(run: Run) -> Method:
    """What a linear or efficient classifier, or a detector, was trained on."""
    encoder = run["encoder"]
    if encoder == "pixels":
        return Method("pixels", run.get("backbone", ""))
    if encoder == "random":
        return Method("random", run.get("backbone", ""))
    role = "random" if encoder.startswith("random:") else "supervised" if run.get("features") == "supervised" else "cpc"
    return Method(role, "/".join(without_seeds(encoder.removeprefix("random:"))))


def by_method(runs: Iterable[Run]) -> dict[Method, list[Run]]:
    """Runs of each method: CPC first, then by name."""
    found: dict[Method, list[Run]] = {}
    for run in runs:
        found.setdefault(method(run), []).append(run)
    return dict(sorted(found.items(), key=lambda item: (ROLES.index(item[0].role), item[0].key)))


def titles(methods: Sequence[Method]) -> dict[Method, str]:
    """What to call them: 'CPC', or with the encoder where several have that role."""
    named = {}
    for one in methods:
        alone = sum(other.role == one.role for other in methods) == 1
        short = short_encoder(one.key)
        unique = sum(other.role == one.role and short_encoder(other.key) == short for other in methods) == 1
        named[one] = one.name if alone else f"{one.name} ({short if unique and short else one.key or 'unnamed'})"
    return named


def short_encoder(encoder: str) -> str:
    """The last two telling parts of a module's path: 'ablation/8_pa' of 'runs/ablation/8_pa/hub'."""
    parts = [part for part in without_seeds(encoder) if part not in ("runs", "hub")]
    return "/".join(parts[-2:])


def main_method(found: dict[Method, list[Run]], role: str) -> Method | None:
    """The method of a role that the headline speaks of: measured at the most fractions, then most often."""
    ours = [one for one in found if one.role == role]

    def weight(one: Method) -> tuple[int, int]:
        return len({fraction(run) for run in found[one]}), len(found[one])

    return max(ours, key=weight, default=None)


def fraction(run: Run) -> float:
    """Of the labels, rounded so that equal ones are equal."""
    return float(f"{run.get('label_fraction', 1.0):.4g}")


def rung(run: Run) -> str:
    """The rung of figure 3 that a pre-training or a linear result belongs to, or ''."""
    names = {rung.name.lower(): rung.name for rung in paper.LADDER}
    if run.get("rung"):
        return names.get(run["rung"].lower(), "")
    for part in [*run.directory.split("/"), *run["encoder"].split("/")]:
        match = RUNG.fullmatch(part)
        if match and list(names)[int(match[1]) - 1] == match[2].lower():
            return names[match[2].lower()]
    return ""


def architecture(name: str) -> str:
    """'ResNet-200 v2' of 'resnet200_v2', 'small ResNet' of 'small'; other names as they are."""
    if name in ("small", "tiny"):
        return f"{name} ResNet"
    match = re.fullmatch(r"resnet(\d+)(?:_(v\d))?", name)
    return f"ResNet-{match[1]} {match[2] or ''}".strip() if match else name


def without_seeds(path: str) -> list[str]:
    """The parts of a path that name no seed."""
    return [part for part in path.split("/") if part and not SEED.fullmatch(part)]
