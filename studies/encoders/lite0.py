"""EfficientNet-Lite0 as a network that can be trained further, keras:EfficientNetLite0.

    # The weights of the SavedModel as a file for that network.
    python -m studies.encoders.lite0 weights --module=FOLDER --output=lite0.weights.h5
    # A command of cpc-tf that knows the network.
    python -m studies.encoders.lite0 pretrain \
      --initial_encoder=keras:EfficientNetLite0:lite0.weights.h5 ...

The SavedModel takes images of 224 px alone and has no variables to train. Keras Applications does
not have the network.
"""

from __future__ import annotations

import os
import sys

import numpy as np
import tensorflow as tf
from absl import app, flags

from cpc_tf.core import program
from cpc_tf.core.keras import keras
from cpc_tf.encoders.networks import NETWORKS, Entry
from cpc_tf.encoders.networks.keras_applications import KerasNetwork

NAME = "keras:EfficientNetLite0"
PIXELS = "-1..1"
SIDE = 224  # px
# of each stack: blocks, side of the kernel, stride of its first block, expansion, width
STACKS = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
STEM = 32
FEATURES = 1280
# Of the features of both networks; see `transferred`.
LARGEST_DIFFERENCE = 1e-3

layers = keras.layers


class Lite0(KerasNetwork):
    """EfficientNet-Lite0, of github.com/tensorflow/tpu: no squeeze and excitation, ReLU6."""

    def build_model(self, weights: str | None, side: int) -> keras.Model:
        """Returns the network with new weights; Keras has none of it."""
        del weights
        return build(side)


NETWORKS[NAME] = Entry("studies.encoders.lite0:Lite0", pixels=PIXELS, side=SIDE)


def build(side: int = SIDE) -> keras.Model:
    """Returns the network: images float32 [N, side, side, 3] in [-1, 1] to features [N, 1280]."""
    images = keras.Input([side, side, 3])
    maps = _activated(layers.Conv2D(STEM, 3, 2, "same", use_bias=False)(images))
    for blocks, kernel, first_stride, expansion, width in STACKS:
        for number in range(blocks):
            stride = first_stride if number == 0 else 1
            inner = _block(maps, kernel, stride, expansion, width)
            maps = layers.Add()([maps, inner]) if number else inner
    maps = _activated(layers.Conv2D(FEATURES, 1, use_bias=False)(maps))
    return keras.Model(images, layers.GlobalAveragePooling2D()(maps))


def _block(maps: tf.Tensor, kernel: int, stride: int, expansion: int, width: int) -> tf.Tensor:
    """An inverted bottleneck, without its sum: maps [N, H, W, C] -> [N, H', W', width]."""
    inner = maps
    if expansion > 1:
        expanded = maps.shape[-1] * expansion
        inner = _activated(layers.Conv2D(expanded, 1, use_bias=False)(inner))
    depthwise = layers.DepthwiseConv2D(kernel, stride, "same", use_bias=False)
    inner = _activated(depthwise(inner))
    return _normalized(layers.Conv2D(width, 1, use_bias=False)(inner))


def _normalized(maps: tf.Tensor) -> tf.Tensor:
    return layers.BatchNormalization(epsilon=1e-3)(maps)


def _activated(maps: tf.Tensor) -> tf.Tensor:
    return layers.ReLU(6.0)(_normalized(maps))


def transferred(folder: str) -> keras.Model:
    """Returns the network with the weights of the SavedModel, whose variables are in the order of
    the layers.

    Raises:
      ValueError: the SavedModel is of another network, or gives other features.
    """
    module = tf.saved_model.load(folder)
    network = build()
    values = iter(module.variables)
    for layer in network.layers:
        layer.set_weights([next(values).numpy() for _ in layer.weights])

    # Whether both give the same features.
    images = np.random.default_rng(0).uniform(-1, 1, [2, SIDE, SIDE, 3]).astype(np.float32)
    (theirs,) = module.signatures["serving_default"](tf.constant(images)).values()
    difference = float(tf.reduce_max(abs(network(images) - theirs)))
    if difference > LARGEST_DIFFERENCE:
        raise ValueError(f"--module={folder}: its features differ by {difference:g} from Lite0's")
    return network


def main(_) -> None:
    """Writes the weights."""
    values = flags.FLAGS
    os.makedirs(os.path.dirname(values.output) or ".", exist_ok=True)
    transferred(values.module).save_weights(values.output)


if __name__ == "__main__":
    if sys.argv[1:2] == ["weights"]:
        flags.DEFINE_string("module", None, "folder of the SavedModel", required=True)
        flags.DEFINE_string("output", None, "file NAME.weights.h5 to write", required=True)
        app.run(main, sys.argv[1:])
    else:
        sys.exit(program.run(sys.argv[1:]))
