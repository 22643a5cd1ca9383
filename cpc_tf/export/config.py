"""Settings of the export."""

import dataclasses

from cpc_tf.settings import Settings, count, setting


@dataclasses.dataclass(frozen=True)
class ExportConfig(Settings):
    """Everything `python -m cpc_tf.export` has as a setting."""

    workdir: str = setting("", "Directory of the run to export: of pre-training, few labels or detection", path=True)
    output: str = setting("", "Directory to write the TF-Hub module to, which must not exist yet", path=True)
    weights: str = setting(
        "averaged",
        "Polyak averages or the weights themselves; pre-training has averages, and fine-tuning by --encoder_adam=paper",
        source="App. A",
        choices=("averaged", "raw"),
    )
    step: int = count(0, "Step of the checkpoint to export; 0: the newest whole one", unit="steps", minimum=0)
