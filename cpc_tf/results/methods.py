"""Which results belong together: datasets, methods, seeds. All of it from what records state, nothing from paths."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Sequence

from cpc_tf.encoders.identity import LABELS, PIXELS, UNKNOWN, UNTRAINED, Identity, module_name
from cpc_tf.objectives import OBJECTIVES
from cpc_tf.results.runs import Run

IMAGENET = ("imagenet2012", "imagenet")
"""Datasets on which our figures and the paper's can be compared directly."""
# In the order of tables, after the objectives.
BASELINES = {UNKNOWN: "module", LABELS: "supervised encoder", UNTRAINED: "random encoder", PIXELS: "pixels"}
# What records said before they had an identity.
FEATURES = {"CPC": "cpc", "supervised": LABELS, "random": UNTRAINED, "pixels": PIXELS}


@dataclasses.dataclass(frozen=True, order=True)
class Method:
    """What a classifier or detector was trained on; its runs differ in seeds alone.

    Attributes:
      rank: its position in tables: objectives first, pixels last.
      trained_by: as in Identity.
      architecture: of the encoder, or of the network on pixels.
      dataset: that the encoder was trained on.
      encoder: the module, where several agree in all of that and in the seed, so that they are no seeds of one method.
    """

    rank: int
    trained_by: str
    architecture: str = ""
    dataset: str = ""
    encoder: str = ""

    @property
    def pretrained(self) -> bool:
        """Whether it stands for learning without labels; of an unknown module nothing else is known."""
        return self.trained_by not in (LABELS, UNTRAINED, PIXELS)

    @property
    def name(self) -> str:
        """Short, for where there is one of its kind."""
        if self.trained_by in BASELINES:
            return BASELINES[self.trained_by]
        objective, _, labels = self.trained_by.partition("+")
        title = OBJECTIVES[objective].TITLE if objective in OBJECTIVES else objective
        return f"{title}{' and labels' if labels else ''}"


def identity(run: Run) -> Identity:
    """What a result says of its encoder; for a record from before there were identities, what it states otherwise."""
    if "identity" in run.record:
        return Identity.from_json(run["identity"])
    encoder, architecture = run["encoder"], run.get("backbone", "")
    if run["kind"] == "pretrain":
        return Identity("cpc", encoder, run["dataset"], run.get("seed"))
    if encoder == "pixels":
        return Identity(PIXELS, architecture)
    if encoder == "random" or encoder.startswith("random:"):
        return Identity(UNTRAINED, architecture)
    trained_by = "cpc" if run.get("rung") else FEATURES.get(run.get("features"), UNKNOWN)
    return Identity(trained_by, architecture, module=module_name(encoder))


def by_method(runs: Iterable[Run]) -> dict[Method, list[Run]]:
    """Runs of each method, in the order of tables.

    Runs are of one method if their encoders were trained alike with different seeds. Where two encoders agree in the
    seed too, something else tells them apart that is not recorded, and each is a method of its own.
    """
    alike: dict[Method, list[Run]] = {}
    for run in runs:
        known = identity(run)
        order = [*BASELINES].index(known.trained_by) + 2 if known.trained_by in BASELINES else known.trained_by != "cpc"
        own = known.module if known.trained_by == UNKNOWN else ""
        method = Method(int(order), known.trained_by, known.architecture, dataset_name(known.dataset), own)
        alike.setdefault(method, []).append(run)
    found: dict[Method, list[Run]] = {}
    for method, own in alike.items():
        encoders: dict[int, set[str]] = {}
        for run in own:
            seed = identity(run).seed
            encoders.setdefault(run.get("seed", 0) if seed is None else seed, set()).add(run["encoder"])
        several = any(len(same) > 1 for same in encoders.values())
        for run in own:
            found.setdefault(dataclasses.replace(method, encoder=run["encoder"]) if several else method, []).append(run)
    return {method: found[method] for method in sorted(found)}


def titles(methods: Sequence[Method]) -> dict[Method, str]:
    """What to call them: 'CPC', with what tells them apart where several have that name."""
    named = {}
    for one in methods:
        same = [other for other in methods if other.name == one.name]
        parts = [[architecture(m.architecture), m.dataset, m.encoder] for m in same]
        telling = [part for part, values in zip(parts[same.index(one)], zip(*parts)) if part and len(set(values)) > 1]
        named[one] = f"{one.name} ({', '.join(telling)})" if telling else one.name
    return named


def main_method(found: dict[Method, list[Run]], *, pretrained: bool) -> Method | None:
    """The method that the headline compares, pre-trained or on pixels: measured at the most fractions, most often."""
    ours = [one for one in found if (one.pretrained if pretrained else one.trained_by == PIXELS)]
    return max(ours, key=lambda one: (len({fraction(run) for run in found[one]}), len(found[one])), default=None)


def fraction(run: Run) -> float:
    """Of the labels, rounded so that equal ones are equal."""
    return float(f"{run.get('label_fraction', 1.0):.4g}")


def dataset_name(dataset: str) -> str:
    """What a --dataset is called: 'photos' for 'photos/15200', a folder by its last part; 'voc/2007' as it is."""
    kind, _, rest = dataset.partition(":")
    if kind in ("folder", "voc"):
        return rest.rstrip("/").split("/")[-1] or dataset
    return "photos" if dataset.startswith("photos/") else dataset


def architecture(name: str) -> str:
    """'ResNet-200 v2' of 'resnet200_v2', 'small ResNet' of 'small'; other names as they are."""
    if name in ("small", "tiny"):
        return f"{name} ResNet"
    match = re.fullmatch(r"resnet(\d+)(?:_(v\d))?", name)
    return f"ResNet-{match[1]} {match[2] or ''}".strip() if match else name
