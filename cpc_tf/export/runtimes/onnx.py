"""A module as ONNX: a file for each of its functions, for any number of images, of an encoder of any size."""

from __future__ import annotations

import os

import tensorflow as tf

from cpc_tf.export.runtimes.subject import Subject
from cpc_tf.files import write_file

OPSET = 17  # of 2022: other runtimes and converters know it


def write(subject: Subject, directory: str) -> list[str]:
    """Writes the files and returns their names."""
    import tf2onnx  # an extra

    names = []
    for name, function in subject.functions.items():
        signature = [subject.spec()]
        graph = tf.function(function, input_signature=signature, autograph=False)
        model, _ = tf2onnx.convert.from_function(graph, input_signature=signature, opset=OPSET)
        for size, what in zip(model.graph.input[0].type.tensor_type.shape.dim, ("N", "height", "width")):
            if not size.dim_value:  # tf2onnx calls it unk__1370
                size.dim_param = what
        names.append(f"{name}.onnx")
        write_file(os.path.join(directory, names[-1]), model.SerializeToString())
    return names
