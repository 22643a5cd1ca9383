"""The trained encoders that come with the code; --encoder takes them by name."""

import os
import pathlib

# A checkout has them at its top, to which the package's folder has links.
_CARDS = (pathlib.Path(__file__).parents[1] / "modules").glob("*/encoder.json")
_DIRECTORIES = {card.parent.name: str(card.parent.resolve()) for card in _CARDS}

# Of the released modules; for helps and messages.
NAMES = ", ".join(sorted(_DIRECTORIES))
# What --encoder is where none is named: the best of them on all sets of studies/encoders.
DEFAULT = "imagenette_128px"
MODULE = (
    f"a TF-Hub module: directory, handle, or the name of one that comes with the code ({NAMES});"
    " keras:NAME, a network of Keras Applications, with keras:NAME:FILE its weights in a file (.h5)"
    ", or keras_hub:PRESET, a network of KerasHub"
)


def directory_of(module: str) -> str:
    """The directory of a released module by its name; any other path or handle, or one that exists,
    as it is.
    """
    return module if os.path.exists(module) else _DIRECTORIES.get(module, module)
