"""Which results belong together: datasets, methods, seeds. All of it from what records state, nothing from paths."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from cpc_tf.encoders.identity import LABELS, PIXELS, UNKNOWN, UNTRAINED, Identity, module_name
from cpc_tf.objectives import OBJECTIVES
from cpc_tf.results.blocks import Spread, spread
from cpc_tf.results.runs import Run

# Datasets on which our figures and the paper's can be compared directly.
IMAGENET = ("imagenet2012", "imagenet")
# In the order of tables, after the objectives.
BASELINES = {UNKNOWN: "module", LABELS: "supervised encoder", UNTRAINED: "random encoder", PIXELS: "pixels"}
ORDER = ("cpc", "", *BASELINES)  # '': other objectives
# What records stated before they had an identity: in 'encoder' (before a colon), and in 'features'.
ENCODERS = {"pixels": PIXELS, "random": UNTRAINED}
FEATURES = {"CPC": "cpc", "supervised": LABELS}


class Method(NamedTuple):
    """Runs that differ in seeds alone: their name, how (see Identity) and with what network they were trained."""

    title: str
    trained_by: str
    architecture: str
    runs: list[Run]

    @property
    def pretrained(self) -> bool:
        """Whether it stands for learning without labels; of an unknown module nothing else is known."""
        return self.trained_by not in (LABELS, UNTRAINED, PIXELS)

    def spread(self, metric: str) -> Spread | None:
        """Of a metric over the runs that have it."""
        return spread(run[metric] for run in self.runs if metric in run)


def identity(run: Run) -> Identity:
    """What a result says of its encoder; for a record from before there were identities, what it states otherwise."""
    if "identity" in run:
        return Identity.from_json(run["identity"])
    stated = "cpc" if run.get("rung") else FEATURES.get(run.get("features"), UNKNOWN)
    trained_by = ENCODERS.get(run["encoder"].split(":")[0], stated)
    return Identity(trained_by, run.get("backbone", ""), module=module_name(run["encoder"]))


def methods(runs: Iterable[Run]) -> list[Method]:
    """The methods of some results, in the order of tables: CPC, other objectives, baselines, pixels last.

    Runs are of one method if their encoders were trained alike with different seeds. Where two encoders agree in the
    seed too, something tells them apart that is not recorded, and each is a method of its own.
    """
    alike: dict[tuple[str, ...], list[Run]] = {}
    for run in runs:
        known = identity(run)
        module = known.module if known.trained_by == UNKNOWN else ""
        before = known.began_with and f"from {known.began_with}"
        key = (known.trained_by, architecture(known.architecture), dataset_name(known.dataset), before, module)
        alike.setdefault(key, []).append(run)
    found: dict[tuple[str, ...], list[Run]] = {}
    for key, own in alike.items():
        trained = {(run["encoder"], _seed(run)) for run in own}
        same_seed = len(trained) > len({seed for _, seed in trained})
        for run in own:
            found.setdefault((*key, run["encoder"] if same_seed else ""), []).append(run)
    ranked = sorted(found, key=lambda key: (ORDER.index(key[0] if key[0] in ORDER else ""), key))
    return [Method(_title(key, ranked), *key[:2], found[key]) for key in ranked]


def _seed(run: Run) -> int:
    seed = identity(run).seed
    return run.get("seed", 0) if seed is None else seed


def _title(key: tuple[str, ...], others: Sequence[tuple[str, ...]]) -> str:
    objective, _, labels = key[0].partition("+")
    title = OBJECTIVES[objective].TITLE if objective in OBJECTIVES else BASELINES.get(objective, objective)
    same = [other for other in others if other[0] == key[0]]
    telling = [part for part, values in zip(key, zip(*same)) if part and len(set(values)) > 1]
    telling = ", ".join(telling) or key[4]
    return f"{title}{' and labels' if labels else ''}{f' ({telling})' if telling else ''}"


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
    if name.split("_")[0] in ("tiny", "small", "base", "medium"):
        return f"{name.replace('_', ' ')} ResNet"
    match = re.fullmatch(r"resnet(\d+)(?:_(v\d))?", name)
    return f"ResNet-{match[1]} {match[2] or ''}".strip() if match else name
