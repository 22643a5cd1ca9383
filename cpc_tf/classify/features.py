"""Features for a classifier: what an encoder gives for whole pictures and for their mirror images, averaged."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from cpc_tf import augment
from cpc_tf.augment.config import knows_no_colour
from cpc_tf.core.settings import ConfigError
from cpc_tf.data import views
from cpc_tf.data.config import SQUASH, GeometryConfig, ImageConfig
from cpc_tf.data.source import Source
from cpc_tf.encoders.card import COPY, EncoderName, Identity, find_card
from cpc_tf.encoders.config import PIXELS
from cpc_tf.encoders.load import load_patch_encoder

_THUMBNAIL = 16  # side of the pictures whose pixels are features, px


class PictureEncoder:
    """Pictures -> features of whole pictures.

    Although our modules are trained on patches, features of whole pictures gave a better classifier than the mean over
    the patch grid (docs/notebook/2026-11-27-answer.md#features).

    Args:
      text: any value of --encoder but 'random'.
      endpoint: which output; '': the feature map of ours, the default output of a third-party module.
      image_size: side of the pictures for a third-party module and for pixels, px.
      seed: of an untrained copy.

    Attributes:
      geometry: how pictures are resized and cropped.
      held: variables and tables that `features` uses.
      identity: of the encoder, for results.
      intensity_range: the values that become 0 and 255 in pictures of more than 8 bits; None: unknown.
      what: what the features are, for people.
      digest: identifies the features, for caches.

    Raises:
      ConfigError: there is no such encoder, or it gives no features.
    """

    def __init__(self, text: str, endpoint: str = "", image_size: int = 224, seed: int = 0):
        name = EncoderName.parse(text)
        card = name.card() if name.kind == COPY else find_card(name.module) if name.module else None
        self.geometry: ImageConfig | GeometryConfig = (
            card.geometry
            if card
            else ImageConfig(resize=image_size, image_size=image_size, resize_mode=SQUASH)
        )
        self.intensity_range = card.levels if card else None
        self._is_grey = bool(card) and knows_no_colour(
            card.training.augment, card.training.augment_changes
        )
        side = self.geometry.image_size
        self._vectors: Callable[
            [tf.Tensor], tf.Tensor
        ]  # images float32 [N, S, S, 3] in [0, 1] -> [N, D]
        if name.kind == PIXELS:
            self._vectors, self.held = _thumbnails, []
            self.identity = Identity(trained_by=PIXELS)
            self.what = f"the pixels of pictures of {_THUMBNAIL} x {_THUMBNAIL} px"
        else:
            endpoint = endpoint or ("feature_map" if card else "")
            encoder = load_patch_encoder(
                text, seed, side, endpoint=endpoint
            )  # a whole picture is one patch
            self._vectors, self.held, self.identity = (
                encoder.vectors,
                encoder.held,
                encoder.identity,
            )
            output = endpoint or "the output"
            self.what = (
                f"the mean of {output} over a picture of {side} x {side} px and its mirror image"
            )
        # What the features depend on beside the pictures.
        self.digest = f"{text} {_stamp(name.module)} {endpoint} {seed} {self.what} {tf.__version__}"
        self._compiled = tf.function(
            self.features,
            input_signature=[tf.TensorSpec([None, side, side, 3], tf.uint8)],
            autograph=False,
        )

    def features(self, images: tf.Tensor) -> tf.Tensor:
        """Prepared images uint8 [N, S, S, 3] -> features float32 [N, D]."""
        images = tf.image.convert_image_dtype(
            augment.grey(images) if self._is_grey else images, tf.float32
        )
        both = self._vectors(tf.concat([images, images[:, :, ::-1]], 0))  # [2 N, D]
        return tf.reduce_mean(tf.stack(tf.split(both, 2)), 0)

    def encode_batch(self, images: np.ndarray | tf.Tensor) -> np.ndarray:
        """Prepared images uint8 [N, S, S, 3] -> features float32 [N, D]. Raises ConfigError if any is not finite."""
        features = self._compiled(images).numpy()
        if not np.isfinite(features).all():
            raise ConfigError(
                "the encoder gives features that are not finite; another --encoder or --endpoint may do"
            )
        return features

    def encode(
        self, source: Source, batch_size: int, progress: Callable[[int], None]
    ) -> np.ndarray:
        """Returns the features of all pictures of a source, in its order, float32 [N, D].

        Args:
          source: labelled pictures.
          batch_size: pictures encoded at a time.
          progress: gets how many are done.

        Raises:
          ConfigError: a picture cannot be read any more.
        """

        def prepare(example: dict[str, tf.Tensor]) -> tf.Tensor:
            return views.plain_crop(
                source.decode(example["encoded"], self.geometry.resize), self.geometry
            )

        images = (
            source.ordered()
            .map(prepare, num_parallel_calls=tf.data.AUTOTUNE)
            .batch(batch_size)
            .prefetch(2)
        )
        blocks, done = [], 0
        for batch in images:
            blocks.append(self.encode_batch(batch))
            done += len(blocks[-1])
            progress(done)
        if done != source.num_examples:
            raise ConfigError(
                f"the data ended after {done:,} of {source.num_examples:,} pictures; a file is shorter than before"
            )
        return np.concatenate(blocks)


def _stamp(module: str) -> list[tuple[str, int, int]]:
    """Returns names, sizes and times of the files of a module in a directory; of another handle nothing."""
    if not os.path.isdir(module):
        return []
    files = sorted(path for path in pathlib.Path(module).rglob("*") if path.is_file())
    return [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files]


def _thumbnails(images: tf.Tensor) -> tf.Tensor:
    """Images float32 [N, S, S, 3] in [0, 1] -> the pixels of small ones, float32 [N, D]."""
    small = tf.image.resize(images, [_THUMBNAIL, _THUMBNAIL], tf.image.ResizeMethod.AREA)
    return tf.reshape(small, [-1, 3 * _THUMBNAIL**2])
