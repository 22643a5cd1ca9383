"""A small network in the place of one of Keras Applications."""

import numpy as np

from cpc_tf.core.keras import keras


def tiny(include_top, weights, input_shape, pooling):
    """A small network with the arguments of those of Keras Applications."""
    assert (include_top, weights, pooling) == (False, None, "avg")
    images = keras.Input(input_shape)
    x = keras.layers.Conv2D(4, 3, 2)(images)
    x = keras.layers.BatchNormalization()(x)
    x = keras.layers.Activation("relu")(x)
    x = keras.layers.Conv2D(6, 3, 2)(x)
    return keras.Model(images, keras.layers.GlobalAveragePooling2D()(x))


def draw(network):
    """Gives all variables values that batch norm does not hide."""
    values = np.random.default_rng(0)
    for variable in network.variables:
        if variable.dtype.is_floating:
            variable.assign(values.uniform(0.05, 0.2, variable.shape))
