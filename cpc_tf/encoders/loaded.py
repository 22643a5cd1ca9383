"""An encoder in use: how --encoder names it, its output as patch latents or feature maps, and its identity."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from cpc_tf.encoders.card import EncoderCard, Identity, Training, module_name, read_card
from cpc_tf.encoders.config import PIXELS, UNKNOWN, UNTRAINED
from cpc_tf.encoders.foreign import LATENTS
from cpc_tf.encoders.network import Network
from cpc_tf.encoders.norm import has_batch_norm
from cpc_tf.encoders.patches import encode_grid, patch_grid, pixel_grid
from cpc_tf.encoders.pixels import RANGES, UNIT
from cpc_tf.keras import keras
from cpc_tf.settings import ConfigError

# Kinds of encoders beside PIXELS. Those that end with a colon are prefixes of the value.
MODULE, NEW, COPY, GRAPH = "module", "random", "random:", "graph:"
_OF_RANGES = {f"{name}:": name for name in RANGES}


@dataclasses.dataclass(frozen=True)
class EncoderName:
    """The value of --encoder.

    Attributes:
      text: as given.
      kind: PIXELS: no encoder; the supervised baseline. NEW: a network of --backbone with new weights. COPY: an
        untrained copy of one of our modules. MODULE: a TF-Hub module; one of ours becomes a network, which computes in
        --precision. GRAPH: a TF-Hub module as its SavedModel, which computes as it was exported.
      module: directory or handle, '' if there is none.
      pixels: the range of pixels that it takes, a key of RANGES that is written before it; '' if none is: [0, 1].
    """

    text: str
    kind: str
    module: str = ""
    pixels: str = ""

    @classmethod
    def parse(cls, text: str) -> EncoderName:
        """Parses a value of --encoder. Raises ConfigError if it is empty."""
        if text in (PIXELS, NEW):
            return cls(text, text)
        before = next((prefix for prefix in (COPY, GRAPH, *_OF_RANGES) if text.startswith(prefix)), "")
        kind, module = before if before in (COPY, GRAPH) else MODULE, text.removeprefix(before)
        if not module:
            example = f"--encoder={text}runs/photos/small/hub"
            raise ConfigError(f"--encoder={text} is empty: name a TF-Hub module, e.g. {example}")
        return cls(text, kind, module, _OF_RANGES.get(before, ""))

    @property
    def is_new(self) -> bool:
        """Whether it starts with random weights."""
        return self.kind in (PIXELS, NEW, COPY)

    def card(self, otherwise: str = "") -> EncoderCard:
        """Returns the card of its module; see `read_card`."""
        return read_card(self.module, otherwise)


# Patches uint8 [B, R, C, P, P, 3] -> latents float32 [B, R, C, D].
GridEncoder = Callable[[tf.Tensor], tf.Tensor]

_IMAGES = tf.TensorSpec([None, None, None, 3], tf.uint8, name="images")


class LoadedEncoder(keras.layers.Layer):
    """One output of an encoder: images float32 [B, S, S, 3] in [0, 1] -> feature maps float32 [B, H, W, D].

    Vectors become maps of a single cell.

    Args:
      encoder: a network of ours, or what `third_party.open_encoder` returns; None for pixels.
      name: its value of --encoder.
      card: of its module, None if it has none.
      backbone, seed: architecture and seed of a new network.
      endpoint: name of its output, '' for its default output.
      update_statistics: whether batch norm uses and updates the statistics of the batch in training. The weights are
        trained either way.

    Attributes:
      compiles: whether XLA can compile its training, as far as `load_feature_maps` was asked to find out.
    """

    def __init__(
        self,
        encoder: keras.layers.Layer | None,
        name: EncoderName,
        card: EncoderCard | None = None,
        backbone: str = "",
        seed: int = 0,
        endpoint: str = "",
        update_statistics: bool = True,
    ):
        super().__init__(name="backbone")
        self.encoder, self.endpoint, self.compiles = encoder, endpoint, True
        self._origin, self._update_statistics = (name, card, backbone, seed), update_statistics

    @property
    def text(self) -> str:
        """Its value of --encoder."""
        return self._origin[0].text

    @property
    def is_rebuilt(self) -> bool:
        """Whether it is one of our networks with the values of a module."""
        return isinstance(self.encoder, Network) and not self._origin[0].is_new

    @property
    def has_batch_norm(self) -> bool:
        """Whether a network of ours exchanges statistics of the batch in training. Modules of others never do."""
        return self._update_statistics and isinstance(self.encoder, Network) and has_batch_norm(self.encoder)

    @property
    def learned(self) -> Training:
        """How its values were trained before this run, as far as is known."""
        name, card, *_ = self._origin
        return card.training if card and not name.is_new else Training()

    @property
    def identity(self) -> Identity:
        """The identity that it had before this run."""
        name, card, backbone, seed = self._origin
        if card and not name.is_new:
            return card.identity(name.module)
        counted = sum(int(np.prod(v.shape)) for v in self.trainable_variables)
        new = name.kind in (NEW, COPY)
        return Identity(
            trained_by=PIXELS if name.kind == PIXELS else UNTRAINED if new else UNKNOWN,
            architecture=card.encoder.encoder if card else backbone if name.is_new else _own_name(self.encoder),
            seed=seed if new else None,
            parameters=counted or None,
            module=module_name(name.module),
        )

    def outputs(self, images: tf.Tensor, training: bool = False) -> tf.Tensor | dict[str, tf.Tensor]:
        """All endpoints by name, or the only output."""
        training = training and self._update_statistics
        if isinstance(self.encoder, Network):
            card = self._origin[1]
            if self.endpoint == LATENTS and card:
                patches = patch_grid(images, card.geometry.patch_size, card.geometry.patch_stride)
                return encode_grid(lambda flat: self.encoder.endpoints(flat, training)["features"], patches)
            return self.encoder.endpoints(images, training)
        return self.encoder(self._seen(images), training=training)

    def _seen(self, images: tf.Tensor) -> tf.Tensor:
        """Images in [0, 1] -> in the range that the encoder takes."""
        return RANGES[self._origin[0].pixels or UNIT](images)

    def call(self, images: tf.Tensor, training: bool = False) -> tf.Tensor:
        features = self.outputs(images, training)
        if isinstance(features, dict):
            features = features[self.endpoint]
        return tf.cast(features if features.shape.rank == 4 else features[:, None, None], tf.float32)

    def map_shape(self, side: int) -> tf.TensorShape:
        """Returns the shape [None, H, W, D] of the maps of images of this side, px; traces the encoder."""
        one = tf.TensorSpec([1, side, side, 3])  # third-party modules may know their sizes for a known batch alone
        maps = tf.function(self, autograph=False).get_concrete_function(one).structured_outputs
        return tf.TensorShape([None, *maps.shape[1:]])

    # Made on demand: a checkpoint would list a tf.function that is set as an attribute.
    @functools.cached_property
    def encode(self) -> Callable[[tf.Tensor], tf.Tensor]:
        """Images uint8 [B, S, S, 3] -> feature maps float32 [B, H, W, D], in inference mode; compiled once."""

        def encode(images: tf.Tensor) -> tf.Tensor:
            return self(tf.image.convert_image_dtype(images, tf.float32))

        return tf.function(encode, input_signature=[_IMAGES], autograph=False)

    @functools.cached_property
    def patch_latents(self) -> GridEncoder:
        """Patches uint8 [B, R, C, P, P, 3] -> latents float32 [B, R, C, D], each patch on its own; compiled."""
        if self.encoder is None:
            return tf.function(pixel_grid, autograph=False)
        return tf.function(functools.partial(encode_grid, self.vectors), autograph=False)

    def vectors(self, images: tf.Tensor) -> tf.Tensor:
        """Images float32 [N, H, W, 3] -> the encoder's default output, pooled to float32 [N, D]."""
        features = self.outputs(images) if self.endpoint else self.encoder(self._seen(images))
        if isinstance(features, dict):
            features = features[self.endpoint or "default"]
        features = tf.cast(features, tf.float32)
        return tf.reduce_mean(features, [1, 2]) if features.shape.rank == 4 else features

    @property
    def held(self) -> list[tf.Variable | tf.Module]:
        """What a SavedModel that calls it must hold. A SavedModel of others may have tables, too."""
        saved_model = _saved_model(self.encoder)
        return list(self.variables) if saved_model is None else [saved_model]

    def saved(self) -> tf.train.Checkpoint:
        """Its variables, under their names in the checkpoints of runs on few labels."""
        network = isinstance(self.encoder, Network)
        return tf.train.Checkpoint(layer=tf.train.Checkpoint(encoder=self.encoder) if network else self.encoder)


def _saved_model(encoder: keras.layers.Layer | None) -> Any:
    """The SavedModel of others that a layer calls, if it calls one."""
    return getattr(encoder, "resolved_object", None)


def _own_name(encoder: keras.layers.Layer) -> str:
    """The name that others gave a Keras model; SavedModels keep none."""
    return encoder.name if _saved_model(encoder) is None else ""
