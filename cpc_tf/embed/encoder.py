"""An encoder as `embed` uses it: how it sees a picture, and the features that it gives."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from cpc_tf import augment, pictures
from cpc_tf.augment.config import knows_no_colour
from cpc_tf.data.decoding.decode import IntensityRange
from cpc_tf.data.views import geometry as geo
from cpc_tf.encoders.card import find_card
from cpc_tf.encoders.load import load_patch_encoder
from cpc_tf.encoders.loaded import COPY, GRAPH, MODULE, EncoderName
from cpc_tf.encoders.patches import patch_grid
from cpc_tf.settings import ConfigError


class Encoder(NamedTuple):
    """A picture's way to its features.

    Attributes:
      prepare: image uint8 [H, W, 3] -> uint8 [S, S, 3].
      encode: uint8 [N, S, S, 3] -> features float32 [N, D].
      latents: the same -> float32 [N, R, C, D], whose mean the features are; None for a third-party module.
      least_side: the shorter side of an image that `prepare` needs, px.
      what: what the features are, for people.
      levels: the values that become 0 and 255 in pictures of more than 8 bits; None: the range of the pictures'.
    """

    prepare: Callable[[tf.Tensor], tf.Tensor]
    encode: Callable[[tf.Tensor], tf.Tensor]
    latents: Callable[[tf.Tensor], tf.Tensor] | None
    least_side: int
    what: str
    levels: IntensityRange | None = None

    def features(self, files: pictures.Pictures, batch_size: int) -> Iterator[tuple[pictures.Batch, np.ndarray]]:
        """Yields batches of pictures with the features of the sound ones, float32 [n, D]."""
        options = {"least_side": self.least_side, "levels": self.levels}
        for batch in pictures.batches(files, self.prepare, batch_size, **options):
            yield batch, self.encode(batch.images).numpy() if len(batch.indices) else np.zeros([0, 0], np.float32)


def open_encoder(text: str, seed: int = 0, image_size: int = 224) -> Encoder:
    """Returns the encoder that --encoder names.

    The features of a module of ours are the mean latents of the patches of a picture, those of another module its
    output for the whole picture, resized to a square of `image_size` px.

    Raises:
      ConfigError: there is no such module, or it gives no features.
    """
    name = EncoderName.parse(text)
    if name.kind not in (MODULE, COPY, GRAPH):
        raise ConfigError(f"--encoder={text}: name a TF-Hub module; there is no network of that name to make here")
    other = next((kind for kind in ("classifier", "detector") if _has(name.module, f"{kind}.json")), "")
    if other:
        raise ConfigError(f"--encoder={text}: is a {other}; export the run's encoder for features")
    card = name.card() if name.kind == COPY else find_card(name.module)
    loaded = load_patch_encoder(text, seed, card.geometry.patch_size if card else image_size)
    if card is None:
        return Encoder(
            prepare=lambda image: geo.resize(image, image_size),
            encode=_compiled(
                lambda images: loaded.vectors(tf.image.convert_image_dtype(images, tf.float32)), image_size
            ),
            latents=None,
            least_side=image_size,
            what=f"the module's output for whole pictures, resized to {image_size} x {image_size} px",
        )
    geometry, grey = card.geometry, knows_no_colour(card.training.augment, card.training.augment_changes)

    def latents(images: tf.Tensor) -> tf.Tensor:
        patches = patch_grid(images, geometry.patch_size, geometry.patch_stride)  # [N, R, C, P, P, 3]
        return loaded.patch_latents(patches)

    return Encoder(
        prepare=lambda image: augment.grey(geo.plain(image, geometry)) if grey else geo.plain(image, geometry),
        encode=_compiled(lambda images: tf.reduce_mean(latents(images), [1, 2]), geometry.image_size),
        latents=_compiled(latents, geometry.image_size),
        least_side=geometry.resize,
        levels=card.levels,
        what=(
            f"mean latents of {geometry.grid} x {geometry.grid} patches of {geometry.patch_size} px, cut from pictures "
            f"of {geometry.image_size} x {geometry.image_size} px{', grey as in its training' if grey else ''}"
        ),
    )


def _has(module: str, name: str) -> bool:
    return "://" not in module and tf.io.gfile.exists(os.path.join(module, name))


def _compiled(encode: Callable[[tf.Tensor], tf.Tensor], side: int) -> Callable[[tf.Tensor], tf.Tensor]:
    images = tf.TensorSpec([None, side, side, 3], tf.uint8)
    return tf.function(encode, input_signature=[images], autograph=False)
