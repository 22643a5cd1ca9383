"""Writes a preset of KerasHub as a SavedModel of images.

    python -m cpc_tf.encoders.keras_hub_export PRESET DIRECTORY

It maps images float32 [B, S, S, 3] in [0, 1] to features float32 [B, D]. The range of pixels and
the side S are those of the preset's own ImageConverter; images are not resized. The reason why it
cannot be written is the last line of the output, with status 1.
"""

from __future__ import annotations

import difflib
import sys
import textwrap
from typing import Any

import keras
import keras_hub
import tensorflow as tf

# Families whose first token is trained to summarize the image.
CLASS_TOKEN = ("DINOV2Backbone", "DINOV3Backbone", "DeiTBackbone", "ViTBackbone")
PRESETS = "https://keras.io/keras_hub/presets/"


class Unsuitable(Exception):
    """There is no such preset, or it is no encoder of images; the message says why."""


def main(preset: str, directory: str) -> int:
    """Writes the SavedModel; returns the exit status."""
    keras.config.set_image_data_format("channels_last")
    keras.config.set_floatx("float32")
    try:
        _check_name(preset)
        save(Encoder(*load(preset)), directory)
    except Unsuitable as error:
        print(error, flush=True)
        return 1
    # of the network, of files and of Keras: no types are documented
    except Exception as error:
        print(_failure(preset, error), flush=True)
        return 1
    return 0


def _check_name(preset: str) -> None:
    """Raises Unsuitable if it is neither a handle nor a directory nor a name that KerasHub has."""
    presets = keras_hub.models.Backbone.presets
    if "://" in preset or tf.io.gfile.isdir(preset) or preset in presets:
        return
    near = difflib.get_close_matches(preset, presets)
    similar = f"; near are {', '.join(near)}" if near else ""
    raise Unsuitable(
        f"KerasHub has no such preset{similar}; all presets: {PRESETS}, or name a directory"
    )


def load(preset: str) -> tuple[keras.Model, keras_hub.layers.ImageConverter]:
    """Returns network and preprocessing of a preset. Raises Unsuitable if it has no
    preprocessing of images.
    """
    try:
        converter = keras_hub.layers.ImageConverter.from_preset(preset)
    except (FileNotFoundError, ValueError) as error:
        if isinstance(error, ValueError) and "subclass of ImageConverter" not in str(error):
            raise
        raise Unsuitable(
            "it has no image_converter.json, which says what pixels the network takes; save its"
            " ImageConverter or its preprocessor into the same directory"
        ) from error
    backbone = keras_hub.models.Backbone.from_preset(preset, dtype="float32")

    # A network that interpolates its position embeddings may be of another size.
    size = converter.image_size
    shape = tuple(getattr(backbone, "image_shape", None) or ())
    if size and shape and shape[0] and shape[:2] != tuple(size):
        backbone = keras_hub.models.Backbone.from_preset(
            preset, dtype="float32", image_shape=(*size, 3)
        )
    return backbone, converter


class Encoder:
    """A network of KerasHub with its preprocessing and pooling.

    Args:
      backbone: of a preset.
      converter: of the same preset.

    Attributes:
      images: TensorSpec of the images; its sides are unknown if any will do.

    Raises:
      Unsuitable: the network does not map images to features.
    """

    def __init__(self, backbone: keras.Model, converter: keras_hub.layers.ImageConverter):
        converter.image_size = None  # images come in the right size
        self._converter = converter
        self._backbone = backbone
        # Of images and text: what it compares with text.
        self._embed = getattr(backbone, "get_vision_embeddings", None)

        shapes = {each.name: tuple(each.shape) for each in backbone.inputs}
        names = [name for name, shape in shapes.items() if len(shape) == 4 and shape[3] == 3]
        if len(names) != 1 or (len(shapes) > 1 and not self._embed):
            takes = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
            raise Unsuitable(f"it takes {takes}, so it is not an encoder of images alone")
        (self._input,) = names
        self.images = tf.TensorSpec([None, *shapes[self._input][1:]], tf.float32, name="images")

    def features(self, images: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Images float32 [B, S, S, 3] in [0, 1] -> features float32 [B, D]."""
        pixels = self._converter(255.0 * images)
        if self._embed:
            return self._embed(pixels)
        inputs: Any = pixels
        if isinstance(self._backbone.input, dict):
            inputs = {self._input: pixels}
        output = self._backbone(inputs, training=training)
        rank = len(getattr(output, "shape", ()))
        if rank == 2:
            return output
        if rank == 3 and type(self._backbone).__name__ in CLASS_TOKEN:
            return output[:, 0]
        if rank == 3:  # tokens [B, T, D]
            return tf.reduce_mean(output, 1)
        if rank == 4:  # maps [B, H, W, D]
            return tf.reduce_mean(output, [1, 2])
        raise Unsuitable("its output is neither vectors nor tokens nor a feature map")


def save(encoder: Encoder, directory: str) -> None:
    """Writes the SavedModel, as `hub.KerasLayer` takes it, with the variables that it uses."""
    call = tf.function(encoder.features, autograph=False)
    variables = {}
    for training in (False, True):
        graph = call.get_concrete_function(encoder.images, training=training).graph
        variables |= {id(variable): variable for variable in graph.variables}
    module = tf.train.Checkpoint(
        variables=list(variables.values()),
        trainable_variables=[each for each in variables.values() if each.trainable],
    )
    module.__call__ = call
    tf.saved_model.save(module, directory)


def _failure(preset: str, error: Exception) -> str:
    """Returns what went wrong, and for a preset of the web where its files are and may be put."""
    lines = str(error).strip().splitlines() or [""]
    reason = f"{type(error).__name__}: {textwrap.shorten(lines[0], 120)}"
    if tf.io.gfile.isdir(preset):
        return f"cannot be exported ({reason})"
    handle = keras_hub.models.Backbone.presets.get(preset, {}).get("kaggle_handle", preset)
    address = handle.replace("kaggle://", "https://www.kaggle.com/models/")
    address = address.replace("hf://", "https://huggingface.co/")
    return (
        f"cannot be downloaded or exported; its files are at {address}: put them into a directory"
        f" and name that, --encoder=keras_hub:DIRECTORY ({reason})"
    )


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
