"""From a run's directory to a checked module: `cpc-tf export`.

1. The file of the run's task (EXPORTERS) restores the run and returns an `Export`: the tf.Module
   with its card and README, and a reference of what it should compute. `encoder`, `classifier` and
   `detector` have the three kinds of modules, `shared` what they have in common.
2. They are written to a directory beside the output.
3. `verify` runs check.py in a fresh process without cpc_tf, which calls the written module with the
   inputs of the reference, and compares what it computes.
4. The directory gets the name of the output; if anything failed, nothing is left.

Another --format than a SavedModel is made of one: `serving` copies it to a folder of versions;
`convert` compares what `formats` writes with the SavedModel, which check.py calls, too. What a run
or a format does not use is not imported.
"""

from __future__ import annotations

import contextlib
import functools
import os
import pkgutil
import tempfile
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import tensorflow as tf
from absl import logging

from cpc_tf.core.files import to_json, write_file, writing, written_aside
from cpc_tf.core.settings import ConfigError, flatten, replace
from cpc_tf.encoders.released import directory_of
from cpc_tf.export.config import (
    HUGGING_FACE,
    KAGGLE,
    SAVED_MODEL,
    SERVING,
    ExportConfig,
    RuntimeConfig,
)
from cpc_tf.export.shared import Export, run_name
from cpc_tf.export.verify import NotVerified, verify
from cpc_tf.training.workdir import read_config, read_task

if TYPE_CHECKING:
    from cpc_tf.export.convert import Own

# Part -> task -> 'module:function', which is imported when it runs: (settings of the run, its
# directory, step, weights) -> Export.
EXPORTERS = {
    "all": {
        "classify": "cpc_tf.export.classify:export_classify",
        "pretrain": "cpc_tf.export.pretrain:export_pretraining",
        "linear": "cpc_tf.export.linear:export_linear",
        "efficient": "cpc_tf.export.efficient:export_classifier",
        "detect": "cpc_tf.export.detect:export_detector",
    },
    "encoder": {
        "pretrain": "cpc_tf.export.pretrain:export_pretraining",
        "efficient": "cpc_tf.export.efficient:export_encoder",
    },
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


def export(config: ExportConfig, replaces: bool = False) -> dict[str, Any]:
    """Writes the module to `config.output`.

    Args:
      config: the settings.
      replaces: whether a module that is there is replaced.

    Returns:
      The content of encoder.json, classifier.json, detector.json or runtime.json, what the check
      measured, and 'summary', one line.

    Raises:
      ConfigError: there is no such run or checkpoint, or the output exists.
      NotWritten: the output cannot be written.
      NotVerified: the module does not do what the checkpoint does; the output stays as it was.
    """
    config.check_complete()
    if config.runtime.format == SERVING:
        return _for_serving(config)
    if config.runtime.format in (HUGGING_FACE, KAGGLE):
        return _for_sharing(config)
    if config.runtime.format != SAVED_MODEL:
        return _converted(config)

    make = _exporter(config)
    with written_aside(config.output, "output", replaces) as directory:
        made = make()
        if made.kind == "encoder":
            made.module.check_pixels(config.check_pixels)
        with writing(f"--output={config.output}"):
            made.save(made.module, directory)
        card = {f"{made.kind}.json": to_json(made.card), "README.md": made.readme}
        for name, content in {**card, **made.files}.items():
            write_file(os.path.join(directory, name), content)
        measured = verify(made.kind, directory, made.reference())
    return {**made.card, **measured, "summary": made.summary.format(**measured)}


def export_into(workdir: str, name: str) -> str:
    """Exports the run of a directory to a folder in it, in place of an earlier module, and returns
    its path.

    Raises:
      ConfigError, NotWritten, NotVerified: see `export`.
    """
    module = os.path.join(workdir, name)
    with tf.device("/cpu:0"):  # where it is checked: a GPU would round differently
        export(ExportConfig(workdir=workdir, output=module), replaces=True)
    return module


def _for_serving(config: ExportConfig) -> dict[str, Any]:
    """Writes the next version of a model of TensorFlow Serving."""
    from cpc_tf.export import serving

    versions = config.output.rstrip("/")
    version = serving.next_version(versions, config.runtime.module)
    with written_aside(version, "output") as directory, _module(config) as module:
        signatures = serving.write(module, directory)
    summary = f"version {os.path.basename(version)}; signatures {', '.join(signatures)}"
    return {"version": version, "signatures": signatures, "summary": summary}


def _for_sharing(config: ExportConfig) -> dict[str, Any]:
    """Writes a module with the metadata of a site that shares models."""
    from cpc_tf.export import sharing

    with written_aside(config.output, "output") as directory, _module(config) as module:
        upload = sharing.write(config.runtime.format, module, directory, run_name(config.output))
    return {"summary": f"not uploaded; {upload.replace('DIRECTORY', config.output)}"}


def _converted(config: ExportConfig) -> dict[str, Any]:
    """Writes a module in the format of another library."""
    from cpc_tf.export.convert import convert
    from cpc_tf.export.formats import check_installed

    check_installed(config.runtime.format)
    with written_aside(config.output, "output") as directory, _module(config) as module:
        return convert(module, directory, config.runtime, _own_pictures(config))


def _exporter(config: ExportConfig) -> Callable[[], Export]:
    """Returns what makes the module of a run, or of an encoder that was exported before."""
    if config.runtime.module:
        from cpc_tf.export.encoder import export_again

        return functools.partial(export_again, directory_of(config.runtime.module))
    task = read_task(config.workdir)
    if task.name not in EXPORTERS[config.part]:
        raise ConfigError(
            "part",
            config.part,
            f"--workdir={config.workdir} holds a run of cpc-tf {task.name}, which has no"
            f" {config.part} of its own to export; leave --part out",
        )
    run = read_config(config.workdir, task.config)
    make = exporter(config.part, task.name)
    return functools.partial(make, run, config.workdir, config.step, config.weights)


def exporter(part: str, task: str) -> Callable[..., Export]:
    """Returns the function that exports a part of a run of a task, see EXPORTERS."""
    return pkgutil.resolve_name(EXPORTERS[part][task])


def _own_pictures(config: ExportConfig) -> Own | None:
    """Returns the images of the run, if the quantization needs them to choose ranges or to measure
    accuracy.
    """
    runtime = config.runtime
    if (
        not config.workdir
        or runtime.quantize == "none"
        or (runtime.representative and runtime.labelled)
    ):
        return None
    from cpc_tf.export.convert import pictures_of_run

    try:
        return pictures_of_run(config.workdir)
    except ConfigError as error:
        if runtime.quantize == "int8" and not runtime.representative:
            raise ConfigError(
                "quantize",
                "int8",
                f"needs --representative=FOLDER, since the images of the run are gone ({error})",
            ) from error
        logging.warning("accuracy is not measured, since the images of the run are gone: %s", error)
        return None


@contextlib.contextmanager
def _module(config: ExportConfig) -> Iterator[str]:
    """Yields the directory of the module to convert: --module, or that of the run, which is
    exported to it first.
    """
    with tempfile.TemporaryDirectory(prefix="cpc_tf_export") as scratch:
        module = directory_of(config.runtime.module)
        if not module:
            module = os.path.join(scratch, os.path.basename(config.workdir.rstrip("/")))
            export(replace(config, output=module, **flatten(RuntimeConfig())))
        yield module
