"""A module of `cpc-tf export`, loaded, and written as TFLite, ONNX or Keras 3."""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import os
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from cpc_tf.core.files import read_json, write_file
from cpc_tf.core.keras import keras as keras2
from cpc_tf.core.settings import ConfigError
from cpc_tf.core.texts import shown
from cpc_tf.data import views
from cpc_tf.data.config import GeometryConfig
from cpc_tf.encoders import layers, saved_model, third_party
from cpc_tf.encoders.card import EncoderCard, find_card, module_name
from cpc_tf.encoders.layers import Conv
from cpc_tf.encoders.load import saved_values, with_values
from cpc_tf.encoders.networks.resnet import Bottleneck, ResNet
from cpc_tf.export.check import as_dtype, outputs_of
from cpc_tf.export.config import KERAS3, ONNX, TFLITE

ENCODER = "encoder"
CLASSIFIER = "classifier"
OPSET = 17  # of ONNX, of 2022: other runtimes and converters know it
# Kept in float32 with int8: layer norm takes a difference of sums, for which 8 bits are too few.
# Nearly all of the weights and of the work are convolutions and matrix products.
_FLOAT_OPERATIONS = (
    *(
        "MEAN",
        "SUM",
        "SQUARE",
        "RSQRT",
        "MUL",
        "ADD",
        "SUB",
        "DIV",
        "MAXIMUM",
        "RELU",
        "RESHAPE",
        "CONCATENATION",
    ),
    *("PAD", "GATHER", "TRANSPOSE", "SOFTMAX", "LOGISTIC"),
)
Layer = keras2.layers.Layer


@dataclasses.dataclass(frozen=True)
class Subject:
    """A module to convert.

    Attributes:
      kind: ENCODER or CLASSIFIER.
      path: its directory.
      card: the content of its encoder.json or classifier.json.
      loaded: the SavedModel.
      side: of the images that it was made for, px.
      any_size: whether its functions take images of other sizes, too.
      dtype: of the images: uint8, or float32 in [0, 1].
      functions: name -> images [N, H, W, 3] -> outputs by name. The first is named as the kind, and
        is the main one.
      vector: the output of the main function, [N, D], that is compared most closely.
      class_names: of the probabilities; empty for an encoder.
      prepare: resizes and crops an image for it: uint8 [H, W, 3] -> uint8 [side, side, 3].
    """

    kind: str
    path: str
    card: dict[str, Any]
    loaded: Any
    side: int
    any_size: bool
    dtype: tf.DType
    functions: dict[str, Callable[[tf.Tensor], dict[str, tf.Tensor]]]
    vector: str
    class_names: tuple[str, ...]
    prepare: Callable[[tf.Tensor], tf.Tensor]

    @property
    def name(self) -> str:
        """The last component of its path."""
        return module_name(self.path)

    def spec(self, single: bool = False) -> tf.TensorSpec:
        """The images that its functions take; `single`: one image of its size."""
        sides = [self.side] * 2 if single or not self.any_size else [None, None]
        return tf.TensorSpec([1 if single else None, *sides, 3], self.dtype, name="images")

    def as_input(self, images: np.ndarray) -> np.ndarray:
        """Images uint8 [N, H, W, 3] as its functions take them."""
        return as_dtype(images, self.dtype.name)

    def outputs(self, function: str, images: np.ndarray) -> dict[str, np.ndarray]:
        """Outputs of a function of the SavedModel for images uint8 [N, H, W, 3]; of many images the
        vectors alone.
        """

        def call(images: np.ndarray) -> dict[str, tf.Tensor]:
            return self._graphs[function](tf.constant(images))

        return outputs_of(call, images, self.dtype.name)

    @functools.cached_property
    def _graphs(self) -> dict[str, Callable[[tf.Tensor], dict[str, tf.Tensor]]]:
        signature = [self.spec()]
        return {
            name: tf.function(function, input_signature=signature, autograph=False)
            for name, function in self.functions.items()
        }


def load(path: str) -> Subject:
    """Loads a module of `cpc-tf export`.

    Raises:
      ConfigError: there is none, or it cannot be converted.
    """
    if not tf.io.gfile.isdir(path):
        raise ConfigError("module", path, "there is no such directory")
    if tf.io.gfile.exists(os.path.join(path, "detector.json")):
        raise ConfigError(
            "module",
            path,
            "is a detector, which can be exported with --format=savedmodel alone: the other"
            " runtimes have no operation that resizes its images by the mean of areas, and none"
            " that cuts out its boxes",
        )
    is_classifier = tf.io.gfile.exists(os.path.join(path, "classifier.json"))
    card = None if is_classifier else find_card(path)
    if not (is_classifier or card):
        raise ConfigError(
            "module", path, "has no encoder.json or classifier.json; `cpc-tf export` writes one"
        )
    with third_party.refused(path, "cannot be loaded as a SavedModel"):
        saved_model.check(path, f"--module={shown(path)}")
        loaded = tf.saved_model.load(path)
    return (
        _classifier(path, loaded)
        if is_classifier
        else _encoder(path, loaded, card.to_json(), card.geometry)
    )


def _encoder(path: str, loaded: Any, card: dict[str, Any], geometry: GeometryConfig) -> Subject:
    def unchecked(module: Any) -> Callable[[tf.Tensor], dict[str, tf.Tensor]]:
        """Its endpoints without the assertion on pixels, which modules of earlier versions do not
        have.
        """
        return getattr(module, "unchecked", functools.partial(module, return_endpoints=True))

    def encoder(images: tf.Tensor) -> dict[str, tf.Tensor]:
        endpoints = unchecked(loaded)(images)
        return {name: endpoints[name] for name in ("features", "feature_map")}

    def patched(images: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"latents": unchecked(loaded.patched)(images)["features"]}

    return Subject(
        kind=ENCODER,
        path=path,
        card=card,
        loaded=loaded,
        side=geometry.image_size,
        any_size=True,
        dtype=tf.float32,
        functions={ENCODER: encoder, "patched": patched},
        vector="features",
        class_names=(),
        prepare=lambda image: views.plain_crop(image, geometry),
    )


def _classifier(path: str, loaded: Any) -> Subject:
    card = read_json(os.path.join(path, "classifier.json"))

    def classifier(prepared: tf.Tensor) -> dict[str, tf.Tensor]:
        outputs = loaded.classify(prepared)
        return {name: outputs[name] for name in ("probabilities", "logits")}

    return Subject(
        kind=CLASSIFIER,
        path=path,
        card=card,
        loaded=loaded,
        side=card["image_size"],
        any_size=False,
        dtype=tf.uint8,
        functions={CLASSIFIER: classifier},
        vector="logits",
        class_names=tuple(card["class_names"]),
        prepare=lambda image: loaded.prepared(image[None])[0],
    )


def check_installed(format: str) -> None:
    """Raises ConfigError if packages are missing that this format needs."""
    missing = [
        name
        for name in ("tf2onnx", "onnxruntime")
        if format == ONNX and not importlib.util.find_spec(name)
    ]
    if missing:
        raise ConfigError(
            "format",
            "onnx",
            f"needs {' and '.join(missing)}, which this environment does not have:"
            ' pip install "cpc_tf[onnx]"',
        )
    # TensorFlow with Keras 3 has Keras 2 in another package.
    if format == KERAS3 and not keras2.__name__.startswith("tf_keras"):
        raise ConfigError(
            "format",
            "keras3",
            "needs Keras 3, which comes with TensorFlow 2.16 and later; set up the current "
            "environment: make setup ENVIRONMENT=current",
        )


def write(
    subject: Subject,
    directory: str,
    format: str,
    quantize: str = "none",
    representative: np.ndarray | None = None,
) -> list[str]:
    """Writes a module in a format and returns the names of the files.

    Args:
      subject: the module.
      directory: where to.
      format, quantize: see `RuntimeConfig`.
      representative: images as the functions take them, [N, S, S, 3], from which the ranges of int8
        are chosen.

    Raises:
      ConfigError: Keras 3 has no such model.
    """
    if format == TFLITE:
        return [write_tflite(subject, directory, quantize, representative)]
    return write_onnx(subject, directory) if format == ONNX else [write_keras3(subject, directory)]


def write_tflite(
    subject: Subject, directory: str, quantize: str, representative: np.ndarray | None
) -> str:
    """One image a call, of the module's size; a signature for each of its functions.

    With 8 bits there is the main function alone: a second one would have weights of its own.
    """
    functions = (
        subject.functions if quantize == "none" else {subject.kind: subject.functions[subject.kind]}
    )
    with tempfile.TemporaryDirectory(prefix="cpc_tf_tflite") as scratch:
        holder = tf.Module()
        holder.loaded = subject.loaded  # its variables are saved with it
        graphs = {
            name: tf.function(
                function, input_signature=[subject.spec(single=True)], autograph=False
            )
            for name, function in functions.items()
        }
        tf.saved_model.save(holder, scratch, signatures=graphs)
        converter = tf.lite.TFLiteConverter.from_saved_model(scratch, signature_keys=list(graphs))
        if quantize != "none":
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
        if quantize == "int8":

            def examples() -> Iterator[dict[str, np.ndarray]]:
                for image in representative:
                    yield {"images": image[None]}

            converter.representative_dataset = examples
            # Only the debugger can leave out operations by their kind.
            options = tf.lite.experimental.QuantizationDebugOptions(
                denylisted_ops=list(_FLOAT_OPERATIONS)
            )
            debugger = tf.lite.experimental.QuantizationDebugger(
                converter=converter, debug_dataset=examples, debug_options=options
            )
            content = debugger.get_nondebug_quantized_model()
        else:
            content = converter.convert()
    name = f"{subject.kind}.tflite"
    write_file(os.path.join(directory, name), content)
    return name


def write_onnx(subject: Subject, directory: str) -> list[str]:
    """A file for each of its functions, for any number of images, of an encoder of any size."""
    import tf2onnx  # an extra

    names = []
    for name, function in subject.functions.items():
        signature = [subject.spec()]
        graph = tf.function(function, input_signature=signature, autograph=False)
        model, _ = tf2onnx.convert.from_function(graph, input_signature=signature, opset=OPSET)
        for size, axis in zip(
            model.graph.input[0].type.tensor_type.shape.dim, ("N", "height", "width")
        ):
            if not size.dim_value:  # tf2onnx calls it unk__1370
                size.dim_param = axis
        names.append(f"{name}.onnx")
        write_file(os.path.join(directory, names[-1]), model.SerializeToString())
    return names


def write_keras3(subject: Subject, directory: str) -> str:
    """A model made of Keras' own layers: `keras.saving.load_model` needs nothing of ours."""
    if subject.kind != ENCODER:
        raise ConfigError(
            "format",
            "keras3",
            f"{subject.name} is a {subject.kind}, and only encoders can become models of Keras"
            " 3; use --part=encoder if the run trained one, else --format=onnx or tflite",
        )
    card = EncoderCard.from_json(subject.card)
    network = with_values(card.encoder, saved_values(subject.path, subject.path), subject.path)
    if not isinstance(network, ResNet):
        raise ConfigError(
            "format",
            "keras3",
            f"only ResNets can become models of Keras 3, not {card.encoder.encoder}",
        )
    name = f"{subject.kind}.keras"
    keras3_model(network).save(os.path.join(directory, name))
    return name


def keras3_model(network: ResNet) -> Any:
    """The same network as a `keras.Model` of Keras 3, with the same values.

    Images float32 [N, H, W, 3] in [0, 1], any H and W -> features [N, D]. The layers 'feature_map'
    and 'stack1', 'stack2', ... give the other endpoints.
    """
    import keras  # Keras 3, which is here only in the current environment

    images = keras.Input([None, None, 3], name="images")
    x = _conv(
        network.stem, keras.layers.Rescaling(2.0, -1.0, name="to_minus_one_and_one")(images), "stem"
    )
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
    return keras.Model(
        images, keras.layers.GlobalAveragePooling2D(name="features")(x), name="encoder"
    )


def _pre(block: Bottleneck, x: Any) -> Any:
    name = block.name
    y = _norm_relu(block.norms[0], x, f"{block.name}_norm1")
    shortcut = _conv(block.shortcut, y, f"{name}_shortcut") if block.shortcut else x
    y = _conv(block.convs[0], y, f"{name}_conv1")
    y = _conv(block.convs[1], _norm_relu(block.norms[1], y, f"{name}_norm2"), f"{name}_conv2")
    y = _conv(block.convs[2], _norm_relu(block.norms[2], y, f"{name}_norm3"), f"{name}_conv3")
    return _sum(shortcut, y, name)


def _post(block: Bottleneck, x: Any) -> Any:
    name = block.name
    shortcut = x
    if block.shortcut:
        shortcut = _norm(
            block.shortcut_norm,
            _conv(block.shortcut, x, f"{name}_shortcut"),
            f"{name}_shortcut_norm",
        )
    y = _norm_relu(block.norms[0], _conv(block.convs[0], x, f"{name}_conv1"), f"{name}_norm1")
    y = _norm_relu(block.norms[1], _conv(block.convs[1], y, f"{name}_conv2"), f"{name}_norm2")
    y = _norm(block.norms[2], _conv(block.convs[2], y, f"{name}_conv3"), f"{name}_norm3")
    return _relu(_sum(shortcut, y, name), f"{name}_relu")


def _conv(layer: Conv, x: Any, name: str) -> Any:
    import keras

    new = keras.layers.Conv2D(
        layer.filters, layer.kernel_size, layer.strides, "same", use_bias=False, name=name
    )
    return _with_values(new, layer, x)


def _norm(layer: Layer, x: Any, name: str) -> Any:
    """Any layer of `make_norm`."""
    import keras

    if isinstance(layer, layers.NoNorm):
        return x
    if isinstance(layer, layers.BatchNorm):
        new = keras.layers.BatchNormalization(
            momentum=layer.momentum, epsilon=layer.epsilon, name=name
        )
    # layer norm over (H, W, C) with values for each channel is group norm with a single group
    elif layer.over_space:
        new = keras.layers.GroupNormalization(groups=1, epsilon=layers.EPSILON, name=name)
    else:
        new = keras.layers.LayerNormalization(epsilon=layers.EPSILON, name=name)
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
    """The output of a layer of Keras 3, which gets the values of one of ours; both list them in the
    same order.
    """
    y = new(x)
    new.set_weights(layer.get_weights())
    return y
