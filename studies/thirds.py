"""Makes a folder of links to choose settings on, without any image of the validation set.

    python -m studies.thirds --pictures=../shared/data/imagenette-224 --output=runs/thirds

Every third training image, in the order of paths, becomes 'val', the others 'train', as in studies/read_off.
"""

from __future__ import annotations

import pathlib
import sys

from absl import app, flags


def link(pictures: str, output: str) -> dict[str, int]:
    """Makes the links; returns how many images each split has.

    Raises:
      FileNotFoundError: there is no folder 'train'.
    """
    counts = {"train": 0, "val": 0}
    root = pathlib.Path(pictures).resolve() / "train"
    if not root.is_dir():
        raise FileNotFoundError(f"--pictures={pictures}: has no folder 'train'")
    for index, path in enumerate(sorted(path for path in root.rglob("*") if path.is_file())):
        split = "val" if index % 3 == 2 else "train"
        place = pathlib.Path(output) / split / path.relative_to(root)
        place.parent.mkdir(parents=True, exist_ok=True)
        if not place.is_symlink():
            place.symlink_to(path)
        counts[split] += 1
    return counts


def main(_) -> None:
    """Prints how many images each split has."""
    try:
        print(link(flags.FLAGS.pictures, flags.FLAGS.output))
    except FileNotFoundError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    flags.DEFINE_string("pictures", None, "a folder with train/CLASS", required=True)
    flags.DEFINE_string("output", None, "folder to make", required=True)
    app.run(main)
