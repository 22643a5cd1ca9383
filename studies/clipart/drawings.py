"""Copies Debian's openclipart-png as small drawings on white ground: some to pre-train on, and
whole subjects held out.

    python -m studies.clipart.drawings --output=runs/clipart/drawings

OUTPUT/openclipart/SUBJECT and OUTPUT/held_out/SUBJECT, and their numbers in OUTPUT/counts.json. The
colours of transparent pixels are mostly black, so that the lines of a black drawing would vanish:
white is put below. A copy of a drawing is left out, and of one that is held out even if it lies in
another folder; so are huge drawings, and those of less than 64 px, most of which are icons that are
there in larger sizes. Of the stars, which are nearly the same, some are kept.
"""

from __future__ import annotations

import collections
import json
import pathlib

import numpy as np
from absl import app, flags
from PIL import Image

from cpc_tf.core.files import write_file
from studies.runner import Places

LEARNED = "openclipart"  # folder of the drawings to pre-train on
HELD_OUT = ("animals", "food", "people", "tools", "transportation")
SMALLEST_SIDE = 64  # px
MOST_PIXELS = 20_000_000
SIDE = 288  # px, of the longer side of a copy: twice what pre-training resizes to
# Folders of drawings that are nearly the same -> how many of them are kept.
SERIES = {"shapes/stars": 150}


def prepare(drawings: str, output: str) -> dict[str, int]:
    """Writes the copies; returns how many each part has.

    Raises:
      FileNotFoundError: a folder of the package is not there.
    """
    root = pathlib.Path(drawings)
    counts: dict[str, int] = collections.Counter()
    seen: set[bytes] = set()
    for path in _in_order(root):
        image = _opened(path)
        if image is None:
            continue
        pixels = image.tobytes()
        if pixels in seen:
            continue
        seen.add(pixels)
        name = path.relative_to(root)
        part = "held_out" if name.parts[0] in HELD_OUT else LEARNED
        place = pathlib.Path(output, part, name.parts[0], "_".join(name.parts[1:]))
        place.parent.mkdir(parents=True, exist_ok=True)
        image.save(place)
        counts[part] += 1
    return dict(counts)


def _in_order(root: pathlib.Path) -> list[pathlib.Path]:
    """Returns the files: subjects that are held out first, so that a copy elsewhere is left out."""
    found = []
    subjects = sorted(folder.name for folder in root.iterdir() if folder.is_dir())
    others = [subject for subject in subjects if subject not in HELD_OUT]
    for subject in [*HELD_OUT, *others]:
        paths = sorted((root / subject).rglob("*.png"))
        if not paths:
            raise FileNotFoundError(f"{root}: no drawings in {subject}")
        found += paths
    for folder, most in SERIES.items():
        series = [path for path in found if path.is_relative_to(root / folder)]
        kept = np.random.default_rng(0).permutation(len(series))[:most]
        dropped = {*series} - {series[number] for number in kept}
        found = [path for path in found if path not in dropped]
    return found


def _opened(path: pathlib.Path) -> Image.Image | None:
    """Returns a small copy on white ground; None of a drawing that is left out."""
    drawing = Image.open(path)
    if min(drawing.size) < SMALLEST_SIDE or drawing.width * drawing.height > MOST_PIXELS:
        return None
    drawing = drawing.convert("RGBA")
    white = Image.new("RGBA", drawing.size, "white")
    copy = Image.alpha_composite(white, drawing).convert("RGB")
    copy.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS)
    return copy


def main(_) -> None:
    """Writes the copies and how many they are."""
    Image.MAX_IMAGE_PIXELS = None  # huge drawings are left out by their header
    values = flags.FLAGS
    counts = json.dumps(prepare(values.drawings, values.output))
    print(counts)
    write_file(f"{values.output}/counts.json", counts + "\n")


if __name__ == "__main__":
    flags.DEFINE_string("drawings", Places().drawings, "folder of Debian's openclipart-png")
    flags.DEFINE_string("output", None, "folder to write", required=True)
    app.run(main)
