"""Makes a page of all results below a directory: report.html, with PNG, CSV and JSON beside it.

The page opens with what the best model can do, in a sentence and an image, and ends with how each
run was made. A table of the main results is in summary.txt, and is printed.

    cpc-tf report --runs=runs --output=runs/report
"""

import dataclasses

from cpc_tf.core.settings import Settings, setting


@dataclasses.dataclass(frozen=True)
class ReportConfig(Settings):
    """Everything that `cpc-tf report` can be given."""

    runs: str = setting(
        "runs", "Directory with results below it: result.json, or lists of such records"
    )
    output: str = setting(
        "",
        "Directory to write the report to; existing files are overwritten",
        needed="a directory for the report, e.g. --output=runs/report",
    )
