"""The TF2 SavedModel with the TF-Hub image interface, as `hub.KerasLayer` wants it."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from cpc_tf.data.config import GeometryConfig
from cpc_tf.encoders.layers import has_batch_norm
from cpc_tf.encoders.network import Network, patch_grid
from cpc_tf.export.verify import Reference

IMAGES = tf.TensorSpec([None, None, None, 3], tf.float32, name="images")
BYTES = tf.TensorSpec([None, None, None, 3], tf.uint8, name="images")
_ROUNDING = 1e-3  # that pixels may be beyond [0, 1]


@dataclasses.dataclass(frozen=True)
class Export:
    """A module that can be written, with what goes beside it."""

    kind: str  # 'encoder', 'classifier' or 'detector'
    module: tf.Module
    save: Callable[[tf.Module, str], None]  # writes the module to a directory
    card: dict[str, Any]  # the content of encoder.json, classifier.json or detector.json
    readme: str
    # What the module should compute. Called after `save`: it runs a step of training, which moves the statistics of
    # batch norm.
    reference: Callable[[], Reference]
    summary: str  # one line, a format string for what the check measured
    files: Mapping[str, str] = dataclasses.field(default_factory=dict)  # further ones: name -> content


class Reusable(tf.Module):
    """What `hub.KerasLayer` looks for on a loaded object.

    Args:
      encoder: its variables are this object's. It is not kept: TensorFlow would save a Keras model layer by layer.
      endpoints: (images [N, H, W, 3], training) -> outputs by name, 'features' among them.

    Attributes:
      unchecked: images -> endpoints in inference mode, whatever range the pixels have.
      checks_pixels: whether a call refuses pixels outside [0, 1]. It is read when the module is saved.
    """

    # tf.Module has these as properties, and properties are not saved: hub.KerasLayer would find nothing to train.
    variables = None
    trainable_variables = None

    def __init__(self, encoder: Network, endpoints: Callable[[tf.Tensor, bool], dict[str, tf.Tensor]], name: str):
        super().__init__(name=name)
        self.variables = encoder.variables
        self.trainable_variables = encoder.trainable_variables
        self.regularization_losses = []
        self._endpoints, self.checks_pixels = endpoints, True
        # What other runtimes are made of: not all of them know assertions.
        self.unchecked = tf.function(lambda images: endpoints(images, False), input_signature=[IMAGES], autograph=False)

    @tf.function(autograph=False)
    def __call__(self, images: tf.Tensor, training: bool = False, return_endpoints: bool = False):
        """Images [N, H, W, 3] -> the endpoint 'features', or all endpoints by name."""
        endpoints = self._endpoints(self._checked(images), training)
        return endpoints if return_endpoints else endpoints["features"]

    def _checked(self, images: tf.Tensor) -> tf.Tensor:
        return _in_range(images, "or bytes by the signature 'uint8'") if self.checks_pixels else images


class HubEncoder(Reusable):
    """Images [N, H, W, 3], float32 in [0, 1], any N, H and W -> features [N, D], or `Network.endpoints`.

    Its child `patched` has the same interface and does the same for each patch of the grid, with [N, R, C] in front:
    latents [N, R, C, D].

    Args:
      encoder: computes in float32, has its variables.
      geometry: of the patches.
    """

    def __init__(self, encoder: Network, geometry: GeometryConfig):
        # One graph with and one without training, which all others call: the large encoders take long to trace. Only
        # batch norm tells them apart (`Network.endpoints`).
        graphs = [_graph(encoder, training=False)] * 2
        if has_batch_norm(encoder):
            graphs[True] = _graph(encoder, training=True)

        def endpoints(images: tf.Tensor, training: bool) -> dict[str, tf.Tensor]:
            return graphs[training](images)

        def patched(images: tf.Tensor, training: bool) -> dict[str, tf.Tensor]:
            patches = patch_grid(images, geometry.patch_size, geometry.patch_stride)  # [N, R, C, P, P, 3]
            grid = tf.shape(patches)[:3]
            flat = tf.reshape(patches, tf.concat([[tf.reduce_prod(grid)], patches.shape[3:]], 0))  # [N*R*C, P, P, 3]
            return {
                # [N*R*C, ...] -> [N, R, C, ...]; the number of channels stays known.
                name: tf.ensure_shape(
                    tf.reshape(x, tf.concat([grid, tf.shape(x)[1:]], 0)), [None, None, None, *x.shape[1:]]
                )
                for name, x in endpoints(flat, training).items()
            }

        super().__init__(encoder, endpoints, name="encoder")
        self.patched = Reusable(encoder, patched, name="patched")

    def check_pixels(self, wanted: bool) -> None:
        """Sets whether calls refuse pixels outside [0, 1]."""
        for entry in (self, self.patched):
            entry.checks_pixels = wanted

    def endpoint_names(self) -> list[str]:
        """Names of the whole image's endpoints."""
        return sorted(self.unchecked.get_concrete_function().structured_outputs)


def or_black(images: tf.Tensor) -> tf.Tensor:
    """The images or, if there is none, a black one: a oneDNN convolution of no image fails (TensorFlow 2.15)."""
    shape = tf.shape(images)
    black = tf.zeros(tf.concat([[tf.cast(tf.equal(shape[0], 0), tf.int32)], shape[1:]], 0), images.dtype)
    return tf.concat([images, black], 0)


def _in_range(images: tf.Tensor, otherwise: str) -> tf.Tensor:
    """The images. Raises InvalidArgumentError if they are not in [0, 1]: what is made of others only looks sound."""
    least, most = tf.reduce_min(images), tf.reduce_max(images)
    said = ["images: pixels of", least, "to", most, f"; must be floats in [0, 1], {otherwise}"]
    check = tf.debugging.Assert((least >= -_ROUNDING) & (most <= 1 + _ROUNDING), said)
    with tf.control_dependencies([check]):
        return tf.identity(images)


def of_pictures(
    function: Callable[..., Any], *more: tf.TensorSpec, shape: Sequence[int | None] = IMAGES.shape
) -> Callable[..., Any]:
    """A graph of images uint8 as one that also takes floats in [0, 1], as encoders do, and can be saved.

    TensorFlow would cast NumPy's floats to uint8 without a word: all pictures would be black.

    Args:
      function: images uint8, and what else -> outputs.
      more: the specifications of what else.
      shape: of the images.
    """

    @tf.function(autograph=False)
    def call(images: tf.Tensor, *others: tf.Tensor) -> Any:
        if images.dtype != tf.uint8:
            images = tf.cast(tf.round(_in_range(images, "or bytes, uint8") * 255), tf.uint8)
        return function(images, *others)

    for dtype in (tf.uint8, tf.float32, tf.float64):  # what is saved; other types are refused by TensorFlow
        call.get_concrete_function(tf.TensorSpec(shape, dtype, name="images"), *more)
    return call


def _graph(encoder: Network, training: bool) -> Callable[[tf.Tensor], dict[str, tf.Tensor]]:
    """`encoder.endpoints` as a graph that also takes an empty batch."""

    @tf.function(input_signature=[IMAGES], autograph=False)
    def endpoints(images: tf.Tensor) -> dict[str, tf.Tensor]:
        maps = encoder.endpoints(or_black(images), training)
        return {name: x[: tf.shape(images)[0]] for name, x in maps.items()}

    return endpoints


def save(module: HubEncoder, directory: str) -> None:
    """Writes the SavedModel with its signatures 'serving_default', 'uint8' and 'patched'."""

    @tf.function(input_signature=[IMAGES], autograph=False)
    def serve(images: tf.Tensor) -> dict[str, tf.Tensor]:
        endpoints = module(images, return_endpoints=True)
        return {name: endpoints[name] for name in ("features", "feature_map")}

    @tf.function(input_signature=[BYTES], autograph=False)
    def serve_bytes(images: tf.Tensor) -> dict[str, tf.Tensor]:
        endpoints = module.unchecked(tf.image.convert_image_dtype(images, tf.float32))
        return {name: endpoints[name] for name in ("features", "feature_map")}

    @tf.function(input_signature=[IMAGES], autograph=False)
    def serve_patched(images: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"latents": module.patched(images)}

    for entry in (module, module.patched):  # the graphs that are saved: one for each combination of Python booleans
        for training, return_endpoints in itertools.product((False, True), (False, True)):
            entry.__call__.get_concrete_function(IMAGES, training=training, return_endpoints=return_endpoints)
    tf.saved_model.save(
        module,
        directory,
        signatures={"serving_default": serve, "uint8": serve_bytes, "patched": serve_patched},
        # Layer norm brings its own gradient (cpc_tf/encoders/layers.py): without this, fine-tuning would fail.
        options=tf.saved_model.SaveOptions(experimental_custom_gradients=True),
    )


def encoder_reference(encoder: Network, geometry: GeometryConfig) -> Reference:
    """Random images and what the encoder, as a Keras model, computes from them.

    Few and small, because of the large encoders: several sizes of whole images, one grid of patches, one gradient. The
    gradient is that of training, which moves the statistics of batch norm.
    """
    draw = np.random.default_rng(0)

    def images(*shape: int) -> np.ndarray:
        return draw.uniform(size=[*shape, 3]).astype(np.float32)

    patch, stride, side = geometry.patch_size, geometry.patch_stride, geometry.image_size
    inputs, outputs = {}, {}
    for i, batch in enumerate([images(2, patch, patch), images(1, patch + 13, 31), images(1, 32, 2 * patch + 1)]):
        inputs[f"whole{i}"] = batch
        outputs.update({f"whole{i}/{name}": x.numpy() for name, x in encoder.endpoints(tf.constant(batch)).items()})

    # A column less than the geometry's grid has, unless that is the only one.
    inputs["patched"] = images(1, side, max(side - stride, patch))
    # Computed in another way than by the module: [H, W, 3] -> [H', W', 3, P, P] -> [R, C, P, P, 3].
    windows = np.lib.stride_tricks.sliding_window_view(inputs["patched"][0], (patch, patch), axis=(0, 1))
    patches = np.ascontiguousarray(windows[::stride, ::stride].transpose(0, 1, 3, 4, 2))
    latents = encoder(tf.constant(patches.reshape(-1, patch, patch, 3))).numpy()
    outputs["patched/latents"] = latents.reshape(1, *patches.shape[:2], encoder.feature_dim)

    # Large enough for the last feature map not to be a point, where batch norm has nothing to normalize.
    inputs["gradient"] = images(2, max(patch, 64), max(patch, 64))
    inputs["projection"] = draw.normal(size=[2, encoder.feature_dim]).astype(np.float32)
    with tf.GradientTape() as tape:
        features = encoder(tf.constant(inputs["gradient"]), training=True)
        loss = tf.reduce_sum(features * inputs["projection"])
    gradients = tape.gradient(loss, encoder.trainable_variables)
    outputs["gradient/norms"] = np.array([float(tf.norm(gradient)) for gradient in gradients])
    return Reference(inputs, outputs)
