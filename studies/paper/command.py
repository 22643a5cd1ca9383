"""`python -m studies paper`: the runs of a row or a table of the paper, what they cost, and ours
beside its figures.

    python -m studies paper --table=2 --dry_run       # lists the runs and their cost; runs nothing
    python -m studies paper --table=2                 # does those not done; may be interrupted
    python -m studies paper --row="CPC v2" --table=4  # a row by its name, or a part of it
    python -m studies paper --table=fig3 --seeds=3 --also=--data_dir=/data \\
      --also=pretrain:--batch_size=256

Commands are those of docs/paper.md, with all fractions of the labels. They run one after another,
each on all devices; a training that was interrupted goes on.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from cpc_tf.core import cli
from cpc_tf.core.commands import TASKS
from cpc_tf.core.settings import ConfigError
from cpc_tf.core.texts import markdown_table
from studies.paper import cost
from studies.paper import figures as paper
from studies.paper.chains import CHAINS, Chain
from studies.paper.rows import SECTIONS, Row
from studies.tables import spread

# --table -> the section of rows.
TABLES = {"1": "Table 1", "2": "Table 2", "3": "Table 3", "4": "Table 4", "fig3": "Figure 3"}


class Step(NamedTuple):
    """A command, with the flags that it is given, and the file that it writes last; '' of a
    report.
    """

    words: Sequence[str]
    made: str = ""

    @property
    def task(self) -> str:
        """The command of `cpc-tf`."""
        return self.words[0]

    @property
    def fraction(self) -> float | None:
        """The part of the labels that it is given, if it is."""
        given = [
            word.partition("=")[2] for word in self.words if word.startswith("--label_fraction=")
        ]
        return float(given[0]) if given else None

    @property
    def state(self) -> str:
        """Whether it is done, has begun, or is to do."""
        if os.path.exists(self.made):
            return "done"
        return (
            "begun"
            if self.task in TASKS and os.path.exists(os.path.dirname(self.made))
            else "to do"
        )


class Chosen(NamedTuple):
    """A row of the paper and the title of its section."""

    section: str
    row: Row


def chosen(table: str, name: str) -> list[Chosen]:
    """The rows of a table, of those the ones with a name or, if none has it, with it as a part of
    theirs.

    Raises:
      ConfigError: there is no such table or row, or none of them has commands.
    """
    if table not in ("", *TABLES):
        raise ConfigError("table", table, f"must be {', '.join(TABLES)}")
    if not table and not name:
        raise ConfigError(
            f"name a row by --row=NAME or a table by --table={'|'.join(TABLES)}; docs/paper.md has"
            " the rows"
        )
    rows = [
        Chosen(of.title, row)
        for of in SECTIONS
        for row in of.rows
        if not table or of.title == TABLES[table]
    ]
    parts = [each for each in rows if name.lower() in each.row.text.lower()]
    found = [each for each in parts if each.row.text == name] or parts
    if not found:
        names = "; ".join(each.row.text for each in rows) if table else "docs/paper.md has all"
        raise ConfigError("row", name, f"no row of the paper has this name; {names}")
    if not any(each.row.chains for each in found):
        raise ConfigError(
            f"--row={name}: nothing runs it here ({found[0].row.state}: {found[0].row.why})"
        )
    return [each for each in found if each.row.chains]


def steps(chain: Chain, work: str = "runs", seed: int = 0, also: Sequence[str] = ()) -> list[Step]:
    """The commands of a chain for all its fractions and a seed.

    Args:
      work: in place of the folder 'runs'.
      seed: of all trainings; another than 0 has folders of its own, 'resnet161_seed1'.
      also: flags of all trainings, '--data_dir=x', or of those of one task,
        'pretrain:--batch_size=256'.
    """
    found = []
    for command in chain.commands:
        for line in _fractions(command, chain.fractions):
            line = re.sub(r"\bruns/(\w+/\w+)/", rf"runs/\1_seed{seed}/", line) if seed else line
            _, task, *words = shlex.split(re.sub(r"\bruns/", f"{work}/", line))
            if task in TASKS:
                words += [f"--seed={seed}"] * bool(seed)
                given = (each.rpartition(":--") for each in also)
                words += [
                    f"--{flag.removeprefix('--')}" for of, _, flag in given if of in ("", task)
                ]
            place = {word.partition("=")[0]: word.partition("=")[2] for word in words}
            made = f"{place['--workdir']}/result.json" if task in TASKS else ""
            made = f"{place['--output']}/encoder.json" if task == "export" else made
            found.append(Step([task, *words], made))
    return found


def _fractions(command: str, fractions: Sequence[float]) -> list[str]:
    """A command for each of these fractions of the labels, in a folder of its own, if it
    takes one.
    """
    given = re.search(r"--label_fraction=(\S+)", command)
    if not given or not fractions:
        return [command]
    places = rf"(--label_fraction=|/efficient_){re.escape(given[1])}(?= |$)"
    return [re.sub(places, rf"\g<1>{part:g}", command) for part in fractions]


def unique(found: Iterable[Step]) -> list[Step]:
    """Steps, each once, in order; the reports are last."""
    once = {tuple(step.words): step for step in found}
    return sorted(once.values(), key=lambda step: step.task == "report")


def listing(todo: Sequence[Step]) -> str:
    """Each step with its state, then what the presets of those that are not done say of their
    cost.
    """
    lines = [f"{step.state:6} cpc-tf {shlex.join(step.words)}" for step in todo]
    presets: dict[str, int] = {}
    for step in todo:
        name = _preset(step)
        if name and step.state != "done":
            presets[name] = presets.get(name, 0) + 1
    lines += [
        f"{count} x {name}: {cli.preset_header(name).cost}" for name, count in presets.items()
    ]
    if presets:
        costs = zip(todo, cost.of_steps([step.words for step in todo]))
        left = [(step, flop) for step, flop in costs if step.task in TASKS and step.state != "done"]
        unknown = ", ".join(dict.fromkeys(_preset(step) for step, flop in left if not flop))
        without = f", without {unknown}, of which nothing is known" if unknown else ""
        lines.append(f"cost: at most {sum(flop for _, flop in left):.0e} FLOP{without}")
    return "\n".join(lines)


def _preset(step: Step) -> str:
    """The name of a step's preset; '' of an export or a report."""
    return next((word.partition("=")[2] for word in step.words if word.startswith("--preset=")), "")


def carry_out(todo: Sequence[Step]) -> None:
    """Does the steps that are not done. Ends the program where one fails: the same command
    goes on.
    """
    for number, step in enumerate(todo, 1):
        if step.state == "done":
            continue
        print(f"{number}/{len(todo)}: cpc-tf {shlex.join(step.words)}", flush=True)
        if status := run(step):
            sys.exit(
                f"stopped at cpc-tf {step.task} (status {status}); run the same command to resume"
            )


def run(step: Step) -> int:
    """Does a step in a process of its own; returns its status."""
    module = "export" if step.task == "export" else f"cpc_tf.{step.task}"
    return subprocess.run([sys.executable, "-m", module, *step.words[1:]], check=False).returncode


def filled(rows: Sequence[Chosen], of_seeds: Sequence[Mapping[str, Sequence[Step]]]) -> str:
    """The rows with the paper's figures and ours, as far as they are done; `of_seeds`: {chain:
    steps} of each seed.
    """
    lines = []
    for section, row in rows:
        files = [
            step.made
            for found in of_seeds
            for key in row.chains
            for step in found[key]
            if step.task in TASKS
        ]
        results = [
            json.loads(pathlib.Path(file).read_text())
            for file in dict.fromkeys(files)
            if os.path.exists(file)
        ]
        lines.append([row.text, row.figures, ours(section, row.text, results)])
    return markdown_table(["the paper", "figures", "ours"], lines)


def ours(section: str, name: str, results: Sequence[dict]) -> str:
    """Our figures in the order of the paper's, from the results of a row's chains."""

    def mean(kind: str, metric: str, fraction: float = 1.0, phase: str = "") -> str:
        values = []
        for result in results:
            if result["kind"] == kind and abs(result.get("label_fraction", 1.0) - fraction) < 1e-4:
                scores = result["phases"].get(phase, {}) if phase else result
                values += [scores[metric]] if metric in scores else []
        return spread(values)

    if section == "Table 4":
        return mean("detect", "map11")
    if section == "Table 2" and not name.startswith("Gain"):
        metric = "top5" if name.endswith("top-5") else "top1"
        return " / ".join(mean("efficient", metric, part) for part in paper.FRACTIONS)
    if section == "Table 3":
        phase = "frozen" if name.endswith("(fixed)") else ""
        return " / ".join(
            mean("efficient", "top5", part, phase) for part in paper.TABLE_3_FRACTIONS
        )
    if section == "Figure 3" and any("by_channel" in result for result in results):
        seen = [{**result, **result.get("by_channel", {})} for result in results]
        return f"{ours('Table 1', name, seen)}; in colour {ours('Table 1', name, results)}"
    if section in ("Table 1", "Figure 3"):
        return f"{mean('linear', 'top1')} / {mean('linear', 'top5')}"
    return "in the report"


def main(table: str, row: str, work: str, seeds: int, also: Sequence[str], dry_run: bool) -> None:
    """Lists, does and shows the runs of the rows that are named. Raises ConfigError, see
    `chosen`.
    """
    rows = chosen(table, row)
    for each in also:
        of = each.rpartition(":--")[0]
        if not each.partition(":")[2 if of else 0].startswith("--") or of not in ("", *TASKS):
            raise ConfigError(
                "also",
                each,
                "must be a flag, such as --data_dir=/data, or a flag of one task, such as"
                " pretrain:--batch_size=256",
            )
    parts = (
        paper.TABLE_3_FRACTIONS
        if {each.section for each in rows} == {"Table 3"}
        else paper.FRACTIONS
    )
    wanted = None, *parts
    keys = dict.fromkeys(key for each in rows for key in each.row.chains)
    of_seeds = []
    for seed in range(seeds):
        found = {key: steps(CHAINS[key], work, seed, also) for key in keys}
        of_seeds.append(
            {
                key: [step for step in all_of if step.fraction in wanted]
                for key, all_of in found.items()
            }
        )
    todo = unique(step for found in of_seeds for each in found.values() for step in each)
    print(listing(todo), flush=True)
    if not dry_run:
        carry_out(todo)
    print(filled(rows, of_seeds))
