"""Groups results by method, from the fields of their records alone, never from paths."""

from __future__ import annotations

import collections
import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Optional

from cpc_tf.core.commands import TASKS
from cpc_tf.core.settings import uncompared
from cpc_tf.data.reference import DataRef
from cpc_tf.encoders.config import LABELS, PIXELS, UNKNOWN, UNTRAINED
from cpc_tf.evaluation import label_kinds
from cpc_tf.objectives import config as objectives
from cpc_tf.report.blocks import Spread, spread
from cpc_tf.report.runs import Run, dataset_id, is_number

# In the order of tables, after the objectives.
BASELINES = {
    UNKNOWN: "third-party encoder",
    LABELS: "supervised encoder",
    UNTRAINED: "random encoder",
    PIXELS: "pixels",
}
ORDER = ("cpc", "", *BASELINES)  # '': other objectives
# Label propagation beside any of these, by the name in --propagation.
PROPAGATION = {
    "pseudo_labels": "pseudo-labels",
    "vat": "VAT + entropy min.",
    "uda": "unsup. data aug.",
    "self_training": "self-training",
}
SEARCHED = "best of several networks"  # in place of the architecture if a search chose it
SHARES = ("top1", "top5")  # metrics that are a part of the test's images
COUNTS = ("num_classes", "num_train_labels", "images")  # of the training data
# equal figures tell that an encoder is the same
_OF_ONE_RUN = (
    "wall_seconds",
    "made",
    "encoder",
    "run",
    "curve",
)
LENGTH = {"train_steps", "train_epochs"}  # flags that the steps stand for
Stack = tuple[Optional[str], Optional[float]]
"""The networks of a classifier, 'ResNet-161 + ResNet-33', and millions of parameters."""
NO_STACK: Stack = (None, None)


class ComparedMethod(NamedTuple):
    """Runs that differ only in their seeds. `trained_by` is that of `Identity`, `propagation` the
    flag's or ''.
    """

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
        """The number of labelled images that its first run learned from; 0 if unknown."""
        return self.runs[0].get("num_train_labels", 0)

    def spread(self, metric: str) -> Spread | None:
        """Returns the spread of a metric over the runs that have it."""
        runs = [run for run in self.runs if metric in run]
        # Several seeds were tested on the same images, as a rule: these do not add up.
        values = (run[metric] for run in runs)
        is_share = metric in SHARES and runs
        if not is_share:
            return spread(values, over=self.over)
        tested, independent = (
            min(map(count, runs)) for count in (label_kinds.tested, label_kinds.independent)
        )
        return spread(values, tested, self.over, independent)

    @property
    def over(self) -> str:
        """What its runs are several of: encoders, if they have more than one, else choices of
        labels and weights.
        """
        return "encoders" if len({run["encoder"] for run in self.runs}) > 1 else "labels"

    @property
    def network(self) -> str:
        """Its encoder and a classifier with blocks, of three layers each: 'ResNet-161 +
        ResNet-33'.
        """
        counts = {run.get("head_blocks") for run in self.runs}
        blocks = counts.pop() if len(counts) == 1 else 0
        return " + ".join(
            filter(None, [self.architecture, f"ResNet-{3 * blocks}" if blocks else ""])
        )

    @property
    def stack(self) -> Stack:
        """Its `network` and the millions of parameters of all of it; NO_STACK if its runs differ or
        do not tell.
        """
        counts = {run.get("parameters") for run in self.runs}
        return NO_STACK if len(counts) > 1 or None in counts else (self.network, counts.pop() / 1e6)

    def by(self, key: Callable[[Run], float]) -> dict[float, ComparedMethod]:
        """Returns {value of the key: the method with the runs that have it}, in increasing
        order.
        """
        groups: dict[float, list[Run]] = {}
        for run in self.runs:
            groups.setdefault(key(run), []).append(run)
        return {value: self._replace(runs=groups[value]) for value in sorted(groups)}


def methods(runs: Iterable[Run]) -> list[ComparedMethod]:
    """Returns the methods of some results in the order of tables: CPC, other objectives, baselines,
    pixels last.

    Runs are of one method if their encoders were trained alike with different seeds and their
    settings are the same (see `apart`). Two encoders of the same seed differ in something that is
    not recorded: each is a method of its own.
    """
    alike: dict[tuple[str, ...], list[Run]] = {}
    for run in runs:
        identity = run.identity
        # Of a search over several networks the architecture may be another one in each run.
        searched = any("backbone" in trial for trial in run.get("search", []))
        network = SEARCHED if searched else architecture(identity.architecture)
        began_with = identity.began_with and f"from {identity.began_with}"
        module = identity.module if identity.trained_by == UNKNOWN else ""
        encoder = (
            identity.trained_by,
            network,
            DataRef.parse(identity.dataset).path,
            began_with,
            module,
        )
        alike.setdefault((*encoder, run.get("propagation", ""), identity.method), []).append(run)
    groups: dict[tuple[str, ...], list[Run]] = {}
    for key, similar in alike.items():
        seeds = {
            (run["encoder"], run.get("seed", 0) if (seed := run.identity.seed) is None else seed)
            for run in similar
        }
        same_seed = len(seeds) > len({seed for _, seed in seeds})
        encoders: dict[str, list[Run]] = {}
        for run in similar:
            encoders.setdefault(run["encoder"] if same_seed or run.unclear else "", []).append(run)
        for encoder, same in encoders.items():
            groups |= {(*key, encoder, settings): runs for settings, runs in apart(same).items()}
    ranked = sorted(groups, key=lambda key: (ORDER.index(key[0] if key[0] in ORDER else ""), key))
    return [ComparedMethod(_title(key, ranked), *key[:2], groups[key], key[5]) for key in ranked]


def distinct(runs: Iterable[Run]) -> list[Run]:
    """Returns runs without those that repeat another one: the same settings, seed, data and
    figures.

    They are no seeds of a method; the first one names the places of the others in its `repeats`,
    and has a label curve that one of them measured.
    """
    first: dict[str, Run] = {}
    for run in runs:
        record = {name: value for name, value in run.items() if name not in _OF_ONE_RUN}
        record["dataset"] = dataset_id(run["dataset"])
        one = first.setdefault(
            json.dumps([record, _settings(run)], sort_keys=True, default=str), run
        )
        if one is not run:
            one.repeats = (*one.repeats, run.place)
            one.update({**run, **one})
    return [*first.values()]


def apart(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Returns {'': runs of the usual settings, '600 steps, augment=full': runs of these settings,
    ...}.

    Runs with the same fraction of the labels are compared. The usual length is the longest; the
    usual value of another setting is that of most runs, if there is one. A setting that a record
    lacks counts as usual.
    """
    groups: dict[str, list[Run]] = {}
    for fraction in dict.fromkeys(run.fraction for run in runs):
        compared = [(run, _settings(run)) for run in runs if run.fraction == fraction]
        counters: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
        for name, value in (item for _, settings in compared for item in settings.items()):
            counters[name][value] += 1
        usual = {}
        for name, values in sorted(counters.items()):
            if len(values) > 1:
                (most, count), (_, next_count) = values.most_common(2)
                usual[name] = (most if count > next_count else None) if name else max(values)
        for run, settings in compared:
            other = {
                name: settings[name]
                for name in usual
                if settings.get(name, usual[name]) != usual[name]
            }
            texts = (
                f"{name}={value}" if name else f"{value:,} steps" for name, value in other.items()
            )
            groups.setdefault(", ".join(texts), []).append(run)
    return groups


def _settings(run: Run) -> dict[str, object]:
    """Returns the known settings of a run and of its encoder's pre-training, by flag; its length as
    ''.
    """
    *earlier, last = run.get("settings") or [" ".join(run.text("run.flags").splitlines())]
    settings: dict[str, object] = {name: str(run[name]) for name in COUNTS if name in run}
    for line in earlier:  # of pre-training, in a study's record
        module, *_ = line.split() or [""]
        task = module.rpartition(".")[2]
        settings |= {f"{task} {name}": value for name, value in _flags(line, task).items()}
    flags = _flags(last, run.get("kind", ""))
    steps = {"encoder_steps": run.identity.steps}
    # Steps that were found are no setting, but the most that are allowed is one.
    if flags.get("patience", "0") == "0" and flags.get("stop_at_loss", "0.0") == "0.0":
        flags = {name: value for name, value in flags.items() if name not in LENGTH}
        steps = {"": first_steps(run), **steps}
    return {**settings, **flags, **{name: count for name, count in steps.items() if count}}


def _flags(line: str, task: str) -> dict[str, str]:
    """Returns those flags of a command line that tell methods of a task apart."""
    flags = (word[2:].partition("=") for word in line.split() if word.startswith("--"))
    ignored = uncompared(TASKS[task].config) - LENGTH if task in TASKS else set()
    return {name: value for name, _, value in flags if name not in ignored}


def first_steps(run: Run) -> int:
    """Returns the steps of a run's first phase; 0 if unknown."""
    phases = run.get("phases") or {}
    steps = next(iter(phases.values()), {}).get("steps") if phases else run.get("steps")
    return int(steps) if is_number(steps) else 0


def _title(key: tuple[str, ...], others: Sequence[tuple[str, ...]]) -> str:
    objective = key[0].removesuffix(f"+{LABELS}")
    named = key[0] == UNKNOWN and key[4]  # a third-party encoder: under its own name
    title = (
        objectives.title(objective)
        if objectives.is_objective(objective)
        else BASELINES.get(objective, objective)
    )
    title = key[6] or title  # what exactly was trained, if its card says so
    # Of a handle on the web the part after the host, such as 'publisher/name/1'.
    title = (key[4].partition("://")[2].partition("/")[2] or key[4]) if named else title
    same = [
        x
        for x in others
        if (x[0], *x[5:7]) == (key[0], *key[5:7]) and (not named or x[4] == key[4])
    ]
    telling = [part for part, values in zip(key, zip(*same)) if part and len(set(values)) > 1]
    telling = ", ".join(telling) or ("" if named else key[4])
    propagation = f" + {PROPAGATION.get(key[5], key[5])}" if key[5] else ""
    labels = " and labels" if objective != key[0] else ""
    telling = f" ({telling})" if telling else ""
    return f"{title}{labels}{propagation}{telling}"


def architecture(name: str) -> str:
    """Returns 'ResNet-50 x2, grey' for 'resnet50_x2_grey', 'small ResNet' for 'small', and other
    names unchanged.
    """
    if name.split("_")[0] in ("tiny", "small", "base", "medium"):
        return f"{name.replace('_', ' ')} ResNet"
    match = re.fullmatch(r"resnet(\d+)(?:_([vx]\d))?(?:_(lab|grey))?", name)
    if not match:
        return name
    depth, size, colours = match.groups()
    text = f"ResNet-{depth}"
    if size:
        text += f" {size}"
    if colours:
        text += f", {colours}"
    return text
