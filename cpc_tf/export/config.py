"""Exports what a run trained as a TF-Hub module: its encoder, its classifier with the encoder, or its detector.

    cpc-tf export --workdir=runs/photos/small/pretrain --output=runs/photos/small/hub
    cpc-tf export --workdir=runs/photos/small/efficient_0.1 --output=runs/photos/small/classifier
    cpc-tf export --workdir=runs/collages/small/detect --output=runs/collages/small/detector

The directory holds a TF2 SavedModel, its card (README.md) and encoder.json, classifier.json or detector.json. It
appears only once the module has been checked in a fresh process.
"""

from __future__ import annotations

import dataclasses

from cpc_tf.export.runtimes.config import RuntimeConfig
from cpc_tf.settings import ConfigError, Settings, count, setting


@dataclasses.dataclass(frozen=True)
class ExportConfig(Settings):
    """The settings of `cpc-tf export`."""

    workdir: str = setting("", "Directory of the run to export", path=True)
    output: str = setting(
        "",
        "Directory to write the TF-Hub module to, which must not exist yet",
        path=True,
        needed="a directory for the module, e.g. --output=runs/first/hub",
    )
    part: str = setting(
        "all",
        "What to export of a run on labels: 'all', its classifier with the encoder inside, or the 'encoder' alone, if "
        "the run trained it",
        choices=("all", "encoder"),
    )
    weights: str = setting(
        "averaged",
        "Polyak averages or the weights themselves; pre-training has averages, and fine-tuning by --encoder_adam=paper",
        source="App. A",
        choices=("averaged", "raw"),
    )
    step: int = count(0, "Step of the checkpoint to export; 0: the newest whole one", unit="steps", minimum=0)
    check_pixels: bool = setting(
        True, "Whether an encoder refuses pixels outside [0, 1], of which it would make features that only look sound"
    )
    runtime: RuntimeConfig = RuntimeConfig()

    def check(self):
        self.runtime.check_together()
        if self.workdir and self.runtime.module:
            raise ConfigError(f"--module={self.runtime.module}: not with --workdir={self.workdir}; name one of the two")

    def check_complete(self):
        if not self.workdir and not self.runtime.module:
            raise ConfigError("--workdir= is empty: name the directory of a run, e.g. --workdir=runs/first")
        super().check_complete()
