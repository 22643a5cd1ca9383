"""Groups results by method, from the fields of their records alone, never from paths."""

from __future__ import annotations

import collections
import functools
import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from cpc_tf.encoders.config import LABELS, PIXELS, UNKNOWN, UNTRAINED
from cpc_tf.evaluation import label_kinds
from cpc_tf.objectives.config import OBJECTIVES
from cpc_tf.report.blocks import Spread, spread
from cpc_tf.report.runs import Run, is_number
from cpc_tf.settings import uncompared
from cpc_tf.tasks import TASKS

# In the order of tables, after the objectives.
BASELINES = {UNKNOWN: "encoder of others", LABELS: "supervised encoder", UNTRAINED: "random encoder", PIXELS: "pixels"}
ORDER = ("cpc", "", *BASELINES)  # '': other objectives
# Label propagation beside any of these, by the name in --propagation.
PROPAGATION = {"pseudo_labels": "pseudo-labels", "vat": "VAT + entropy min.", "uda": "unsup. data aug."}
SEARCHED = "best of several networks"  # in place of the architecture if a search chose it
SHARES = ("top1", "top5")  # metrics that are a part of the test's pictures
COUNTS = ("num_classes", "num_train_labels", "images")  # of the training data
LENGTH = {"train_steps", "train_epochs"}  # flags that the steps stand for


class Method(NamedTuple):
    """Runs that differ only in their seeds. `trained_by` is that of `Identity`, `propagation` the flag's or ''."""

    title: str
    trained_by: str
    architecture: str
    runs: list[Run]
    propagation: str = ""

    @property
    def pretrained(self) -> bool:
        """Whether the encoder counts as learned without labels; an unknown module does."""
        return self.trained_by not in (LABELS, UNTRAINED, PIXELS)

    @property
    def labels(self) -> int:
        """The number of labelled pictures that its first run learned from; 0 if unknown."""
        return self.runs[0].get("num_train_labels", 0)

    def spread(self, metric: str) -> Spread | None:
        """Returns the spread of a metric over the runs that have it; of a share of pictures, of how many it is one."""
        known = [run for run in self.runs if metric in run]
        # The seeds are of the same pictures, as a rule: several of them do not make more.
        tested = min(map(label_kinds.tested, known), default=0) if metric in SHARES else 0
        return spread((run[metric] for run in known), tested)

    def by(self, key: Callable[[Run], float]) -> dict[float, Method]:
        """Returns {value of the key: the method with the runs that have it}, in increasing order."""
        found: dict[float, list[Run]] = {}
        for run in self.runs:
            found.setdefault(key(run), []).append(run)
        return {value: self._replace(runs=found[value]) for value in sorted(found)}


def methods(runs: Iterable[Run]) -> list[Method]:
    """Returns the methods of some results in the order of tables: CPC, other objectives, baselines, pixels last.

    Runs are of one method if their encoders were trained alike with different seeds and their settings are the same
    (see `apart`). Two encoders of the same seed differ in something that is not recorded: each is a method of its own.
    """
    alike: dict[tuple[str, ...], list[Run]] = {}
    for run in runs:
        known = run.identity
        # Of a search over several networks the architecture may be another one in each run.
        searched = any("backbone" in trial for trial in run.get("search", []))
        network = SEARCHED if searched else architecture(known.architecture)
        began_with = known.began_with and f"from {known.began_with}"
        module = known.module if known.trained_by == UNKNOWN else ""
        encoder = known.trained_by, network, known.dataset.rpartition(":")[2], began_with, module
        alike.setdefault((*encoder, run.get("propagation", "")), []).append(run)
    found: dict[tuple[str, ...], list[Run]] = {}
    for key, own in alike.items():
        trained = {(run["encoder"], _seed(run)) for run in own}
        same_seed = len(trained) > len({seed for _, seed in trained})
        encoders: dict[str, list[Run]] = {}
        for run in own:
            encoders.setdefault(run["encoder"] if same_seed or run.unclear else "", []).append(run)
        for encoder, same in encoders.items():
            found |= {(*key, encoder, settings): runs for settings, runs in apart(same).items()}
    ranked = sorted(found, key=lambda key: (ORDER.index(key[0] if key[0] in ORDER else ""), key))
    return [Method(_title(key, ranked), *key[:2], found[key], key[5]) for key in ranked]


def apart(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Returns {'': runs of the usual settings, '600 steps, augment=full': runs of these settings, ...}.

    Runs with the same fraction of the labels are compared. The usual length is the longest; the usual value of another
    setting is that of most runs, if there is one. A setting that a record lacks counts as usual.
    """
    found: dict[str, list[Run]] = {}
    for at in dict.fromkeys(run.fraction for run in runs):
        own = [(run, _settings(run)) for run in runs if run.fraction == at]
        known: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
        for name, value in (item for _, settings in own for item in settings.items()):
            known[name][value] += 1
        usual = {}
        for name, values in sorted(known.items()):
            if len(values) > 1:
                (most, count), (_, next_count) = values.most_common(2)
                usual[name] = (most if count > next_count else None) if name else max(values)
        for run, settings in own:
            other = {name: settings[name] for name in usual if settings.get(name, usual[name]) != usual[name]}
            said = (f"{name}={value}" if name else f"{value:,} steps" for name, value in other.items())
            found.setdefault(", ".join(said), []).append(run)
    return found


def _settings(run: Run) -> dict[str, object]:
    """Returns the known settings of a run and of its encoder's pre-training, by flag; its length as ''."""
    *before, own = run.get("settings") or [" ".join(run.text("run.flags").splitlines())]
    found: dict[str, object] = {name: str(run[name]) for name in COUNTS if name in run}
    for line in before:  # of pre-training, in a study's record
        module, *_ = line.split() or [""]
        task = module.rpartition(".")[2]
        found |= {f"{task} {name}": value for name, value in _flags(line, task).items()}
    flags = _flags(own, run.get("kind", ""))
    steps = {"encoder_steps": run.identity.steps}
    if flags.get("patience", "0") == "0":  # else the steps were found: no setting, but the most that are allowed is one
        flags = {name: value for name, value in flags.items() if name not in LENGTH}
        steps = {"": first_steps(run), **steps}
    return {**found, **flags, **{name: known for name, known in steps.items() if known}}


def _flags(line: str, task: str) -> dict[str, str]:
    """Returns the flags in which runs of a task differ that are not of one method; see `Settings`."""
    given = (word[2:].partition("=") for word in line.split() if word.startswith("--"))
    return {name: value for name, _, value in given if name in LENGTH or name not in _uncompared(task)}


@functools.cache
def _uncompared(task: str) -> set[str]:
    return uncompared(TASKS[task].config) if task in TASKS else set()


def first_steps(run: Run) -> int:
    """Returns the steps of a run's first phase; 0 if unknown."""
    phases = run.get("phases") or {}
    steps = next(iter(phases.values()), {}).get("steps") if phases else run.get("steps")
    return int(steps) if is_number(steps) else 0


def _seed(run: Run) -> int:
    seed = run.identity.seed
    return run.get("seed", 0) if seed is None else seed


def _title(key: tuple[str, ...], others: Sequence[tuple[str, ...]]) -> str:
    objective, _, labels = key[0].partition("+")
    named = key[0] == UNKNOWN and key[4]  # a third-party encoder: under its own name
    title = OBJECTIVES[objective].TITLE if objective in OBJECTIVES else BASELINES.get(objective, objective)
    # Of a handle on the web the part after the host, such as 'publisher/name/1'.
    title = (key[4].partition("://")[2].partition("/")[2] or key[4]) if named else title
    same = [x for x in others if (x[0], x[5]) == (key[0], key[5]) and (not named or x[4] == key[4])]
    telling = [part for part, values in zip(key, zip(*same)) if part and len(set(values)) > 1]
    telling = ", ".join(telling) or ("" if named else key[4])
    propagation = f" + {PROPAGATION.get(key[5], key[5])}" if key[5] else ""
    return f"{title}{' and labels' if labels else ''}{propagation}{f' ({telling})' if telling else ''}"


def architecture(name: str) -> str:
    """Returns 'ResNet-200 v2' for 'resnet200_v2', 'small ResNet' for 'small', and other names unchanged."""
    if name.split("_")[0] in ("tiny", "small", "base", "medium"):
        return f"{name.replace('_', ' ')} ResNet"
    match = re.fullmatch(r"resnet(\d+)(?:_(v\d))?", name)
    return f"ResNet-{match[1]} {match[2] or ''}".strip() if match else name
