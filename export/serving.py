"""`--format=serving`: a folder of numbered versions, as TensorFlow Serving loads it, with warm-up requests."""

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

# The server sends these to a version before its first request, which would wait for what TensorFlow does only once.
WARMUP = "assets.extra/tf_serving_warmup_requests"
_SIDE = 224  # px of the pictures in them, for a module whose card names no size


def next_version(output: str, module: str = "") -> str:
    """Returns the directory of a new version in a folder of versions: OUTPUT/1, or one more than the highest.

    Raises:
      ConfigError: it is no folder, or something else is in it; or `module`, if named, is no SavedModel.
    """
    if module and not tf.io.gfile.exists(os.path.join(module, "saved_model.pb")):
        raise ConfigError("module", module, "is no SavedModel, which `cpc-tf export` writes")
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
            f"has {others[0]}, and is no folder of versions; name a new one, e.g. models/mine",
        )
    return os.path.join(
        output, str(1 + max((int(name) for name in names if name.isdecimal()), default=0))
    )


def write(module: str, directory: str, name: str) -> list[str]:
    """Copies a module to the directory of a version, and writes a request for each of its signatures.

    Args:
      module: directory of a SavedModel.
      directory: of the version; it exists and is empty.
      name: of the model at the server.

    Returns:
      The names of the signatures.

    Raises:
      NotVerified: a signature cannot be called.
      NotWritten: it cannot be copied.
    """
    saved_model.check(module, f"--module={shown(module)}")
    with writing(directory):
        copy_module(module, directory)
        tf.io.gfile.makedirs(os.path.join(directory, os.path.dirname(WARMUP)))
    card, signatures = find_card(directory), tf.saved_model.load(directory).signatures
    side = card.geometry.image_size if card else _SIDE
    logs = []
    for signature, function in sorted(signatures.items()):
        _, inputs = function.structured_input_signature
        values = {each: _example(spec, side) for each, spec in inputs.items()}
        try:
            function(**values)
        except tf.errors.OpError as error:
            raise NotVerified(
                f"the signature {signature} cannot be called ({reason(error)})"
            ) from error
        logs.append(prediction_log(name, signature, values))
    with writing(directory), tf.io.TFRecordWriter(os.path.join(directory, WARMUP)) as file:
        for log in logs:
            file.write(log)
    return sorted(signatures)


def _example(spec: tf.TensorSpec, side: int) -> tf.Tensor:
    """Returns a grey picture as an input of a signature: images [1, side, side, 3], or the bytes of a file [1]."""
    grey = np.full([1, side, side, 3], 128, np.uint8)
    if spec.dtype == tf.string:
        return tf.reshape(tf.io.encode_png(grey[0]), [1])
    return tf.constant(grey) if spec.dtype == tf.uint8 else tf.cast(grey / 255, spec.dtype)


def prediction_log(model: str, signature: str, inputs: dict[str, tf.Tensor]) -> bytes:
    """Returns a request as a serialized `tensorflow.serving.PredictionLog`.

    Its few fields are written by hand, since the package of these messages must have TensorFlow's version:
    ModelSpec {1: name, 3: signature_name}, PredictRequest {1: model_spec, 2: inputs, a map from name to TensorProto},
    PredictLog {1: request}, PredictionLog {6: predict_log}.
    """
    request = _field(1, _field(1, model.encode()) + _field(3, signature.encode()))
    for name, value in inputs.items():
        tensor = tf.make_tensor_proto(value.numpy()).SerializeToString()
        request += _field(2, _field(1, name.encode()) + _field(2, tensor))
    return _field(6, _field(1, request))


def _field(number: int, content: bytes) -> bytes:
    """Returns a field of a message: its number and kind, the length of its content in groups of 7 bits, the content."""
    length, groups = len(content), b""
    while length > 127:
        groups, length = groups + bytes([length % 128 + 128]), length // 128
    return bytes([8 * number + 2]) + groups + bytes([length]) + content
