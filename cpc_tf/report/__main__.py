"""Makes a page of all results below a directory, beside the paper's: report.html, with PNG, CSV and JSON beside it.

Its headlines are in summary.txt, and are printed.

    python -m cpc_tf.report --runs=runs --output=runs/report

What was not measured yet leaves a gap that names the preset to measure it with.
"""

from cpc_tf import cli
from cpc_tf.report.config import ReportConfig
from cpc_tf.report.page import report


def main(config: ReportConfig) -> None:
    """The binary."""
    print(f"done: {report(config)}")


if __name__ == "__main__":
    cli.run(ReportConfig, main)
