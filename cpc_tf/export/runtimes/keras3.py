"""An encoder as a model of Keras 3, made of Keras' own layers: `keras.saving.load_model` needs nothing of ours."""

from __future__ import annotations

import os
from typing import Any

from cpc_tf.encoders import norm
from cpc_tf.encoders.card import EncoderCard
from cpc_tf.encoders.conv import Conv
from cpc_tf.encoders.load import saved_values, with_values
from cpc_tf.encoders.networks.resnet import Bottleneck, ResNet
from cpc_tf.export.runtimes.subject import ENCODER, Subject
from cpc_tf.keras import keras as keras2
from cpc_tf.settings import ConfigError

Layer = keras2.layers.Layer


def write(subject: Subject, directory: str) -> str:
    """Writes the file and returns its name. Raises ConfigError for what Keras 3 cannot be given."""
    if subject.kind != ENCODER:
        raise ConfigError(
            f"--format=keras3: {subject.name} is a {subject.kind}, and only encoders are made models of Keras 3; "
            "use --part=encoder if the run trained one, else --format=onnx or tflite"
        )
    card = EncoderCard.from_json(subject.card)
    network = with_values(card.encoder, saved_values(subject.path, subject.path), subject.path)
    if not isinstance(network, ResNet):
        raise ConfigError(f"--format=keras3: only ResNets are made models of Keras 3, not {card.encoder.encoder}")
    name = f"{subject.kind}.keras"
    model(network).save(os.path.join(directory, name))
    return name


def model(network: ResNet) -> Any:
    """The same network as a `keras.Model` of Keras 3, with the same values.

    Images float32 [N, H, W, 3] in [0, 1], any H and W -> features [N, D]. The layers 'feature_map' and 'stack1',
    'stack2', ... give the other endpoints.
    """
    import keras  # Keras 3, which is here only in the current environment

    images = keras.Input([None, None, 3], name="images")
    x = _conv(network.stem, keras.layers.Rescaling(2.0, -1.0, name="to_minus_one_and_one")(images), "stem")
    if network.stem_norm:
        x = _norm_relu(network.stem_norm, x, "stem_norm")
    if network.pool:
        x = keras.layers.MaxPooling2D(3, 2, "same", name="stem_pool")(x)
    for i, blocks in enumerate(network.stacks):
        for block in blocks:
            x = _pre(block, x) if block.order == "pre" else _post(block, x)
        x = keras.layers.Identity(name=f"stack{i + 1}")(x)
    if network.final_norm:
        x = _norm_relu(network.final_norm, x, "final_norm")
    x = keras.layers.Identity(name="feature_map")(x)
    return keras.Model(images, keras.layers.GlobalAveragePooling2D(name="features")(x), name="encoder")


def _pre(block: Bottleneck, x: Any) -> Any:
    name, y = block.name, _norm_relu(block.norms[0], x, f"{block.name}_norm1")
    shortcut = _conv(block.shortcut, y, f"{name}_shortcut") if block.shortcut else x
    y = _conv(block.convs[0], y, f"{name}_conv1")
    y = _conv(block.convs[1], _norm_relu(block.norms[1], y, f"{name}_norm2"), f"{name}_conv2")
    y = _conv(block.convs[2], _norm_relu(block.norms[2], y, f"{name}_norm3"), f"{name}_conv3")
    return _sum(shortcut, y, name)


def _post(block: Bottleneck, x: Any) -> Any:
    name, shortcut = block.name, x
    if block.shortcut:
        shortcut = _norm(block.shortcut_norm, _conv(block.shortcut, x, f"{name}_shortcut"), f"{name}_shortcut_norm")
    y = _norm_relu(block.norms[0], _conv(block.convs[0], x, f"{name}_conv1"), f"{name}_norm1")
    y = _norm_relu(block.norms[1], _conv(block.convs[1], y, f"{name}_conv2"), f"{name}_norm2")
    y = _norm(block.norms[2], _conv(block.convs[2], y, f"{name}_conv3"), f"{name}_norm3")
    return _relu(_sum(shortcut, y, name), f"{name}_relu")


def _conv(layer: Conv, x: Any, name: str) -> Any:
    import keras

    new = keras.layers.Conv2D(layer.filters, layer.kernel_size, layer.strides, "same", use_bias=False, name=name)
    return _with_values(new, layer, x)


def _norm(layer: Layer, x: Any, name: str) -> Any:
    """Any layer of `make_norm`."""
    import keras

    if isinstance(layer, norm.Identity):
        return x
    if isinstance(layer, norm.BatchNorm):
        new = keras.layers.BatchNormalization(momentum=layer.momentum, epsilon=layer.epsilon, name=name)
    elif layer.over_space:  # layer norm over (H, W, C) with values for each channel is group norm with a single group
        new = keras.layers.GroupNormalization(groups=1, epsilon=norm.EPSILON, name=name)
    else:
        new = keras.layers.LayerNormalization(epsilon=norm.EPSILON, name=name)
    return _with_values(new, layer, x)


def _norm_relu(layer: Layer, x: Any, name: str) -> Any:
    return _relu(_norm(layer, x, name), f"{name}_relu")


def _relu(x: Any, name: str) -> Any:
    import keras

    return keras.layers.ReLU(name=name)(x)


def _sum(shortcut: Any, x: Any, name: str) -> Any:
    import keras

    return keras.layers.Add(name=f"{name}_sum")([shortcut, x])


def _with_values(new: Any, layer: Layer, x: Any) -> Any:
    """The output of a layer of Keras 3, which gets the values of one of ours; both list them in the same order."""
    y = new(x)
    new.set_weights(layer.get_weights())
    return y
