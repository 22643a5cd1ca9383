"""The commands that would fill a gap, as close as possible to those that made its neighbours."""

from __future__ import annotations

import os
import pathlib
import shlex
from collections.abc import Sequence

from cpc_tf.reporting import paper
from cpc_tf.reporting.collect import Found, Run
from cpc_tf.reporting.methods import IMAGENET, dataset_name, method

ROOT = pathlib.Path(__file__).parents[2]
BINARIES = {"linear": "cpc_tf.linear", "efficient": "cpc_tf.efficient", "detect": "cpc_tf.detect"}
WIDTH = 110  # characters: longer commands go on in the next line


def preset(dataset: str, *names: str) -> list[str]:
    """--flagfile of the first of these presets that there is for a dataset, and --dataset if it is another's.

    Returns:
      no flags if there is none of these names for any dataset.
    """
    name = dataset_name(dataset)
    own = "imagenet" if name in IMAGENET else name if name == "photos" else "imagenette"
    for folder in dict.fromkeys((own, "imagenette", "photos")):
        for path in (f"flags/{folder}/{name}.flags" for name in names):
            if (ROOT / path).exists():
                data = [] if folder == own != "imagenette" else [f"--dataset={dataset}"]
                return [f"--flagfile={path}", *data]
    return []


def like(run: Run, flags: dict[str, str]) -> str:
    """The command of a linear or efficient run, or of a detector, with some flags changed."""
    path = run.file("run.flags")
    words = [f"--flagfile={path}"] if path else _recorded(run)
    if not words:
        words = [
            *(preset(run["dataset"], run["kind"]) or [f"--dataset={run['dataset']}"]),
            f"--encoder={run['encoder']}",
        ]
    words = [word for word in words if word.lstrip("-").split("=")[0] not in flags]
    return python(BINARIES[run["kind"]], words, flags)


def _recorded(run: Run) -> list[str]:
    """The flags of the last command that a study says it ran."""
    try:
        _, _, module, *words = shlex.split((run.get("commands") or [""])[-1])
    except ValueError:  # a quote without its end, or too few words
        return []
    return words if module == BINARIES[run["kind"]] else []


def from_preset(kind: str, dataset: str, flags: dict[str, str]) -> str:
    """The command of a kind of run by the dataset's preset; the baseline on pixels may have one of its own."""
    own = [f"{kind}_pixels"] if flags.get("encoder") == "pixels" else []
    return python(BINARIES[kind], preset(dataset, *own, kind) or [f"--dataset={dataset}"], flags)


def module_for(dataset: str, found: Found, folder: str) -> tuple[list[str], str]:
    """A module pre-trained on a dataset's pictures or classified on it; else the commands that make one in a folder."""
    name = dataset_name(dataset)
    for directory, card in found.modules.items():
        if dataset_name(str(card.get("dataset", ""))) == name:
            return [], directory
    for kind in ("efficient", "linear"):
        for run in found.of(kind):
            if dataset_name(run["dataset"]) == name and method(run).role == "cpc":
                return [], run["encoder"]
    words = preset(dataset, "pretrain", "pretrain_resnet161")
    pretrain = python("cpc_tf.pretrain", words, {"workdir": f"{folder}/pretrain"})
    export = python("export", [f"--workdir={folder}/pretrain"], {"output": f"{folder}/hub"})
    return [pretrain, export], f"{folder}/hub"


def labelled_module(dataset: str, folder: str) -> tuple[list[str], str]:
    """The commands that make a module in a folder out of a network trained on all labels of a dataset, and its path."""
    train = from_preset("efficient", dataset, {"encoder": "pixels", "workdir": f"{folder}/pixels"})
    export = python("export", [f"--workdir={folder}/pixels"], {"output": f"{folder}/hub"})
    return [train, export], f"{folder}/hub"


def for_each(variable: str, values: Sequence[str], lines: Sequence[str]) -> list[str]:
    """Commands for each value of FRACTION or RUNG, which stands in them; for several values a loop of the shell."""
    if len(values) == 1:
        return [line.replace(variable, values[0]) for line in lines]
    name = variable.lower()
    inner = ["  " + line.replace(variable, f"${name}").replace("\n", "\n  ") for line in lines]
    return [f"for {name} in {' '.join(values)}; do", *inner, "done"]


def over_fractions(command: str, fractions: Sequence[float]) -> list[str]:
    """A command for each of some fractions; FRACTION stands for it."""
    return for_each("FRACTION", [f"{fraction:g}" for fraction in fractions], [command])


def rungs(names: Sequence[str], runs_dir: str, like_run: Run | None) -> list[str]:
    """Pre-training, export and linear classification of rungs of figure 3."""
    order = [rung.name for rung in paper.LADDER]
    folder = os.path.join(runs_dir, "ablation", "RUNG")
    flags = {"encoder": f"{folder}/hub", "workdir": f"{folder}/linear"}
    words = ["--flagfile=flags/photos/linear.flags", "--nobaselines"]
    lines = [
        python("cpc_tf.pretrain", ["--flagfile=flags/ablation/pretrain_RUNG.flags"], {"workdir": folder}),
        python("export", [f"--workdir={folder}"], {"output": f"{folder}/hub"}),
        like(like_run, flags) if like_run else python("cpc_tf.linear", words, flags),
    ]
    return for_each("RUNG", [f"{order.index(name) + 1}_{name.lower()}" for name in names], lines)


def python(module: str, words: Sequence[str], flags: dict[str, str]) -> str:
    """`python -m module words --flags`, over as many lines as it needs."""
    words = ["python", "-m", module, *words, *(f"--{name}={value}" for name, value in flags.items())]
    lines = [""]
    for word in words:
        quoted = shlex.quote(word)
        if quoted != word and ("FRACTION" in word or "RUNG" in word):
            quoted = f'"{word}"'  # what the shell fills in
        if len(lines[-1]) + len(quoted) > WIDTH:
            lines.append("   ")
        lines[-1] += f" {quoted}" if lines[-1] else quoted
    return " \\\n".join(lines)
