"""The settings of `cpc-tf report`."""

import dataclasses

from cpc_tf.settings import Settings, setting


@dataclasses.dataclass(frozen=True)
class ReportConfig(Settings):
    """Everything that `cpc-tf report` can be given."""

    runs: str = setting("runs", "Directory with results below it: result.json, or lists of such records")
    output: str = setting("", "Directory to write the report to; existing files are overwritten")
