"""Makes a page of all results below a directory, beside the paper's: report.html, with PNG, CSV and JSON beside it.

Its headlines are in summary.txt, and are printed.

    python -m cpc_tf.report --runs=runs --output=runs/report

What was not measured yet leaves a gap that says which command would measure it.
"""

import dataclasses
import datetime
import os

from cpc_tf import cli
from cpc_tf.reporting import dataset, page
from cpc_tf.reporting.collect import collect
from cpc_tf.settings import ConfigError, Settings, setting
from cpc_tf.training.workdir import write_file


@dataclasses.dataclass(frozen=True)
class ReportConfig(Settings):
    """Everything `python -m cpc_tf.report` can be told."""

    runs: str = setting("runs", "directory with results below it: result.json, or lists of such records")
    output: str = setting("", "directory to write the report to; what stands there is overwritten")


def report(config: ReportConfig) -> str:
    """Writes the report; returns the path of its page.

    Raises:
      ConfigError: without an output, or without any result.
    """
    if not config.output:
        raise ConfigError("--output= is empty: name a directory for the report, e.g. --output=runs/report")
    found = collect(config.runs)
    sections = dataset.sections(found, config.runs)
    made = page.files(found, sections, config.runs, datetime.date.today().isoformat())
    for name, content in made.items():
        write_file(os.path.join(config.output, name), content)
    print(made["summary.txt"], end="", flush=True)
    return os.path.join(config.output, "report.html")


def main(config: ReportConfig) -> None:
    """The binary."""
    print(f"done: {report(config)}")


if __name__ == "__main__":
    cli.run(ReportConfig, main)
