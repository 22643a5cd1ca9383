"""The TF2 SavedModel with the TF-Hub image interface, as `hub.KerasLayer` wants it."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from cpc_tf.data.config import GeometryConfig
from cpc_tf.encoders.network import Network
from cpc_tf.encoders.patches import patch_grid

IMAGES = tf.TensorSpec([None, None, None, 3], tf.float32, name="images")


class Reusable(tf.Module):
    """What `hub.KerasLayer` looks for on a loaded object, and its four traces.

    Args:
      encoder: its variables are this object's. It is not kept: TensorFlow would save a Keras model layer by layer.
    """

    # tf.Module has these as properties, and properties are not saved: hub.KerasLayer would find nothing to train.
    variables = None
    trainable_variables = None

    def __init__(self, encoder: Network, name: str):
        super().__init__(name=name)
        self.variables = encoder.variables
        self.trainable_variables = encoder.trainable_variables
        self.regularization_losses = []

    @tf.function(autograph=False)
    def __call__(self, images: tf.Tensor, training: bool = False, return_endpoints: bool = False):
        """Images [N, H, W, 3] -> the endpoint 'features', or all endpoints by name."""
        endpoints = self.endpoints(images, training)
        return endpoints if return_endpoints else endpoints["features"]

    def endpoints(self, images: tf.Tensor, training: bool) -> dict[str, tf.Tensor]:
        """What `__call__` returns, by name."""
        raise NotImplementedError

    def trace(self) -> None:
        """Makes the graphs that will be saved: one for each combination of Python booleans."""
        for training in (False, True):
            for return_endpoints in (False, True):
                self.__call__.get_concrete_function(IMAGES, training=training, return_endpoints=return_endpoints)


class PatchEncoder(Reusable):
    """Images [N, H, W, 3] -> latents [N, R, C, D] of the grid of patches; endpoints have [N, R, C] in front as well."""

    def __init__(self, encoder: Network, flat_endpoints: Callable[..., dict], geometry: GeometryConfig):
        super().__init__(encoder, name="patched")
        self._flat_endpoints = flat_endpoints
        self._patch, self._stride = geometry.patch_size, geometry.patch_stride

    def endpoints(self, images: tf.Tensor, training: bool) -> dict[str, tf.Tensor]:
        patches = patch_grid(images, self._patch, self._stride)  # [N, R, C, P, P, 3]
        grid = tf.shape(patches)[:3]
        flat = tf.reshape(patches, tf.concat([[tf.reduce_prod(grid)], patches.shape[3:]], 0))  # [N*R*C, P, P, 3]
        return {name: _unflatten(x, grid) for name, x in self._flat_endpoints(flat, training).items()}


class HubEncoder(Reusable):
    """Images [N, H, W, 3], float32 in [0, 1], any N, H and W -> features [N, D], or `Network.endpoints`.

    Its child `patched` has the same interface and does the same for each patch.

    Args:
      encoder: computes in float32, has its variables.
      geometry: of the patches.
    """

    def __init__(self, encoder: Network, geometry: GeometryConfig):
        super().__init__(encoder, name="encoder")
        # One graph with and one without training, which all others call: the large encoders take long to trace.
        self._graphs = tuple(_graph(encoder, training) for training in (False, True))
        self.patched = PatchEncoder(encoder, self.endpoints, geometry)

    def endpoints(self, images: tf.Tensor, training: bool) -> dict[str, tf.Tensor]:
        return self._graphs[training](images)

    def endpoint_names(self) -> list[str]:
        """Of the whole image's endpoints."""
        return sorted(self._graphs[False].get_concrete_function().structured_outputs)


def or_black(images: tf.Tensor) -> tf.Tensor:
    """The images or, if there is none, a black one: a oneDNN convolution of no image fails (TensorFlow 2.15)."""
    shape = tf.shape(images)
    black = tf.zeros(tf.concat([[tf.cast(tf.equal(shape[0], 0), tf.int32)], shape[1:]], 0), images.dtype)
    return tf.concat([images, black], 0)


def _graph(encoder: Network, training: bool) -> Callable[[tf.Tensor], dict[str, tf.Tensor]]:
    """`encoder.endpoints` as a graph that also takes an empty batch."""

    @tf.function(input_signature=[IMAGES], autograph=False)
    def endpoints(images: tf.Tensor) -> dict[str, tf.Tensor]:
        maps = encoder.endpoints(or_black(images), training)
        return {name: x[: tf.shape(images)[0]] for name, x in maps.items()}

    return endpoints


def _unflatten(x: tf.Tensor, grid: tf.Tensor) -> tf.Tensor:
    """[N*R*C, ...] -> [N, R, C, ...]; the number of channels stays known."""
    split = tf.reshape(x, tf.concat([grid, tf.shape(x)[1:]], 0))
    return tf.ensure_shape(split, [None, None, None, *x.shape[1:]])


def save(module: HubEncoder, directory: str) -> None:
    """Writes the SavedModel with its signatures 'serving_default' and 'patched'."""

    @tf.function(input_signature=[IMAGES], autograph=False)
    def serve(images: tf.Tensor) -> dict[str, tf.Tensor]:
        endpoints = module(images, return_endpoints=True)
        return {name: endpoints[name] for name in ("features", "feature_map")}

    @tf.function(input_signature=[IMAGES], autograph=False)
    def serve_patched(images: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"latents": module.patched(images)}

    module.trace()
    module.patched.trace()
    tf.saved_model.save(
        module,
        directory,
        signatures={"serving_default": serve, "patched": serve_patched},
        # Layer norm brings its own gradient (cpc_tf/encoders/norm.py): without this, fine-tuning would fail.
        options=tf.saved_model.SaveOptions(experimental_custom_gradients=True),
    )
