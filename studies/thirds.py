"""Links every third training image, in the order of paths, as 'val' and the others as 'train', to
choose settings on.

python -m studies.thirds PICTURES runs/thirds
"""

from __future__ import annotations

import pathlib
import sys


def link(pictures: str, output: str) -> dict[str, int]:
    """Makes the links; returns how many images each split has.

    Raises:
      FileNotFoundError: there is no folder 'train'.
    """
    root = pathlib.Path(pictures).resolve() / "train"
    counts = {"train": 0, "val": 0}
    if not root.is_dir():
        raise FileNotFoundError(f"{pictures}: has no folder 'train'")
    for index, path in enumerate(sorted(path for path in root.rglob("*") if path.is_file())):
        split = "val" if index % 3 == 2 else "train"
        place = pathlib.Path(output) / split / path.relative_to(root)
        place.parent.mkdir(parents=True, exist_ok=True)
        if not place.is_symlink():
            place.symlink_to(path)
        counts[split] += 1
    return counts


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    print(link(*sys.argv[1:]))
