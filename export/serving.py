"""`--format=serving`: a folder of numbered versions, as TensorFlow Serving loads it."""

from __future__ import annotations

import os

import numpy as np
import tensorflow as tf

from cpc_tf.core.files import reason, writing
from cpc_tf.core.settings import ConfigError
from cpc_tf.core.texts import shown
from cpc_tf.encoders import saved_model
from cpc_tf.encoders.card import find_card
from cpc_tf.export.shared import copy_module
from cpc_tf.export.verify import NotVerified

_SIDE = 224  # px of the image that tries a module whose card names no size


def next_version(output: str, module: str = "") -> str:
    """Returns the directory of a new version in a folder of versions: OUTPUT/1, or one more than
    the highest.

    Raises:
      ConfigError: it is not a folder, or something else is in it; or `module`, if named, is no
        SavedModel.
    """
    if module and not tf.io.gfile.exists(os.path.join(module, "saved_model.pb")):
        raise ConfigError("module", module, "is not a SavedModel; `cpc-tf export` writes one")
    if not tf.io.gfile.exists(output):
        return os.path.join(output, "1")
    names = (
        [name.rstrip("/") for name in tf.io.gfile.listdir(output)]
        if tf.io.gfile.isdir(output)
        else [output]
    )
    if others := sorted(
        name for name in names if not name.isdecimal() and not name.endswith(".tmp")
    ):
        raise ConfigError(
            "output",
            output,
            f"has {others[0]}, and is not a folder of versions; name a new one, e.g. models/mine",
        )
    return os.path.join(
        output, str(1 + max((int(name) for name in names if name.isdecimal()), default=0))
    )


def write(module: str, directory: str) -> list[str]:
    """Copies a module to the directory of a version and calls each of its signatures.

    Args:
      module: directory of a SavedModel.
      directory: of the version; it exists and is empty.

    Returns:
      The names of the signatures.

    Raises:
      NotVerified: a signature cannot be called.
      NotWritten: it cannot be copied.
    """
    saved_model.check(module, f"--module={shown(module)}")
    with writing(directory):
        copy_module(module, directory)
    card = find_card(directory)
    signatures = tf.saved_model.load(directory).signatures
    side = card.geometry.image_size if card else _SIDE
    for name, function in signatures.items():
        _, inputs = function.structured_input_signature
        try:
            function(**{each: _example(spec, side) for each, spec in inputs.items()})
        except tf.errors.OpError as error:
            raise NotVerified(f"the signature {name} cannot be called ({reason(error)})") from error
    return sorted(signatures)


def _example(spec: tf.TensorSpec, side: int) -> tf.Tensor:
    """Returns a grey image as an input of a signature: [1, side, side, 3], or bytes of a file
    [1].
    """
    grey = np.full([1, side, side, 3], 128, np.uint8)
    if spec.dtype == tf.string:
        return tf.reshape(tf.io.encode_png(grey[0]), [1])
    if spec.dtype == tf.uint8:
        return tf.constant(grey)
    return tf.cast(grey / 255, spec.dtype)
