"""A module as TFLite (LiteRT): one image a call, of the module's size; a signature for each of its functions."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from cpc_tf.export.runtimes.subject import Subject
from cpc_tf.files import write_file

# Kept in float32 with int8: layer norm takes a difference of sums, for which 8 bits are too few. Nearly all of the
# weights and of the work are convolutions and matrix products.
_FLOAT_OPERATIONS = (
    *("MEAN", "SUM", "SQUARE", "RSQRT", "MUL", "ADD", "SUB", "DIV", "MAXIMUM", "RELU", "RESHAPE", "CONCATENATION"),
    *("PAD", "GATHER", "TRANSPOSE", "SOFTMAX", "LOGISTIC"),
)


def write(subject: Subject, directory: str, quantize: str = "none", representative: np.ndarray | None = None) -> str:
    """Writes the file and returns its name.

    Args:
      subject: the module.
      directory: where to.
      quantize: see `RuntimeConfig`. With 8 bits there is the main function alone: a second one would have weights of
        its own.
      representative: images as the functions take them, [N, S, S, 3], from which the ranges of int8 are chosen.
    """
    functions = subject.functions if quantize == "none" else {subject.kind: subject.functions[subject.kind]}
    with tempfile.TemporaryDirectory(prefix="cpc_tf_tflite") as scratch:
        holder = tf.Module()
        holder.loaded = subject.loaded  # its variables are saved with it
        graphs = {
            name: tf.function(function, input_signature=[subject.spec(one=True)], autograph=False)
            for name, function in functions.items()
        }
        tf.saved_model.save(holder, scratch, signatures=graphs)
        converter = tf.lite.TFLiteConverter.from_saved_model(scratch, signature_keys=list(graphs))
        if quantize != "none":
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
        content = _quantized(converter, representative) if quantize == "int8" else converter.convert()
    name = f"{subject.kind}.tflite"
    write_file(os.path.join(directory, name), content)
    return name


def _quantized(converter: tf.lite.TFLiteConverter, images: np.ndarray) -> bytes:
    """Converts to int8 but for `_FLOAT_OPERATIONS`."""

    def examples() -> Iterator[dict[str, np.ndarray]]:
        for image in images:
            yield {"images": image[None]}

    converter.representative_dataset = examples
    # The converter alone cannot leave out operations by their kind.
    options = tf.lite.experimental.QuantizationDebugOptions(denylisted_ops=list(_FLOAT_OPERATIONS))
    debugger = tf.lite.experimental.QuantizationDebugger(
        converter=converter, debug_dataset=examples, debug_options=options
    )
    return debugger.get_nondebug_quantized_model()
