"""What an encoder is: how and on what it was trained. Every result.json has it, and the report reads it there."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

# Values of `trained_by` beside the names of objectives. 'OBJECTIVE+labels' is pre-trained, then fine-tuned on labels.
LABELS, UNTRAINED, PIXELS, UNKNOWN = "labels", "untrained", "pixels", "unknown"


@dataclasses.dataclass(frozen=True)
class Identity:
    """An encoder, as far as it is known; what is unknown is '' or None."""

    # Name of an objective ('cpc', ...), 'labels' (supervised from the start), 'cpc+labels' (pre-trained, then
    # fine-tuned), 'untrained', 'pixels' (no encoder), or 'unknown' (a module that this project did not write).
    trained_by: str
    architecture: str = ""
    dataset: str = ""  # that it was last trained on
    seed: int | None = None  # of its training, or of its weights if untrained
    parameters: int | None = None  # number of trainable ones
    module: str = ""  # handle or last path component of the TF-Hub module, if it comes from one
    began_with: str = ""  # the module that its pre-training began with, likewise
    steps: int | None = None  # of its training, if it comes from a module

    def to_json(self) -> dict[str, Any]:
        """The value of 'identity' in a result.json."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Identity:
        """Inverse of `to_json`; keys that it does not know, of a later version, are left out."""
        known = {field.name for field in dataclasses.fields(cls)}
        return cls(**{name: value for name, value in values.items() if name in known})


def module_name(module: str) -> str:
    """What a module is called in files that leave this machine: its handle, or the last component of its path."""
    return module if "://" in module and not module.startswith("gs://") else os.path.basename(module.rstrip("/"))
