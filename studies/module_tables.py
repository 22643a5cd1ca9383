"""The tables of trained modules: an entry for each modules/NAME/encoder.json, with its records.

What neither a module's card nor a record says is in modules/about.json, by the module's name; for a
module that is not there it is '-'.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator

from cpc_tf.core.texts import markdown_table
from cpc_tf.encoders.card import EncoderCard, read_card
from studies import records, runner
from studies.tables import spread

MODULES = records.FOLDER.parent / "modules"
EACH = 12  # labels per class of the figures on small sets
PARTS = {"0.01": "1", "0.1": "10", "1": "100"}  # keys of a reading -> % of the labels
# Studies of few labels per class, and what they call a module if not by its name.
FEW_LABELS = {"encoders": {"CPC": pathlib.Path(runner.MODULE).name}, "clipart": {}}
LINEAR = f"logistic regression with {' / '.join(PARTS.values())} % of the labels"
FINE_TUNED = f"fine-tuned with {' / '.join(PARTS.values())} %"
READING = "`imagenette-224`, top-1, %"


def _cards() -> dict[str, EncoderCard]:
    """Name -> card."""
    paths = sorted(MODULES.glob("*/encoder.json"))
    return {path.parent.name: read_card(str(path.parent)) for path in paths}


def _about(name: str, key: str) -> str:
    about = json.loads((MODULES / "about.json").read_text())
    return about.get(name, {}).get(key, "-")


def _images(name: str, card: EncoderCard) -> str:
    """What it learned from."""
    images = _about(name, "images")
    return f"`{card.training.dataset}`" if images == "-" else images


def _readings(name: str) -> tuple[str, str]:
    """Neighbours, and logistic regression with 1, 10 and 100 % of the labels, on validation images
    of imagenette.
    """
    for record in records.read("release"):
        if record["tested_on"] == "val" and pathlib.Path(record["module"]).name == name:
            linear = " / ".join(f"{100 * record[part]:.1f}" for part in PARTS)
            return f"{100 * record['knn']:.1f}", linear
    return "-", "-"


def _fine_tuned(name: str) -> str:
    """Accuracy after fine-tuning with 1, 10 and 100 % of the labels of imagenette."""
    found = []
    for record in records.read("label_curve"):
        if record["dataset"] == "imagenette-128px" and record["identity"]["module"] == name:
            found.append(record)
    cells = []
    for part in PARTS:
        cells.append(spread(r["top1"] for r in found if r["label_fraction"] == float(part)))
    return " / ".join(cells) if found else "-"


def _few_labels(name: str) -> Iterator[tuple[str, str]]:
    """(images, accuracy with EACH labels per class) of each set that is recorded."""
    for study, names in FEW_LABELS.items():
        for record in records.read(study):
            if names.get(record["encoder"], record["encoder"]) == name:
                for row in record["rows"]:
                    if row["each"] == EACH:
                        yield record["set"], spread(row["accuracy"])


def table() -> str:
    """All that is known of each module: a column for each module, a line for each set of images
    that is recorded.
    """
    cards = _cards()
    lines: dict[str, dict[str, str]] = {}

    def fill(name: str, line: str, value: str) -> None:
        lines.setdefault(line, {})[name] = value

    for name, card in cards.items():
        paths = (MODULES / name).rglob("*")
        size = sum(path.stat().st_size for path in paths if path.is_file())
        fill(name, "learned from, without labels", _images(name, card))
        fill(name, "parameters", f"{card.parameters:,}")
        fill(name, "images it takes", f"{card.geometry.image_size} px")
        fill(name, "features it gives", f"{card.feature_dim:,}")
        fill(name, "file", f"SavedModel, {size / 1e6:.1f} MB")
        fill(name, "flags of its training", _about(name, "flags"))
        fill(name, "log", _about(name, "log"))
        neighbours, linear = _readings(name)
        fill(name, f"{READING}: vote of 20 neighbours", neighbours)
        fill(name, f"{READING}: {LINEAR}", linear)
        fill(name, f"{READING}: {FINE_TUNED}", _fine_tuned(name))
        for images, accuracy in _few_labels(name):
            fill(name, f"{images}, {EACH} labels per class, mean of the classes, %", accuracy)
        fill(name, "licence of the images", _about(name, "licence"))
    rows = [[line, *(cells.get(name, "-") for name in cards)] for line, cells in lines.items()]
    return markdown_table(["", *(f"[`{name}`](modules/{name}/README.md)" for name in cards)], rows)


def short_table() -> str:
    """A line for each module: what it learned from, its accuracy, and what it may be used for."""
    rows = []
    for name in _cards():
        rows.append(
            [
                f"[`{name}`](modules/{name}/README.md)",
                _about(name, "images_short"),
                _readings(name)[1],
                _about(name, "licence_short"),
            ]
        )
    columns = [
        "module",
        "learned, without labels, from",
        f"ten classes of ImageNet, top-1, %: {LINEAR}",
        "use",
    ]
    return markdown_table(columns, rows)
