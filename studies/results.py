"""Writes tables (README.md, docs, modules and studies) and images (docs/images) from the
studies' records.

    # Tables: what stands between <!-- results:NAME --> and <!-- /results -->.
    python -m studies.results
    python -m studies.results --pictures  # images, too

NAME is a key of TABLES.
"""

from __future__ import annotations

import functools
import json
import pathlib
import re
from collections.abc import Callable, Sequence

from absl import app, flags

from benchmarks import records as compiled
from benchmarks import scale
from cpc_tf.core.files import write_file
from cpc_tf.core.texts import markdown_table
from cpc_tf.report.efficient import interpolated
from studies import claims, module_tables, records, runner, tables
from studies.causes import study as causes
from studies.encoders import study as encoders
from studies.health import study as health
from studies.label_curve import study as curves
from studies.ladder import study as ladders
from studies.objectives import study as objectives
from studies.paper import figures as paper
from studies.paper import page
from studies.tables import spread

ROOT = records.FOLDER.parent
MARKED = re.compile(r"(<!-- results:(\w+) -->\n)(.*?)(<!-- /results -->)", re.DOTALL)


@functools.cache
def of(study: str, **fields: str) -> list[dict]:
    """The records of a study with some fields, but for those of other settings than the study has
    today.
    """
    found = [record for record in records.read(study) if fields.items() <= record.items()]
    runs = [
        run
        for run in runner.load(study).runs(runner.Places())
        if fields.items() <= run.fields.items()
    ]
    right = [records.find(run.fields, run.steps, found)[0] for run in runs]
    return [record for record in found if record in right]


@functools.cache
def by_hand() -> dict[str, dict]:
    """The tables whose figures somebody wrote down: nothing else recorded them."""
    return json.loads((records.FOLDER / "by_hand.json").read_text())


def hand_table(name: str) -> str:
    """One of them, and where its figures come from."""
    found = by_hand()[name]
    link = "[recorded by hand](studies/by_hand.json)"
    source = (
        f"`measured:` `{found['command']}`; {link}; {found['runs']}; {found['machine']},"
        f" {found['date']}."
    )
    return f"{markdown_table(found['columns'], found['rows'])}\n\n{source}"


# Study, or dataset of the label curve -> what n runs are: what differs between them.
OVER = {
    **{
        "augmentation": "encoders",
        "ladder": "encoders",
        "photos": "encoders, each with its own labels",
    },
    **{
        "imagenette-224": "encoders, each with its own labels",
        "imagenette-128px": "choices of labels, on one encoder",
    },
    "transfer": "choices of labels, at 64 px with an encoder each",
    "label": "choices of four fifths of the images",
    "encoders": "draws of the labels",
    "detection": "encoders at 64 px, detectors on one encoder at 128 px",
}


def study_table(name: str) -> str:
    """The table that a study prints, and where its figures come from."""
    if not of(name):
        return f"No run is recorded yet: `python -m studies {name}`."
    return runner.load(name).table(of(name)) + origin(of(name), name, over=name)


def origin(found: Sequence[dict], study: str, only: str = "", over: str = "") -> str:
    """The command, the records, the processors and the days of some figures; `over`: a key of
    OVER.
    """
    days = sorted({record["date"] for record in found})
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    processors = ", ".join(sorted({record["machine"].rpartition(", ")[2] for record in found}))
    cores = (
        "one core a run, "
        if all(record["machine"].startswith("one core") for record in found)
        else ""
    )
    command = f"python -m studies {study}{only and f' --only={only}'}"
    link = f"[{len(found)} records](studies/{study}/records.json)"
    spreads = f" ±: standard deviation over n {OVER[over]}." if over in OVER else ""
    return f"\n\n`measured:` `{command}`; {link}; {cores}{processors}, {when}.{spreads}"


def label_curve(dataset: str) -> str:
    """A line for each method, a column for each fraction of the labels."""
    found = of("label_curve", dataset=dataset)
    labels = sorted({(record["label_fraction"], record["num_train_labels"]) for record in found})
    rows = []
    for title, (features, phase) in curves.METHODS.items():
        points = [curves.at(found, features, fraction) for fraction, _ in labels]
        if not any(points):
            continue
        rows.append([title, *(spread(curves.top1(own, phase)) for own in points)])
    columns = ["top-1, %", *(f"{100 * fraction:g} % ({count:,})" for fraction, count in labels)]
    return markdown_table(columns, rows) + origin(
        found, "label_curve", f"dataset={dataset}", dataset
    )


def gain(dataset: str, phase: str, fraction: float) -> str:
    """How many times as many labels the baseline needs, interpolated linearly in the logarithm of
    the labels.
    """
    found = of("label_curve", dataset=dataset)
    baseline: dict[int, list[float]] = {}
    for record in found:
        if record["features"] == "pixels":
            baseline.setdefault(record["num_train_labels"], []).append(record["top1"])
    own = curves.at(found, "CPC", fraction)
    points = [(labels, _mean(values)) for labels, values in baseline.items()]
    return (
        str(interpolated(points, own[0]["num_train_labels"], _mean(curves.top1(own, phase))))
        if own
        else "-"
    )


def _interval(dataset: str, fraction: float) -> str:
    """The 95 % interval of the gain of some fine-tuned runs on the mean curve of the baseline, '
    (2.8 to 6.3)'.
    """
    found = claims.Comparison("", claims.gains(of("label_curve"), dataset, fraction)).interval
    return f" ({found[0]:.1f} to {found[1]:.1f})" if found else ""


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def gains() -> str:
    """The gain of each dataset."""
    parts = (0.01, 0.02, 0.05, 0.1)
    rows = []
    for dataset, phase in (
        ("imagenette-128px", "frozen"),
        ("imagenette-128px", ""),
        ("imagenette-224", ""),
        ("photos", ""),
    ):
        found = [
            gain(dataset, phase, part) + ("" if phase else _interval(dataset, part))
            for part in parts
        ]
        rows.append([f"`{dataset}`, {phase or 'fine-tuned'}", *found])
    rows.append(["`paper:` ImageNet, fine-tuned", *paper.GAIN["top1"][: len(parts)]])
    return markdown_table(["times as many labels", *(f"{100 * part:g} %" for part in parts)], rows)


def top1_of_rung(rung: str, dataset: str) -> str:
    """Top-1 of one rung of the ladder, on what its encoder saw."""
    return spread(map(ladders.top1, of("ladder", rung=rung, dataset=dataset)))


def ladder() -> str:
    """Fig. 3: ours on each dataset that has records, and what the paper's text says each rung
    brought.
    """
    said = {ladders.UNTRAINED: ("", ""), **paper.LADDER, ladders.OURS: ("instead of PA, ours", "")}
    titles = {
        "imagenette-224": "`imagenette-224`, 64 px, linear top-1, %, augmented",
        "photos": "`photos`, linear top-1, %, not augmented",
    }
    measured = [name for name in ladders.LADDERS if of("ladder", dataset=name)]
    rungs = [
        rung
        for rung in (ladders.UNTRAINED, *ladders.RUNGS)
        if rung != ladders.UNTRAINED or of("ladder", rung=rung)
    ]
    lines = [[titles[name], *(top1_of_rung(rung, name) for rung in rungs)] for name in measured]
    lines.append(["`paper:` ImageNet, points", *(said[rung][1] or "-" for rung in rungs)])
    alone = (ladders.UNTRAINED, "v1", ladders.OURS)
    names = [
        f"{'+ ' if rung not in alone else ''}{rung}: {said[rung][0]}".removesuffix(": ")
        for rung in rungs
    ]
    return markdown_table(["", *names], lines) + origin(of("ladder"), "ladder", over="ladder")


def accuracy(dataset: str, features: str, fraction: float, phase: str = "") -> str:
    """Top-1 at one point of a label curve."""
    return spread(
        curves.top1(curves.at(of("label_curve", dataset=dataset), features, fraction), phase)
    )


def transfer() -> str:
    """1 % of the labels of `photos`, on the module adapted to them and without it."""
    rows = [
        [
            "**the module, adapted for 12 epochs, frozen**",
            f"**{accuracy('photos-128px', 'CPC', 0.01, 'frozen')}**",
        ],
        ["the same, fine-tuned", accuracy("photos-128px", "CPC", 0.01)],
        ["`small` at 64 px, pre-trained on `photos`, fine-tuned", accuracy("photos", "CPC", 0.01)],
        ["supervised baseline, `small` at 64 px", accuracy("photos", "pixels", 0.01)],
        ["supervised baseline, `base` at 128 px", accuracy("photos-128px", "pixels", 0.01)],
    ]
    found = [r for name in ("photos-128px", "photos") for r in of("label_curve", dataset=name)]
    found = [record for record in found if record["label_fraction"] == 0.01]
    table = markdown_table(["`photos`, 1 % of the labels (38)", "top-1, %"], rows)
    return table + origin(found, "label_curve", "label_fraction=0.01", "transfer")


def detection() -> str:
    """Mean average precision over 11 points; the study prints it over all points, too."""
    found = of("detection")
    table = tables.table(found, ["features"], "dataset", "map11")
    return table.replace("features", "mAP, %", 1) + origin(found, "detection", over="detection")


def short_encoders() -> str:
    """Which encoder is best for which images, with twelve labels a class."""
    found = of("encoders")
    return encoders.four_rows(found) + origin(found, "encoders", over="encoders")


def paper_results() -> str:
    """What the paper reports for CPC v2, and the best that it compares this with."""
    table = paper.TABLE_2["top1"]
    rows = []
    for part, own, baseline in zip(paper.FRACTIONS, table[paper.CPC], table[paper.PIXELS]):
        if part in (0.01, 0.1, 1.0):
            rows.append(
                [f"ImageNet, {100 * part:g} % of the labels, top-1", own, f"{baseline}, supervised"]
            )
    *others, linear = (line for lines in paper.TABLE_1.values() for line in lines)
    best = max((line for line in others if line[2]), key=lambda line: line[2])
    rows.append(["ImageNet, linear classifier, top-1", linear[2], f"{best[2]}, {best[0]}"])
    (labelled,), transferred = paper.TABLE_4.values()
    rows.append(["VOC 2007, mAP", transferred[-1][2], f"{labelled[2]}, supervised"])
    return markdown_table(["`paper:`", "CPC v2", "compared with"], rows)


def summary() -> str:
    """A line for each claim."""
    large = "imagenette-128px"

    def boxes(dataset: str, features: str) -> str:
        return spread(
            record["map11"] for record in of("detection", dataset=dataset, features=features)
        )

    labels = "supervised baseline"
    other = "trained on other labels"
    rows = [
        ["label-curve", "1 % of the labels (97), three choices, one encoder, top-1, %",
         accuracy(large, "CPC", 0.01), f"{accuracy(large, 'pixels', 0.01)}, {labels}"],
        ["label-curve", "all labels, top-1, %; one run each", accuracy(large, "CPC", 1.0),
         f"{accuracy(large, 'pixels', 1.0)}, {labels}, not converged"],
        ["gain", "labels for what CPC has with 1 %", "1 x",
         f"{gain(large, '', 0.01)} x{_interval(large, 0.01)}, {labels}"],
        ["detection", "blood cells, mAP, %; no lead is shown", boxes("bccd-voc-128px", "CPC"),
         f"{boxes('bccd-voc-128px', 'supervised')}, {other}"],
    ]  # fmt: skip
    return markdown_table(
        ["", "CPC", "compared with"],
        [[f"[{text}](docs/results.md#{a})", *more] for a, text, *more in rows],
    )


def of_programs(table: Callable[[Sequence[dict]], str]) -> str:
    """A table of the programs that `python -m benchmarks.tpu` has compiled."""
    return table(compiled.read(compiled.FILE))


PROGRAMS = {
    "scale": scale.training,
    "growth": scale.growth,
    "programs": compiled.programs,
    "wire": compiled.wire,
}
OF_STUDIES = (
    "augmentation",
    "causes",
    "clipart",
    "coverage",
    "encoders",
    "health",
    "label",
    "recipe",
    "objectives",
    "supervised",
)
TABLES: dict[str, Callable[[], str]] = {
    **{name: functools.partial(hand_table, name) for name in by_hand()},
    **{name: functools.partial(study_table, name) for name in OF_STUDIES},
    "summary": summary,
    "modules": module_tables.table,
    "modules_short": module_tables.short_table,
    "objectives_settings": objectives.settings_table,
    "claims": functools.partial(claims.verdicts, of),
    "comparisons": functools.partial(claims.comparisons, of),
    "label_curve": functools.partial(label_curve, "imagenette-128px"),
    "label_curve_64px": functools.partial(label_curve, "imagenette-224"),
    "label_curve_photos": functools.partial(label_curve, "photos"),
    "gain": gains,
    "ladder": ladder,
    "transfer": transfer,
    "detection": detection,
    "encoders_short": short_encoders,
    "paper": paper_results,
    "paper_by_row": page.body,
    **{name: functools.partial(of_programs, table) for name, table in PROGRAMS.items()},
}
PICTURES: dict[str, Callable[[], bytes]] = {
    "label_curve": lambda: curves.draw(of("label_curve", dataset="imagenette-128px")),
    "few_labels": lambda: curves.draw(of("label_curve", dataset="photos")),
    "causes": lambda: causes.draw(of("causes")),
    "health": lambda: health.draw(of("health")),
    "objectives": lambda: objectives.draw(of("objectives")),
    "encoders": lambda: encoders.draw(of("encoders")),
}


def documents() -> list[pathlib.Path]:
    """The files that may have marked tables."""
    return [
        ROOT / "README.md",
        ROOT / "modules/README.md",
        *sorted((ROOT / "docs").glob("*.md")),
        *sorted(records.FOLDER.glob("*/README.md")),
    ]


def filled(text: str, depth: int) -> str:
    """A document so many folders below the repository with its marked tables as the records have
    them.

    Raises:
      KeyError: there is no table of that name.
    """

    def fill(marked: re.Match) -> str:
        up = "../" * depth
        table = TABLES[marked[2]]()
        table = re.sub(r"\]\((docs|flags|modules|studies)/", rf"]({up}\1/", table)
        return f"{marked[1]}{table}\n{marked[4]}"

    return MARKED.sub(fill, text)


def main(_) -> None:
    """Writes what has changed."""
    for path in documents():
        before = path.read_text()
        after = filled(before, len(path.relative_to(ROOT).parts) - 1)
        if after != before:
            write_file(str(path), after)
            print(path.relative_to(ROOT))
    for name, draw in PICTURES.items() if flags.FLAGS.pictures else ():
        write_file(str(ROOT / "docs/images" / f"{name}.png"), draw())


if __name__ == "__main__":
    flags.DEFINE_bool("pictures", False, "also draw docs/images")
    app.run(main)
