"""Writes a set of images as a folder of classes, as a person has them.

    python -m studies.encoders.images --pictures_of=digits --output=runs/encoders/images/digits

Beside it, in OUTPUT.json, stands how many images there are.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Iterator

from absl import app, flags
from PIL import Image

from cpc_tf.core.files import write_file
from studies.coverage import pictures
from studies.runner import Places

CROPS = 100  # of each photograph
# px: larger images are shrunk to it, which is more than any encoder of the study sees
LONGEST_SIDE = 512

SETS: dict[str, Callable[[Places], Iterator[pictures.Example]]] = {
    **pictures.SETS,
    "photos": functools.partial(pictures.photographs, each=CROPS),
}


def write(name: str, places: Places, folder: str) -> int:
    """Writes the images of a set as FOLDER/CLASS/NUMBER.png; returns how many they are."""
    count = 0
    for image, label in SETS[name](places):
        image.thumbnail((LONGEST_SIDE, LONGEST_SIDE), Image.Resampling.LANCZOS)
        os.makedirs(f"{folder}/{label:02d}", exist_ok=True)
        image.save(f"{folder}/{label:02d}/{count:05d}.png")
        count += 1
    return count


def main(_) -> None:
    """Writes the images, then their number."""
    values = flags.FLAGS
    places = Places(pictures=values.pictures, boxes=values.boxes, drawings=values.drawings)
    count = write(values.pictures_of, places, values.output)
    write_file(f"{values.output}.json", json.dumps({"images": count}) + "\n")


if __name__ == "__main__":
    flags.DEFINE_enum("pictures_of", None, [*SETS], "the set of images", required=True)
    flags.DEFINE_string("pictures", Places().pictures, "folder of imagenette-224")
    flags.DEFINE_string("boxes", Places().boxes, "folder of bccd-voc")
    flags.DEFINE_string("drawings", Places().drawings, "folder of Debian's openclipart-png")
    flags.DEFINE_string("output", None, "folder to write", required=True)
    app.run(main)
