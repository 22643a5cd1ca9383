"""Makes a page of all results below a directory: report.html, with PNG, CSV and JSON beside it.

A table of the main results is in summary.txt, and is printed.

    cpc-tf report --runs=runs --output=runs/report
"""

from cpc_tf import cli
from cpc_tf.report.config import ReportConfig


def main(config: ReportConfig) -> None:
    """The binary."""
    from cpc_tf.report.page import report  # TensorFlow, which neither a help nor a refusal needs

    print(f"done: {report(config)}")


if __name__ == "__main__":
    cli.run(ReportConfig, main)
