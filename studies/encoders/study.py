"""Which encoder, when? Six kinds of images by several encoders, with few labels.

    python -m studies encoders

Rows of EfficientNet-Lite0 need its SavedModel: --lite0=FOLDER. Adapted encoders were trained
further without labels on the images of the set, all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import MaxNLocator

from cpc_tf.core.texts import markdown_table
from cpc_tf.drawing import plots
from studies import runner
from studies.coverage.study import FOLDERS
from studies.encoders.images import SETS
from studies.encoders.measure import DRAWS, NUMBERS
from studies.tables import spread

STEPS = 400  # of 32 images: four to five minutes of one core
PRESET = "flags/imagenette/pretrain_128px.flags"
# encoder -> its colour, see `plots.Theme`, and style
ENCODERS = {
    "pixels": ("pixels", "-"),
    "untrained": ("untrained", "-"),
    "CPC": ("cpc", "-"),
    "Lite0": ("labels", "-"),
    "CPC + Lite0": ("healthy", "-"),
    "CPC, adapted": ("cpc", "--"),
}
QUOTED = ("imagenette", "blood cells", "drawings", "digits")


def runs(places: runner.Places) -> list[runner.Run]:
    """Each encoder on all sets of images, those that take longest last."""
    return [_run(places, name, encoder) for encoder in ENCODERS for name in SETS]


def _run(places: runner.Places, name: str, encoder: str) -> runner.Run:
    """Writes the images, adapts the encoder if it is to be adapted, and measures it."""
    images = f"{places.work}/encoders/images/{_word(name)}"
    folder = f"{places.work}/encoders/{_word(name)}/{_word(encoder)}"
    write = ["studies.encoders.images", f"--pictures_of={name}"]
    if name in FOLDERS:
        flag = FOLDERS[name]
        write.append(f"--{flag}={getattr(places, flag)}")
    steps = [([*write, f"--output={images}"], f"{images}.json")]

    if encoder == "CPC, adapted":
        more = [f"--initial_encoder={runner.MODULE}", f"--train_steps={STEPS}", "--probe_every=0"]
        steps += runner.pretrained(folder, PRESET, [f"--dataset=folder:{images}", *more])

    lite0 = f"-1..1:{places.lite0}"
    named = {
        "pixels": ["--encoder=pixels"],
        "untrained": [f"--encoder=random:{runner.MODULE}"],
        "CPC": [f"--encoder={runner.MODULE}"],
        "Lite0": [f"--encoder={lite0}"],
        "CPC + Lite0": [f"--encoder={runner.MODULE}", f"--beside={lite0}"],
    }
    result = f"{folder}/result.json"
    measure = [
        "studies.encoders.measure",
        f"--pictures={images}",
        *named.get(encoder, [f"--encoder={folder}/hub"]),
        f"--draws={DRAWS}",
        f"--output={result}",
    ]
    return runner.Run({"set": name, "encoder": encoder}, [*steps, (measure, result)])


def _word(text: str) -> str:
    """Returns a name of a folder."""
    return "".join(letter if letter.isalnum() else "_" for letter in text)


def accuracies(records: Sequence[dict], name: str, encoder: str, each: int) -> list[float]:
    """Returns the accuracy of each draw; none if the encoder is not recorded."""
    for record in records:
        if (record["set"], record["encoder"]) == (name, encoder):
            return next(row["accuracy"] for row in record["rows"] if row["each"] == each)
    return []


def table(
    records: Sequence[dict],
    sets: Sequence[str] = tuple(SETS),
    numbers: Sequence[int] = NUMBERS,
    encoders: Sequence[str] = tuple(ENCODERS),
) -> str:
    """A line for each set and number of labels per class, a column for each encoder that is
    recorded; the best in bold.
    """
    recorded = {record["encoder"] for record in records}
    columns = [encoder for encoder in encoders if encoder in recorded]
    rows = []
    for name in sets:
        for each in numbers:
            draws = {encoder: accuracies(records, name, encoder, each) for encoder in columns}
            if not any(draws.values()):
                continue
            best = max(draws, key=lambda encoder: sum(draws[encoder]))
            cells = []
            for encoder, values in draws.items():
                cell = spread(values).removesuffix(f", n={DRAWS}")
                cells.append(f"**{cell}**" if encoder == best else cell)
            rows.append([name, each, *cells])
    return markdown_table(["images", "labels per class", *columns], rows)


def four_rows(records: Sequence[dict]) -> str:
    """The part of the table that the README quotes."""
    return table(records, QUOTED, (12,), tuple(ENCODERS)[2:])


def draw(records: Sequence[dict]) -> bytes:
    """Accuracy over the labels per class: a panel for each set, a line for each encoder, bands from
    the worst to the best draw.
    """
    names = [name for name in SETS if any(record["set"] == name for record in records)]

    def fill(canvas: Canvas, theme: plots.Theme) -> None:
        panels = plots.grid(canvas, len(names), columns=3, sharex=True)
        drawn = {}
        for axis, name in zip(panels, names):
            for encoder, (color, style) in ENCODERS.items():
                points = []
                for each in NUMBERS:
                    values = [100 * value for value in accuracies(records, name, encoder, each)]
                    if values:
                        mean = sum(values) / len(values)
                        points.append((each, mean, min(values), max(values)))
                if points:
                    line = plots.Line(encoder, points, color, style)
                    drawn[encoder] = line.draw(axis, theme)
            axis.set(title=name, xscale="log")
            axis.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
            axis.set_xticks(NUMBERS, [f"{each}" for each in NUMBERS])
            axis.minorticks_off()
        canvas.supxlabel("labels per class", fontsize=10)
        canvas.supylabel("mean of the classes right on all other images, %", fontsize=10)
        canvas.legend(drawn.values(), drawn, loc="outside upper center", ncols=len(drawn))

    return plots.png(fill, 11, 6.6, dpi=110)
