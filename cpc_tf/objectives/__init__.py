"""The objectives of pre-training. A module in this package that defines an `Objective` is registered by that."""

from collections.abc import Iterator

from cpc_tf.objectives.base import Objective
from cpc_tf.registry import modules

modules(__name__)


def _named(base: type) -> Iterator[type[Objective]]:
    """Yields the classes below `base` that have a NAME of their own; the others are bases."""
    for kind in base.__subclasses__():
        yield from _named(kind)
        if "NAME" in vars(kind):
            yield kind


# Name -> class, the choices of --objective.
OBJECTIVES = {kind.NAME: kind for kind in sorted(_named(Objective), key=lambda kind: kind.NAME)}
