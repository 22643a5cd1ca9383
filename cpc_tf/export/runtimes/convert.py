"""Converts a module, runs the result in a fresh process, compares both on pictures, and writes what was found."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from cpc_tf.export.runtimes import card, keras3, onnx, pictures, subject, tflite
from cpc_tf.export.runtimes.compare import compare
from cpc_tf.export.runtimes.config import ONNX, TFLITE, RuntimeConfig
from cpc_tf.export.runtimes.subject import Subject
from cpc_tf.export.verify import NotVerified
from cpc_tf.files import to_json, write_file
from cpc_tf.settings import RunEnded


def convert(module: str, directory: str, config: RuntimeConfig) -> dict[str, Any]:
    """Writes a module in another format, with its card, runtime.json and README.md.

    Args:
      module: directory of the SavedModel with its card.
      directory: where to write; it exists and is empty.
      config: what to write, and the pictures to use.

    Returns:
      The content of runtime.json, and 'summary', one line.

    Raises:
      ConfigError: there is no such module, it cannot be converted to this format, or the pictures cannot be used.
      NotVerified: it cannot be converted, or computes something else than the SavedModel.
    """
    made = subject.load(module)
    labelled = pictures.labelled(made, config.labelled) if config.labelled else None
    representative = pictures.representative(made, config.representative) if config.representative else None
    with _converting(config.format):
        files = _write(made, directory, config, representative)
    found = {
        "kind": made.kind,
        "format": config.format,
        "quantize": config.quantize,
        "module": made.name,
        "bytes": {name: os.path.getsize(os.path.join(directory, name)) for name in files},
        "image_size": made.side,
        **compare(made, directory, config, representative, labelled),
        "versions": card.versions(config.format),
        "card": made.card,
    }
    write_file(os.path.join(directory, "runtime.json"), to_json(found))
    write_file(os.path.join(directory, "README.md"), card.page(made, found))
    if made.class_names:
        write_file(os.path.join(directory, "labels.txt"), "".join(f"{name}\n" for name in made.class_names))
    return {**found, "summary": card.summary(found)}


def _write(made: Subject, directory: str, config: RuntimeConfig, representative: np.ndarray | None) -> list[str]:
    """Writes the files of a format and returns their names."""
    if config.format == TFLITE:
        images = None if representative is None else made.shown(representative)
        return [tflite.write(made, directory, config.quantize, images)]
    return onnx.write(made, directory) if config.format == ONNX else [keras3.write(made, directory)]


@contextlib.contextmanager
def _converting(format: str) -> Iterator[None]:
    """Mutes what converters print to the terminal, and re-raises whatever they raise as NotVerified."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(number) for number in (1, 2)]
    try:
        with open(os.devnull, "w") as nothing:
            for number in (1, 2):
                os.dup2(nothing.fileno(), number)
        yield
    except RunEnded:
        raise
    except Exception as error:  # they document no types
        raise NotVerified(f"the converter to {format} failed: {' '.join(str(error).split())[:300]}") from error
    finally:
        sys.stdout.flush()  # what they printed and Python still holds
        sys.stderr.flush()
        for number, copy in zip((1, 2), kept):
            os.dup2(copy, number)
            os.close(copy)
