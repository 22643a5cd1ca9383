"""Opens what --encoder names: an encoder, or several side by side, which are one encoder, too.

Its features are those of all, one after the other. As each encoder takes images of its own size, a
prepared image is a canvas: the prepared images of all in a row.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import tensorflow as tf

from cpc_tf.core.settings import ConfigError, joined_names
from cpc_tf.core.texts import shown
from cpc_tf.data import views
from cpc_tf.data.decode import IntensityRange
from cpc_tf.data.pictures import Batch, Pictures
from cpc_tf.data.source import Source
from cpc_tf.data.views import Decode, Geometry
from cpc_tf.encoders.card import Identity, parted
from cpc_tf.encoders.config import UNKNOWN
from cpc_tf.encoders.features import BATCH, Encoder
from cpc_tf.evaluation.neighbours import balance


@dataclasses.dataclass(frozen=True)
class Canvas:
    """How several encoders see an image: a black square with the image of each in its upper row.

    Attributes:
      geometries: of the images, from left to right.
    """

    geometries: tuple[Geometry, ...]

    @property
    def image_size(self) -> int:
        """The side of the square, px."""
        return sum(each.image_size for each in self.geometries)

    @property
    def resize(self) -> int:
        """The side that a decoded image should have at least, px."""
        return max(each.resize for each in self.geometries)

    @property
    def columns(self) -> list[slice]:
        """The columns of each image."""
        stops = np.cumsum([each.image_size for each in self.geometries]).tolist()
        return [slice(start, stop) for start, stop in zip([0, *stops], stops)]

    def drawn(self, decode: Decode) -> tf.Tensor:
        """Returns the canvas of an image, uint8 [S, S, 3]; each encoder sees what it would see
        alone.
        """
        side = self.image_size
        columns = []
        for geometry in self.geometries:
            image = views.plain_crop(decode(geometry.resize), geometry)
            below = [[0, side - geometry.image_size], [0, 0], [0, 0]]
            columns.append(tf.pad(image, below))
        return tf.ensure_shape(tf.concat(columns, 1), [side, side, 3])

    def images(self, canvases: tf.Tensor) -> list[tf.Tensor]:
        """Canvases uint8 [N, S, S, 3] -> the images of each encoder, uint8 [N, s, s, 3]."""
        parts = []
        for geometry, columns in zip(self.geometries, self.columns):
            parts.append(canvases[:, : geometry.image_size, columns])
        return parts


class SideBySide(Encoder):
    """Several encoders as one, whose features are those of all, one after the other.

    Args:
      encoders: two or more.

    Attributes:
      encoders: the argument. The others are those of `Encoder`.
    """

    def __init__(self, encoders: Sequence[Encoder]):
        self.encoders = [*encoders]
        first = encoders[0]
        self.path = joined_names([each.path for each in encoders])
        self.seed = first.seed
        self.image_size = first.image_size
        self.endpoint = first.endpoint
        self.card = None
        self.geometry = Canvas(tuple(each.geometry for each in encoders))
        ranges = {each.intensity_range for each in encoders if each.intensity_range}
        if len(ranges) > 1:
            raise ConfigError(
                "encoder",
                shown(self.path),
                "these encoders see images of more than 8 bits in different ranges; name one",
            )
        self.intensity_range = next(iter(ranges), None)
        self.held = []
        for each in encoders:
            self.held += each.held
        counts = [each.identity.parameters for each in encoders]
        self.identity = Identity(
            trained_by=UNKNOWN,
            module=" + ".join(_called(each) for each in encoders),
            parameters=None if None in counts else sum(counts),
        )
        self.what = "side by side: " + "; ".join(f"{each.path}: {each.what}" for each in encoders)
        self.digest = " + ".join(each.digest for each in encoders)

    @functools.cached_property
    def widths(self) -> list[int]:
        """How many features an image has, of each encoder."""
        widths = []
        for encoder in self.encoders:
            side = encoder.geometry.image_size
            black = np.zeros([1, side, side, 3], np.uint8)
            widths.append(encoder.encode_batch(black).shape[1])
        return widths

    def comparable(self, features: np.ndarray, of_all: np.ndarray) -> np.ndarray:
        """Returns features [N, D] scaled so that in cosines all encoders count alike."""
        return balance(of_all.var(0), self.widths) * features

    def prepare(self, image: tf.Tensor) -> tf.Tensor:
        """Draws the canvas of an image that is decoded: uint8 [H, W, 3] -> uint8 [S, S, 3]."""
        return self.geometry.drawn(lambda least_side: image)

    def encode(self, images: tf.Tensor) -> tf.Tensor:
        """Canvases uint8 [N, S, S, 3] -> features float32 [N, D]."""
        parts = zip(self.encoders, self.geometry.images(images))
        return tf.concat([encoder.encode(part) for encoder, part in parts], 1)

    def encode_batch(self, images: np.ndarray | tf.Tensor) -> np.ndarray:
        """Canvases uint8 [N, S, S, 3] -> features float32 [N, D]."""
        parts = zip(self.encoders, self.geometry.images(images))
        return np.concatenate([encoder.encode_batch(part) for encoder, part in parts], 1)

    def steps(
        self,
        pictures: Pictures,
        batch_size: int = BATCH,
        intensity_range: IntensityRange | None = None,
    ) -> Iterator[tuple[Batch, np.ndarray]]:
        """Yields as `Encoder.steps`; the batches have the images of the first encoder."""
        values_range = self.intensity_range or intensity_range
        every = [each.steps(pictures, batch_size, values_range) for each in self.encoders]
        for steps in zip(*every):
            yield steps[0][0], np.concatenate([features for _, features in steps], 1)

    def encode_source(
        self, source: Source, batch_size: int, progress: Callable[[int], None]
    ) -> np.ndarray:
        """Returns the features of all images of a source; see `Encoder.encode_source`."""
        blocks = []
        for number, encoder in enumerate(self.encoders):
            before = number * source.num_examples

            def advance(done: int, before: int = before) -> None:
                progress((before + done) // len(self.encoders))

            blocks.append(encoder.encode_source(source, batch_size, advance))
        return np.concatenate(blocks, 1)


def _called(encoder: Encoder) -> str:
    """Returns what an encoder is called in results."""
    return encoder.identity.module or encoder.identity.trained_by


def open_encoders(
    text: str | os.PathLike[str], seed: int = 0, image_size: int = 0, endpoint: str = ""
) -> list[Encoder]:
    """Opens each of the encoders that a value of --encoder names, separated by commas.

    Args:
      text: the value.
      seed, image_size, endpoint: as of `Encoder`.

    Raises:
      ConfigError: as `Encoder`, or one is named twice.
    """
    names = parted(os.fspath(text)) or [""]
    if len({*names}) < len(names):
        raise ConfigError("encoder", shown(text), "names an encoder twice")
    return [Encoder(name, seed, image_size, endpoint) for name in names]


def joined(encoders: Sequence[Encoder]) -> Encoder:
    """Returns these encoders as one."""
    return encoders[0] if len(encoders) == 1 else SideBySide(encoders)


def open_encoder(
    text: str | os.PathLike[str], seed: int = 0, image_size: int = 0, endpoint: str = ""
) -> Encoder:
    """Opens what --encoder names, several encoders side by side; see `open_encoders`."""
    return joined(open_encoders(text, seed, image_size, endpoint))


def load_encoder(path: str | os.PathLike[str]) -> Encoder:
    """Loads an encoder that `pretrain` or `cpc-tf export` wrote, or another TF-Hub module of
    images.

    Args:
      path: directory of the module, or the name of one that comes with the code, such as
        'imagenette_128px'; of several, separated by commas, the features are side by side.

    Raises:
      ConfigError: there is no such module.

    Example:

        >>> import cpc_tf
        >>> cpc_tf.load_encoder("imagenette_128px").card.geometry.image_size
        128
    """
    return open_encoder(path)
