"""Settings of the export."""

import dataclasses

from cpc_tf.settings import Settings, setting


@dataclasses.dataclass(frozen=True)
class ExportConfig(Settings):
    """Everything `python -m export` can be told."""

    workdir: str = setting("", "directory of the run: pre-training, `cpc_tf.efficient` or a detector's")
    output: str = setting("", "directory to write the TF-Hub module to; must not exist yet")
    weights: str = setting(
        "averaged",
        "Polyak averages or the weights themselves; only pre-training has averages",
        source="App. A",
        choices=("averaged", "raw"),
    )
    step: int = setting(0, "which checkpoint; 0: the newest whole one", unit="steps", minimum=0)
