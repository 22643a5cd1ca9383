"""The trained encoders that come with the code; --encoder takes them by name."""

import os
import pathlib

_PACKAGE = pathlib.Path(__file__).parents[1]
# The wheel has them inside the package (setup.py says which); a checkout has them at its top.
_FOLDER = next(
    (path for path in (_PACKAGE / "modules", _PACKAGE.parent / "modules") if path.is_dir()), None
)
_DIRECTORIES = (
    {path.parent.name: str(path.parent) for path in _FOLDER.glob("*/encoder.json")}
    if _FOLDER
    else {}
)

# Of the released modules; for helps and messages.
NAMES = ", ".join(sorted(_DIRECTORIES))
MODULE = (
    f"a TF-Hub module: directory, handle, or the name of one that comes with the code ({NAMES})"
)


def directory_of(module: str) -> str:
    """The directory of a released module by its name; any other path or handle, or one that exists, as it is."""
    return module if os.path.exists(module) else _DIRECTORIES.get(module, module)
