"""From a run's directory to a checked module: `cpc-tf export`.

1. `encoder`, `classifier` or `detector` restores the run (EXPORTERS) and returns an `Export`: the tf.Module with its
   card and README, and a reference of what it should compute. What the three share is in `shared`.
2. They are written to a directory beside the output.
3. `verify` runs check.py in a fresh process without cpc_tf, which calls the written module with the inputs of the
   reference, and compares what it computes.
4. The directory gets the name of the output; if anything failed, nothing is left.

Another --format than a SavedModel is made of one: `serving` copies it to a folder of versions; `convert` compares what
`formats` writes with the SavedModel, which check.py calls, too.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf
from absl import logging

from cpc_tf.core.files import remove_leftovers, to_json, write_file, writing
from cpc_tf.core.settings import ConfigError, flatten, replace
from cpc_tf.encoders.released import directory_of
from cpc_tf.export import classifier, encoder, serving, sharing
from cpc_tf.export.config import (
    HUGGING_FACE,
    KAGGLE,
    SAVED_MODEL,
    SERVING,
    ExportConfig,
    RuntimeConfig,
)
from cpc_tf.export.convert import Own, convert, pictures_of_run
from cpc_tf.export.detector import export_detector
from cpc_tf.export.formats import check_installed
from cpc_tf.export.shared import Export, run_name
from cpc_tf.export.verify import NotVerified, verify
from cpc_tf.training.workdir import read_config, read_task

# Part -> task -> (settings of the run, its directory, step, weights) -> Export.
EXPORTERS = {
    "all": {
        "classify": classifier.export_classify,
        "pretrain": encoder.export_pretraining,
        "linear": classifier.export_linear,
        "efficient": classifier.export_efficient,
        "detect": export_detector,
    },
    "encoder": {"pretrain": encoder.export_pretraining, "efficient": encoder.export_efficient},
}


def main(config: ExportConfig) -> None:
    """The command `cpc-tf export`: exit status 3 if the module did not pass its check."""
    # A GPU would round differently from the process that checks, and take memory from it.
    tf.config.set_visible_devices([], "GPU")
    try:
        done = export(config)
    except NotVerified as error:
        raise NotVerified(
            f"--output={config.output}: not written, the module failed its check: {error}"
        ) from error
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
    if config.runtime.format == SERVING:
        version = serving.next_version(config.output.rstrip("/"), config.runtime.module)
        with written_aside(version) as directory, _module(config) as module:
            signatures = serving.write(module, directory)
        summary = f"version {os.path.basename(version)}; signatures {', '.join(signatures)}"
        return {"version": version, "signatures": signatures, "summary": summary}
    if config.runtime.format in (HUGGING_FACE, KAGGLE):
        with written_aside(config.output) as directory, _module(config) as module:
            upload = sharing.write(
                config.runtime.format, module, directory, run_name(config.output)
            )
        return {"summary": f"not uploaded; {upload.replace('DIRECTORY', config.output)}"}
    if config.runtime.format != SAVED_MODEL:
        check_installed(config.runtime.format)
        with written_aside(config.output) as directory, _module(config) as module:
            return convert(module, directory, config.runtime, _own_pictures(config))
    make = _exporter(config)
    with written_aside(config.output) as directory:
        made = make()
        if isinstance(made.module, encoder.HubEncoder):
            made.module.check_pixels(config.check_pixels)
        with writing(f"--output={config.output}"):
            made.save(made.module, directory)
            files = {
                f"{made.kind}.json": to_json(made.card),
                "README.md": made.readme,
                **made.files,
            }
            for name, content in files.items():
                write_file(os.path.join(directory, name), content)
        measured = verify(made.kind, directory, made.reference())
    return {**made.card, **measured, "summary": made.summary.format(**measured)}


def _exporter(config: ExportConfig) -> Callable[[], Export]:
    """Returns what makes the module of a run, or of an encoder that was exported before."""
    if config.runtime.module:
        return functools.partial(encoder.export_again, directory_of(config.runtime.module))
    task, exporters = read_task(config.workdir), EXPORTERS[config.part]
    if task.name not in exporters:
        raise ConfigError(
            "part",
            config.part,
            f"--workdir={config.workdir} holds a run of cpc-tf {task.name}, which has none "
            "of its own to export; leave --part out",
        )
    run = read_config(config.workdir, task.config)
    return functools.partial(exporters[task.name], run, config.workdir, config.step, config.weights)


def _own_pictures(config: ExportConfig) -> Own | None:
    """Returns the pictures of the run, if the quantization needs them to choose ranges or to measure accuracy."""
    runtime = config.runtime
    if (
        not config.workdir
        or runtime.quantize == "none"
        or (runtime.representative and runtime.labelled)
    ):
        return None
    try:
        return pictures_of_run(config.workdir)
    except ConfigError as error:
        if runtime.quantize == "int8" and not runtime.representative:
            raise ConfigError(
                "quantize",
                "int8",
                f"needs --representative=FOLDER, since the pictures of the run are gone ({error})",
            ) from error
        logging.warning(
            "accuracy is not measured, since the pictures of the run are gone: %s", error
        )
        return None


@contextlib.contextmanager
def _module(config: ExportConfig) -> Iterator[str]:
    """Yields the directory of the module to convert: --module, or that of the run, which is exported to it first."""
    with tempfile.TemporaryDirectory(prefix="cpc_tf_export") as scratch:
        module = directory_of(config.runtime.module)
        if not module:
            module = os.path.join(scratch, os.path.basename(config.workdir.rstrip("/")))
            export(replace(config, output=module, **flatten(RuntimeConfig())))
        yield module


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
    above = _absent(folder)
    with writing(f"--output={output}"):
        tf.io.gfile.makedirs(aside)
    try:
        yield aside
        with writing(f"--output={output}"):
            tf.io.gfile.rename(aside, output)
    finally:
        if tf.io.gfile.exists(aside):
            tf.io.gfile.rmtree(aside)
            with contextlib.suppress(OSError):  # others have written there meanwhile
                for each in above:
                    os.rmdir(each)


def _absent(folder: str) -> list[str]:
    """Returns a folder and those above it, the deepest first, as far as they are not there; none in a bucket."""
    absent = []
    while folder and "://" not in folder and not os.path.exists(folder):
        absent.append(folder)
        folder = os.path.dirname(folder)
    return absent
