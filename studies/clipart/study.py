"""Is an encoder that learned from free drawings better on drawings than the one that learned from
photographs?

    sudo apt-get install openclipart-png
    python -m studies clipart --cores=1

It is pre-trained on some subjects and tested on others, all of whose drawings are held out. On
images of other kinds the two encoders stand beside each other, too.
"""

from __future__ import annotations

from collections.abc import Sequence

from cpc_tf.core.texts import markdown_table
from studies import runner
from studies.coverage.study import FOLDERS
from studies.encoders.measure import DRAWS, NUMBERS
from studies.tables import spread

PRESET = "flags/openclipart/pretrain_128px.flags"
DRAWINGS = "drawings of other subjects"
# Of studies/encoders.
OTHERS = ("imagenette", "blood cells", "digits", "textures")
PHOTOGRAPHS = "imagenette_128px"
FREE = "openclipart_128px"


def runs(places: runner.Places) -> list[runner.Run]:
    """All encoders on drawings, then the two that were trained on images of other kinds."""
    found = [_run(places, DRAWINGS, encoder) for encoder in ("pixels", "untrained")]
    for name in (DRAWINGS, *OTHERS):
        found += [_run(places, name, encoder) for encoder in (PHOTOGRAPHS, FREE)]
    return found


def _run(places: runner.Places, name: str, encoder: str) -> runner.Run:
    """Writes the images, pre-trains the encoder if it is the free one, and measures it."""
    work = f"{places.work}/clipart"
    drawings = f"{work}/drawings"
    copy = ["studies.clipart.drawings", f"--drawings={places.drawings}", f"--output={drawings}"]
    steps = []
    if name == DRAWINGS or encoder == FREE:
        steps.append((copy, f"{drawings}/counts.json"))
    if encoder == FREE:
        steps += runner.pretrained(work, PRESET, [f"--unlabelled={drawings}/openclipart"])

    images = f"{drawings}/held_out"
    if name != DRAWINGS:
        images = f"{places.work}/encoders/images/{name.replace(' ', '_')}"
        write = ["studies.encoders.images", f"--pictures_of={name}"]
        if name in FOLDERS:
            flag = FOLDERS[name]
            write.append(f"--{flag}={getattr(places, flag)}")
        steps.append(([*write, f"--output={images}"], f"{images}.json"))

    modules = {
        "pixels": "pixels",
        "untrained": f"random:{runner.MODULE}",
        PHOTOGRAPHS: runner.MODULE,
        FREE: f"{work}/hub",
    }
    result = f"{work}/{name.replace(' ', '_')}/{encoder}/result.json"
    measure = [
        "studies.encoders.measure",
        f"--pictures={images}",
        f"--encoder={modules[encoder]}",
        f"--draws={DRAWS}",
        f"--output={result}",
    ]
    return runner.Run({"set": name, "encoder": encoder}, [*steps, (measure, result)])


def table(records: Sequence[dict]) -> str:
    """A line for each set and encoder, a column for each number of labels per class."""
    lines = []
    for record in records:
        cells = [spread(row["accuracy"]) for row in record["rows"]]
        lines.append([record["set"], record["encoder"], *cells])
    return markdown_table(["images", "features", *NUMBERS], lines)
