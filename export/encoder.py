"""A run of pre-training or on labels -> its encoder in float32, a TF2 SavedModel with the TF-Hub
image interface.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from cpc_tf.core.files import read_text
from cpc_tf.core.settings import ConfigError
from cpc_tf.data.config import GeometryConfig
from cpc_tf.encoders.card import EncoderCard, Training, find_card
from cpc_tf.encoders.layers import has_batch_norm
from cpc_tf.encoders.load import saved_values, with_values
from cpc_tf.encoders.network import Network, patch_grid
from cpc_tf.encoders.networks import NETWORKS
from cpc_tf.export.shared import (
    BYTES,
    IMAGES,
    Export,
    in_range,
    or_black,
    read_intensity_range,
    render,
    render_block,
    versions,
)
from cpc_tf.export.verify import Reference

TOLERANCE = 1e-4  # of features, relative to the largest of them


class Reusable(tf.Module):
    """An object with the interface of `hub.KerasLayer`.

    Args:
      encoder: its variables are this object's. It is not kept: TensorFlow would save a Keras model
        layer by layer.
      endpoints: (images [N, H, W, 3], training) -> outputs by name, 'features' among them.

    Attributes:
      unchecked: images -> endpoints in inference mode, whatever range the pixels have.
      checks_pixels: whether a call refuses pixels outside [0, 1]. It is read when the module is
        saved.
    """

    # tf.Module has these as properties, and properties are not saved: hub.KerasLayer would find
    # nothing to train.
    variables = None
    trainable_variables = None

    def __init__(
        self,
        encoder: Network,
        endpoints: Callable[[tf.Tensor, bool], dict[str, tf.Tensor]],
        name: str,
    ):
        super().__init__(name=name)
        self.variables = encoder.variables
        self.trainable_variables = encoder.trainable_variables
        self.regularization_losses = []
        self._endpoints = endpoints
        self.checks_pixels = True
        # Other runtimes are made of this: not all of them know assertions.
        self.unchecked = tf.function(
            lambda images: endpoints(images, False), input_signature=[IMAGES], autograph=False
        )

    @tf.function(autograph=False)
    def __call__(self, images: tf.Tensor, training: bool = False, return_endpoints: bool = False):
        """Images [N, H, W, 3] -> the endpoint 'features', or all endpoints by name."""
        if self.checks_pixels:
            images = in_range(images, "or bytes by the signature 'uint8'")
        endpoints = self._endpoints(images, training)
        return endpoints if return_endpoints else endpoints["features"]


class HubEncoder(Reusable):
    """Images [N, H, W, 3], float32 in [0, 1], any N, H and W -> features [N, D], or
    `Network.endpoints`.

    Its child `patched` has the same interface and does the same for each patch of the grid, with
    [N, R, C] in front: latents [N, R, C, D].

    Args:
      encoder: computes in float32, has its variables.
      geometry: of the patches.
    """

    def __init__(self, encoder: Network, geometry: GeometryConfig):
        # One graph with and one without training, which all others call: the large encoders take
        # long to trace. Only batch norm tells them apart (`Network.endpoints`).
        graphs = [_graph(encoder, training=False)] * 2
        if has_batch_norm(encoder):
            graphs[True] = _graph(encoder, training=True)

        def endpoints(images: tf.Tensor, training: bool) -> dict[str, tf.Tensor]:
            return graphs[training](images)

        def patched(images: tf.Tensor, training: bool) -> dict[str, tf.Tensor]:
            patches = patch_grid(
                images, geometry.patch_size, geometry.patch_stride
            )  # [N, R, C, P, P, 3]
            grid = tf.shape(patches)[:3]
            flat = tf.reshape(
                patches, tf.concat([[tf.reduce_prod(grid)], patches.shape[3:]], 0)
            )  # [N*R*C, P, P, 3]
            return {
                # [N*R*C, ...] -> [N, R, C, ...]; the number of channels stays known.
                name: tf.ensure_shape(
                    tf.reshape(x, tf.concat([grid, tf.shape(x)[1:]], 0)),
                    [None, None, None, *x.shape[1:]],
                )
                for name, x in endpoints(flat, training).items()
            }

        super().__init__(encoder, endpoints, name="encoder")
        self.patched = Reusable(encoder, patched, name="patched")

    def check_pixels(self, check: bool) -> None:
        """Sets whether calls refuse pixels outside [0, 1]."""
        for entry in (self, self.patched):
            entry.checks_pixels = check

    def endpoint_names(self) -> list[str]:
        """Names of the whole image's endpoints."""
        return sorted(self.unchecked.get_concrete_function().structured_outputs)


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

    # the graphs that are saved: one for each combination of Python booleans
    for entry in (
        module,
        module.patched,
    ):
        for training, return_endpoints in itertools.product((False, True), (False, True)):
            entry.__call__.get_concrete_function(
                IMAGES, training=training, return_endpoints=return_endpoints
            )
    tf.saved_model.save(
        module,
        directory,
        signatures={"serving_default": serve, "uint8": serve_bytes, "patched": serve_patched},
        # Layer norm brings its own gradient (cpc_tf/encoders/layers.py): without this, fine-tuning
        # would fail.
        options=tf.saved_model.SaveOptions(experimental_custom_gradients=True),
    )


def encoder_reference(encoder: Network, geometry: GeometryConfig) -> Reference:
    """Random images and what the encoder, as a Keras model, computes from them.

    Few and small, because of the large encoders: several sizes of whole images, one grid of
    patches, one gradient. The gradient is that of training, which moves the statistics of batch
    norm.
    """
    draw = np.random.default_rng(0)

    def images(*shape: int) -> np.ndarray:
        return draw.uniform(size=[*shape, 3]).astype(np.float32)

    patch = geometry.patch_size
    stride = geometry.patch_stride
    side = geometry.image_size
    inputs = {}
    outputs = {}
    for i, batch in enumerate(
        [images(2, patch, patch), images(1, patch + 13, 31), images(1, 32, 2 * patch + 1)]
    ):
        inputs[f"whole{i}"] = batch
        outputs.update(
            {
                f"whole{i}/{name}": x.numpy()
                for name, x in encoder.endpoints(tf.constant(batch)).items()
            }
        )

    # A column less than the geometry's grid has, unless that is the only one.
    inputs["patched"] = images(1, side, max(side - stride, patch))
    # Not computed as the module does it: [H, W, 3] -> [H', W', 3, P, P] -> [R, C, P, P, 3].
    windows = np.lib.stride_tricks.sliding_window_view(
        inputs["patched"][0], (patch, patch), axis=(0, 1)
    )
    patches = np.ascontiguousarray(windows[::stride, ::stride].transpose(0, 1, 3, 4, 2))
    latents = encoder(tf.constant(patches.reshape(-1, patch, patch, 3))).numpy()
    outputs["patched/latents"] = latents.reshape(1, *patches.shape[:2], encoder.feature_dim)

    # Large enough for the last feature map not to be a point, where batch norm has nothing to
    # normalize.
    inputs["gradient"] = images(2, max(patch, 64), max(patch, 64))
    inputs["projection"] = draw.normal(size=[2, encoder.feature_dim]).astype(np.float32)
    with tf.GradientTape() as tape:
        features = encoder(tf.constant(inputs["gradient"]), training=True)
        loss = tf.reduce_sum(features * inputs["projection"])
    gradients = tape.gradient(loss, encoder.trainable_variables)
    outputs["gradient/norms"] = np.array([float(tf.norm(gradient)) for gradient in gradients])
    return Reference(inputs, outputs)


def export_again(path: str) -> Export:
    """Returns an encoder that an earlier version exported, as this one writes it: with the same
    values and card.

    Its README stays, too, up to the sections on inputs, outputs and use.

    Raises:
      ConfigError: there is no encoder, or its card is of another network.
    """
    card = find_card(path) if tf.io.gfile.isdir(path) else None
    if card is None:
        what = (
            "an encoder that `cpc-tf export` wrote: classifiers and detectors are exported from"
            " their run"
        )
        raise ConfigError("module", path, f"without --format it must be {what}")
    encoder = with_values(card.encoder, saved_values(path, path), path)
    return _of_card(
        dataclasses.replace(card, versions=_versions()), encoder, functools.partial(_renewed, path)
    )


def _renewed(path: str, **facts: Any) -> str:
    """The README of a module with its sections on inputs, outputs and use as they are written
    today.
    """
    text = read_text(os.path.join(path, "README.md"))
    for section, first, following in (
        ("inputs", "A TensorFlow 2 SavedModel", "## Geometry"),
        ("use", "## Use", "## "),
    ):
        before, begin, rest = text.partition(f"\n{first}")
        _, end, after = rest.partition(f"\n{following}")
        if not (begin and end):
            raise ConfigError(
                "module", path, f"its README.md has no line {first!r} with {following!r} after it"
            )
        text = before + begin[:1] + render_block("encoder", section, **facts) + end + after
    return text


def encoder_export(
    encoder: Network, geometry: GeometryConfig, training: Training, workdir: str, **facts: Any
) -> Export:
    """Returns an encoder, with its values and in float32, as a module; its README also has these
    `facts` of the run.
    """
    parameters = int(sum(np.prod(v.shape) for v in encoder.trainable_variables))
    levels = read_intensity_range(workdir)
    card = EncoderCard(
        encoder.config, geometry, training, encoder.feature_dim, parameters, _versions(), levels
    )
    return _of_card(card, encoder, functools.partial(render, "encoder", **facts))


def _versions() -> dict[str, str]:
    return versions("tensorflow-hub")


def _of_card(card: EncoderCard, encoder: Network, readme: Callable[..., str]) -> Export:
    """Returns the module of an encoder and its card; `readme` makes the README of what both say."""
    encoder.recompute = False  # the card keeps the setting of the run
    module = HubEncoder(encoder, card.geometry)
    entry = NETWORKS[card.encoder.encoder]
    options = [name for name in entry.options if name != "recompute"]
    endpoints = [
        name for name in module.endpoint_names() if name not in ("feature_map", "features")
    ]
    return Export(
        kind="encoder",
        module=module,
        save=save,
        card=card.to_json(),
        readme=readme(card=card, sees=entry.sees, options=options, endpoints=endpoints),
        reference=functools.partial(encoder_reference, encoder, card.geometry),
        summary=(
            f"{card.encoder.encoder}, {card.training.weights} weights of step {card.training.step};"
            " in a fresh process: largest difference {difference:.0e}, {variables} variables"
            " trainable"
        ),
    )
