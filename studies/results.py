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
from studies import answers, claims, module_tables, pictures, records, runner, tables
from studies.causes import study as causes
from studies.coverage import study as coverage
from studies.encoders import study as encoders
from studies.health import study as health
from studies.label import study as label
from studies.label_curve import study as curves
from studies.ladder import study as ladders
from studies.objectives import study as objectives
from studies.paper import figures as paper
from studies.paper import page
from studies.tables import OVER, spread

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


def study_table(name: str) -> str:
    """The table that a study prints, and where its figures come from."""
    if not of(name):
        return f"No run is recorded yet: `python -m studies {name}`."
    return runner.load(name).table(of(name)) + origin(of(name), name, over=name)


def origin(found: Sequence[dict], study: str, only: str = "", over: str = "") -> str:
    """The command, the records, the processors and the days of some figures; `over`: a key of
    tables.OVER.
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
    link = f"[{len(found)} record{'s' * (len(found) > 1)}](studies/{study}/records.json)"
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


def gain(dataset: str, fraction: float) -> str:
    """How many times as many labels the baseline needs for what fine-tuned CPC has, with its
    interval; '-' without runs.
    """
    of_runs, count = claims.gain(of("label_curve"), dataset, fraction)
    if not count:
        return "-"
    where = claims.at(dataset, fraction)
    spans = [
        f" ({each.span})"
        for claim in claims.claims(of)
        for each in claim.comparisons
        if each.factor and each.where == where and each.interval
    ]
    return "".join([f"{of_runs(range(count)) or '-'}", *spans])


def gains() -> str:
    """The gain of each dataset."""
    parts = (0.01, 0.02, 0.05, 0.1)
    rows = [
        [f"`{dataset}`", *(gain(dataset, part) for part in parts)]
        for dataset in sorted(curves.FRACTIONS)
    ]
    rows.append(["`paper:` ImageNet", *paper.GAIN["top1"][: len(parts)]])
    columns = ["times as many labels, fine-tuned", *(f"{100 * part:g} %" for part in parts)]
    return markdown_table(columns, rows)


IMAGES = {
    "imagenette-128px": "ten classes, 128 px",
    "imagenette-224": "the same, 64 px",
    "photos": "19 photographs, 64 px",
}
BOXES = {
    "bccd-voc-128px": "blood cells",
    "collages-128px": "collages",
    "bccd-voc": "blood cells, half the size",
    "collages": "collages, half the size",
}


def images() -> str:
    """CPC and the baseline on each set of images, with the fewest and with all labels."""
    rows = []
    for dataset in sorted(curves.FRACTIONS):
        for part in (0.01, 0.1, 1.0):
            ours, theirs = (accuracy(dataset, arm, part) for arm in ("CPC", "pixels"))
            if ours != "-":
                times = gain(dataset, part) if part < 1 else "-"
                rows.append([f"`{dataset}`", f"{100 * part:g} %", ours, theirs, times])
    columns = ["images", "labels", "CPC, fine-tuned, top-1, %", "supervised baseline",
               "times as many labels for the same"]  # fmt: skip
    found = of("label_curve")
    return markdown_table(columns, rows) + origin(found, "label_curve")


def top1_of_rung(rung: str, dataset: str) -> str:
    """Top-1 of one rung of the ladder, on what its encoder saw."""
    return spread(map(ladders.top1, of("ladder", rung=rung, dataset=dataset)))


# Rung -> its name, and what the paper's text says that it brought.
LADDER = {
    ladders.UNTRAINED: ("a copy of the last encoder", ""),
    **paper.LADDER,
    ladders.OURS: ("in place of PA, ours", ""),
}


def rungs() -> list[str]:
    """The rungs of the ladder that are recorded, and between them those that are missing."""
    recorded = {record["rung"] for record in of("ladder")}
    return [rung for rung in LADDER if rung in recorded or rung in paper.LADDER]


def ladder() -> str:
    """Fig. 3: a line for each rung, a column for each set of images that is recorded, with the kind
    of its classifiers, and what the paper's text says that a rung brought.
    """
    measured = [name for name in ladders.LADDERS if of("ladder", dataset=name)]
    rows = []
    for rung in rungs():
        name, gained = LADDER[rung]
        figures = [top1_of_rung(rung, dataset) for dataset in measured]
        rows.append([f"{rung}: {name}", *figures, gained or "-"])
    titles = [f"`{name}`, {ladders.LADDERS[name].classifier}" for name in measured]
    columns = ["rung, linear top-1, %", *titles, "`paper:` ImageNet, points"]
    return markdown_table(columns, rows) + origin(of("ladder"), "ladder", over="ladder")


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
    """Which encoder is best for which images, with twelve labels per class."""
    found = of("encoders")
    return encoders.four_rows(found) + origin(found, "encoders", over="encoders")


def page_one_encoders() -> str:
    """The same without its origin, which stands in docs/results.md."""
    return encoders.four_rows(of("encoders"))


def label_orders() -> str:
    """The order of `cpc-tf label` beside a random one; the study's table has all orders."""
    orders = (label.DEFAULT, "random")
    rows = []
    for dataset in dict.fromkeys(record["dataset"] for record in of("label")):
        for order in orders:
            found = [record["at"] for record in of("label", dataset=dataset, order=order)]
            cells = [spread(at[str(number)]["top1"] for at in found) for number in label.NUMBERS]
            rows.append([f"`{dataset}`, {order}", *cells])
    found = [record for record in of("label") if record["order"] in orders]
    columns = ["images and order, top-1, %", *(f"{number} labels" for number in label.NUMBERS)]
    return markdown_table(columns, rows) + origin(found, "label", over="label")


def coverages() -> str:
    """All sets and kinds of labels together; the study's table has each."""
    found = of("coverage")
    rows = coverage.table(found).splitlines()
    return "\n".join([*rows[:2], rows[-1]]) + origin(found, "coverage")


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
    "summary": functools.partial(claims.page_one, of),
    "modules": module_tables.table,
    "modules_short": module_tables.short_table,
    "objectives_settings": objectives.settings_table,
    "claims": functools.partial(claims.verdicts, of),
    "comparisons": functools.partial(claims.comparisons, of),
    "label_curve": functools.partial(label_curve, "imagenette-128px"),
    "label_curve_64px": functools.partial(label_curve, "imagenette-224"),
    "label_curve_photos": functools.partial(label_curve, "photos"),
    "label_orders": label_orders,
    "coverage_short": coverages,
    "gain": gains,
    "images": images,
    **{f"answer_{name}": functools.partial(say, of) for name, say in answers.ANSWERS.items()},
    "answer_cost": lambda: answers.of_cost(by_hand()),
    "ladder": ladder,
    "transfer": transfer,
    "detection": detection,
    "encoders_short": short_encoders,
    "encoders_page_one": page_one_encoders,
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
    "claims": lambda: pictures.forest(claims.claims(of)),
    "images": lambda: pictures.by_images(of("label_curve"), IMAGES),
    "ladder": lambda: pictures.ladder(of("ladder"), rungs()),
    "detection": lambda: pictures.detection(of("detection"), BOXES),
    "label_orders": lambda: pictures.label_orders(of("label")),
    "coverage": lambda: pictures.coverage([record["rows"] for record in of("coverage")]),
    "speed": lambda: pictures.speed(by_hand()),
}


def documents() -> list[pathlib.Path]:
    """The files that may have marked tables."""
    return [
        ROOT / "README.md",
        ROOT / "modules/README.md",
        *sorted((ROOT / "docs").glob("*.md")),
        records.FOLDER / "README.md",
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
