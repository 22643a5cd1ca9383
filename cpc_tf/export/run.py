"""From a run's directory to a checked TF-Hub module: restore, build, write, check; or nothing is left."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from cpc_tf.encoders.released import directory_of
from cpc_tf.export import classifier, encoder
from cpc_tf.export.config import SAVED_MODEL, ExportConfig, RuntimeConfig
from cpc_tf.export.detector import export_detector
from cpc_tf.export.module import HubEncoder
from cpc_tf.export.runtimes.convert import convert
from cpc_tf.export.runtimes.formats import check_installed
from cpc_tf.export.verify import NotVerified, verify
from cpc_tf.files import remove_leftovers, to_json, write_file, writing
from cpc_tf.settings import ConfigError, flatten, replace
from cpc_tf.training.workdir import read_config, read_task

# Part -> task -> (settings of the run, its directory, step, weights) -> what to write.
EXPORTERS = {
    "all": {
        "pretrain": encoder.export_pretraining,
        "linear": classifier.export_linear,
        "efficient": classifier.export_efficient,
        "detect": export_detector,
    },
    "encoder": {"pretrain": encoder.export_pretraining, "efficient": encoder.export_efficient},
}


def main(config: ExportConfig) -> None:
    """The binary: exit status 3 if the module did not pass its check."""
    # A GPU would round differently from the process that checks, and take memory from it.
    tf.config.set_visible_devices([], "GPU")
    try:
        done = export(config)
    except NotVerified as error:
        raise NotVerified(f"--output={config.output}: not written, the module failed its check: {error}") from error
    print(f"done: {config.output} ({done['summary']})")


def export(config: ExportConfig) -> dict[str, Any]:
    """Writes the module to `config.output`.

    Returns:
      The content of encoder.json, classifier.json, detector.json or runtime.json, what the check measured, and
      'summary', one line.

    Raises:
      ConfigError: there is no such run or checkpoint, or the output exists.
      NotWritten: the output cannot be written.
      NotVerified: the module does not do what the checkpoint does; the output is not created.
    """
    config.check_complete()
    if config.runtime.format != SAVED_MODEL:
        return _export_to_runtime(config)
    task, exporters = read_task(config.workdir), EXPORTERS[config.part]
    if task.name not in exporters:
        raise ConfigError(
            "part",
            config.part,
            f"--workdir={config.workdir} holds a run of cpc-tf {task.name}, which has none "
            "of its own to export; leave --part out",
        )
    run = read_config(config.workdir, task.config)
    with written_aside(config.output) as directory:
        made = exporters[task.name](run, config.workdir, config.step, config.weights)
        if isinstance(made.module, HubEncoder):
            made.module.check_pixels(config.check_pixels)
        with writing(f"--output={config.output}"):
            made.save(made.module, directory)
            files = {f"{made.kind}.json": to_json(made.card), "README.md": made.readme, **made.files}
            for name, content in files.items():
                write_file(os.path.join(directory, name), content)
        measured = verify(made.kind, directory, made.reference())
    return {**made.card, **measured, "summary": made.summary.format(**measured)}


def _export_to_runtime(config: ExportConfig) -> dict[str, Any]:
    """Converts --module, or the module that the run would be exported as."""
    check_installed(config.runtime.format)
    with written_aside(config.output) as directory, tempfile.TemporaryDirectory(prefix="cpc_tf_export") as scratch:
        module = directory_of(config.runtime.module)
        if not module:
            module = os.path.join(scratch, os.path.basename(config.workdir.rstrip("/")))
            export(replace(config, output=module, **flatten(RuntimeConfig())))
        return convert(module, directory, config.runtime)


@contextlib.contextmanager
def written_aside(output: str) -> Iterator[str]:
    """Yields a directory beside `output` that becomes `output` if all goes well, and is removed if not.

    Raises:
      ConfigError: `output` exists.
      NotWritten: the directory cannot be created or renamed.
    """
    output = output.rstrip("/")
    if tf.io.gfile.exists(output):
        raise ConfigError("output", output, "exists already; remove it or choose another name")
    folder, name = os.path.split(output)
    remove_leftovers(folder or ".", re.escape(name) + r"\.\d+\.tmp")
    aside = f"{output}.{os.getpid()}.tmp"
    with writing(f"--output={output}"):
        tf.io.gfile.makedirs(aside)
    try:
        yield aside
        with writing(f"--output={output}"):
            tf.io.gfile.rename(aside, output)
    finally:
        if tf.io.gfile.exists(aside):
            tf.io.gfile.rmtree(aside)
