"""What an encoder makes of images: the same features for `classify`, `label`, `embed`, `data`,
`predict` and Python.

Features of an image are the mean of the feature map over the whole image and over its mirror image.
Although our modules are trained on patches, this gives better neighbours than the mean over the
patch grid (docs/decisions.md).
"""

from __future__ import annotations

import functools
import os
import pathlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from cpc_tf import augment
from cpc_tf.augment.config import knows_no_colour
from cpc_tf.core.settings import ConfigError
from cpc_tf.data import pictures as files
from cpc_tf.data import views
from cpc_tf.data.config import SQUASH, GeometryConfig, ImageConfig
from cpc_tf.data.decode import IntensityRange
from cpc_tf.data.pictures import Batch, Images, Pictures
from cpc_tf.data.source import Source
from cpc_tf.encoders.card import NEW, EncoderCard, EncoderName, Identity
from cpc_tf.encoders.config import PIXELS
from cpc_tf.encoders.load import load_patch_encoder
from cpc_tf.encoders.network import patch_grid

BATCH = 64  # images
_SIDE = 224  # of images for an encoder that has no size of its own, px
_THUMBNAIL = 16  # side of the images whose pixels are features, px


class Neighbour(NamedTuple):
    """An image that is near another one."""

    index: int  # among the images
    name: str  # of its file, relative to the folder; of an array its number, such as '000003.png'
    similarity: float  # cosine of both features after the mean of all was subtracted, -1 to 1


class Encoder:
    """A trained encoder. Images are resized and cropped as in its training.

    Images are a folder (with all below it), a file, a list of files, an array uint8 or float in [0,
    1] of shape [N, H, W, 3] or [H, W, 3], or a list of arrays or PIL images of any sizes.

    Args:
      path: directory of a module that `cpc-tf export` wrote, or of another TF-Hub module of images,
        the name of one that comes with the code, such as imagenette_128px, or keras:NAME or
        keras:NAME:FILE, a network of Keras Applications; random:MODULE is an untrained copy, pixels
        are those of small images.
      seed: of an untrained copy.
      image_size: side of the images, px; 0: that of the encoder, 224 of a third-party module and
        of pixels. Ours are for their own size alone.
      endpoint: which output; '': the feature map of ours, the default output of a third-party
        module.

    Attributes:
      path, seed, image_size, endpoint: the arguments.
      card: the content of encoder.json: geometry and training; None for a third-party module.
      geometry: how images are resized and cropped.
      what: a description of the features.
      intensity_range: the values that become 0 and 255 in images of more than 8 bits; None: the
        pictures' own range.
      identity: of the encoder, for results.
      held: variables and tables that `encode` uses.
      digest: identifies the features, for caches.

    Raises:
      ConfigError: there is no such module, or it gives no features.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        seed: int = 0,
        image_size: int = 0,
        endpoint: str = "",
    ):
        self.path = os.path.expanduser(os.fspath(path))
        self.seed = seed
        self.image_size = image_size
        self.endpoint = endpoint
        name = _named(self.path)

        # How images are seen.
        self.card: EncoderCard | None = name.find_card(image_size)
        side = image_size or _SIDE
        self.geometry: ImageConfig | GeometryConfig = ImageConfig(
            resize=side, image_size=side, resize_mode=SQUASH
        )
        self.intensity_range: IntensityRange | None = None
        self._is_grey = False
        if self.card:
            training = self.card.training
            self.geometry = self.card.geometry
            self.intensity_range = self.card.levels
            self._is_grey = knows_no_colour(training.augment, training.augment_changes)
        side = self.geometry.image_size

        # Images float32 [N, S, S, 3] in [0, 1] -> [N, D].
        self._vectors: Callable[[tf.Tensor], tf.Tensor]
        if name.kind == PIXELS:
            self._vectors = _thumbnails
            self.held = []
            self.identity = Identity(trained_by=PIXELS)
            self.what = f"the pixels of images of {_THUMBNAIL} x {_THUMBNAIL} px"
        else:
            if not endpoint and self.card:
                endpoint = "features" if name.network else "feature_map"
            # A whole image is one patch.
            loaded = load_patch_encoder(self.path, seed, side, endpoint=endpoint)
            self._vectors = loaded.vectors
            self.held = loaded.held
            self.identity = loaded.identity
            output = endpoint or "the output"
            self.what = (
                f"the mean of {output} over an image of {side} x {side} px and its mirror image"
            )
        if self._is_grey:
            self.what += ", grey as in its training"

        # What the features depend on beside the images.
        stamp = _stamp(name.module)
        self.digest = f"{self.path} {stamp} {endpoint} {seed} {self.what} {tf.__version__}"
        self._compiled = _compiled(self.encode, side)

    @property
    def parameters(self) -> int:
        """The number of all its values, trained or not."""
        variables = []
        for each in self.held:
            variables += [each] if isinstance(each, tf.Variable) else each.variables
        return sum(int(np.prod(variable.shape)) for variable in variables)

    def __repr__(self) -> str:
        return f"Encoder({self.path!r}): {self.what}"

    def prepare(self, image: tf.Tensor) -> tf.Tensor:
        """Resizes and crops an image as in its training: uint8 [H, W, 3] -> uint8 [S, S, 3]."""
        return views.plain_crop(image, self.geometry)

    def encode(self, images: tf.Tensor) -> tf.Tensor:
        """Prepared images uint8 [N, S, S, 3] -> features float32 [N, D]."""
        seen = augment.grey(images) if self._is_grey else images
        unit = tf.image.convert_image_dtype(seen, tf.float32)
        both = self._vectors(tf.concat([unit, unit[:, :, ::-1]], 0))  # [2 N, D]
        return tf.reduce_mean(tf.stack(tf.split(both, 2)), 0)

    def encode_batch(self, images: np.ndarray | tf.Tensor) -> np.ndarray:
        """Prepared images uint8 [N, S, S, 3] -> features float32 [N, D]. Raises ConfigError if any
        is not finite.
        """
        features = self._compiled(images).numpy()
        if not np.isfinite(features).all():
            raise ConfigError(
                "the encoder gives features that are not finite; try another --encoder or"
                " --endpoint"
            )
        return features

    def steps(
        self,
        pictures: Pictures,
        batch_size: int = BATCH,
        intensity_range: IntensityRange | None = None,
    ) -> Iterator[tuple[Batch, np.ndarray]]:
        """Yields batches of images with the features of the sound ones, float32 [n, D].

        Args:
          pictures: those of `pictures.find`.
          batch_size: images encoded at a time.
          intensity_range: of images of more than 8 bits if the encoder has none; None: their own.

        Raises:
          ConfigError: the encoder gives features that are not finite.
        """
        return self._steps(pictures, self.encode_batch, batch_size, intensity_range)

    def encode_source(
        self, source: Source, batch_size: int, progress: Callable[[int], None]
    ) -> np.ndarray:
        """Returns the features of all images of a source, in its order, float32 [N, D].

        Args:
          source: labelled images.
          batch_size: images encoded at a time.
          progress: gets how many are done.

        Raises:
          ConfigError: an image cannot be read any more.
        """

        def prepare(example: dict[str, tf.Tensor]) -> tf.Tensor:
            return self.prepare(source.decode(example["encoded"], self.geometry.resize))

        images = source.ordered().map(prepare, num_parallel_calls=tf.data.AUTOTUNE)
        blocks = []
        done = 0
        for batch in images.batch(batch_size).prefetch(2):
            blocks.append(self.encode_batch(batch))
            done += len(blocks[-1])
            progress(done)
        if done != source.num_examples:
            raise ConfigError(
                f"the data ended after {done:,} of {source.num_examples:,} images; a file is"
                " shorter than before"
            )
        return np.concatenate(blocks)

    def features(self, pictures: Images) -> np.ndarray:
        """Returns one vector an image: the mean of the feature map over it and over its mirror
        image.

        Of a third-party module it is the mean of its outputs for both.

        Returns:
          float32 [N, D].

        Raises:
          ConfigError: there is no such file, or an image cannot be read.

        Example:

            >>> import cpc_tf, numpy as np
            >>> encoder = cpc_tf.load_encoder("imagenette_128px")
            >>> encoder.features("my_pictures").shape
            (24, 1024)
            >>> grey = np.full([40, 60, 3], 128, np.uint8)
            >>> noise = np.random.default_rng(0).uniform(size=[50, 50, 3])
            >>> encoder.features([grey, noise]).shape
            (2, 1024)
            >>> encoder.patches(grey).shape
            (1, 5, 5, 1024)
            >>> one = "my_pictures/red/3.png"
            >>> [[nearest, second]] = encoder.neighbours(one, "my_pictures", count=2)
            >>> nearest.name.partition("/")[0], nearest.similarity >= second.similarity
            ('red', True)
        """
        images = files.find(pictures)
        return _of_all(images, self.steps(images))

    def comparable(self, features: np.ndarray, of_all: np.ndarray) -> np.ndarray:
        """Returns features [N, D] scaled for cosines, given those of all images; of one encoder as
        they are.
        """
        del of_all
        return features

    def patches(self, pictures: Images) -> np.ndarray:
        """Returns the latents of each patch of the grid that is laid on an image; an example is at
        `features`.

        Each patch is encoded on its own, as in pre-training.

        Returns:
          float32 [N, R, C, D], R from top to bottom, C from left to right.

        Raises:
          ConfigError: those of `features`, or it is a third-party module, which has no patches.
        """
        if self.card is None:
            raise ConfigError(
                f"{self.path}: a third-party module, which has no patches; features() returns"
                " its output"
            )
        images = files.find(pictures)
        grids = self._steps(images, lambda prepared: self._grids(prepared).numpy())
        return _of_all(images, grids)

    def neighbours(self, query: Images, pictures: Images, count: int = 5) -> list[list[Neighbour]]:
        """Returns, for each image of a query, the most similar other ones, the nearest first; see
        `features`.

        The image itself is left out: the same file, or an array with the same pixels.

        Args:
          query: one or several images.
          pictures: those to search.
          count: how many neighbours; fewer if there are fewer images.

        Raises:
          ConfigError: those of `features`.
        """
        from cpc_tf.evaluation.neighbours import nearest_others

        gallery = files.find(pictures)
        queries = files.find(query)
        of_queries = _of_all(queries, self.steps(queries))
        of_gallery = _of_all(gallery, self.steps(gallery))
        of_queries = self.comparable(of_queries, of_gallery)
        of_gallery = self.comparable(of_gallery, of_gallery)
        near = nearest_others(of_queries, of_gallery, count, queries.places, gallery.places)
        return [[Neighbour(i, gallery.names[i], cosine) for i, cosine in row] for row in near]

    @functools.cached_property
    def _grids(self) -> Callable[[tf.Tensor], tf.Tensor]:
        """Prepared images uint8 [N, S, S, 3] -> latents of their patches float32 [N, R, C, D]."""
        geometry = self.card.geometry
        loaded = load_patch_encoder(self.path, self.seed, geometry.patch_size)

        def grids(images: tf.Tensor) -> tf.Tensor:
            seen = augment.grey(images) if self._is_grey else images
            # [N, R, C, P, P, 3]
            patches = patch_grid(seen, geometry.patch_size, geometry.patch_stride)
            return loaded.patch_latents(patches)

        return _compiled(grids, geometry.image_size)

    def _steps(
        self,
        pictures: Pictures,
        encode: Callable[[np.ndarray], np.ndarray],
        batch_size: int = BATCH,
        intensity_range: IntensityRange | None = None,
    ) -> Iterator[tuple[Batch, np.ndarray]]:
        least_side = self.geometry.resize
        values_range = self.intensity_range or intensity_range
        batches = files.batches(
            pictures, self.prepare, batch_size, least_side=least_side, intensity_range=values_range
        )
        for batch in batches:
            if len(batch.indices):
                yield batch, encode(batch.images)
            else:
                yield batch, np.zeros([0, 0], np.float32)


def _of_all(pictures: Pictures, steps: Iterator[tuple[Batch, np.ndarray]]) -> np.ndarray:
    """Returns what was made of all images. Raises ConfigError if one is broken."""
    blocks = []
    for batch, features in steps:
        for index, why in batch.broken.items():
            raise ConfigError(
                f"{pictures.names[index]}: {why}; cpc_tf.embed leaves such images out"
            )
        blocks.append(features)
    return np.concatenate(blocks)


def _named(path: str) -> EncoderName:
    """Returns what --encoder names. Raises ConfigError if it is a new network, a classifier or a
    detector.
    """
    name = EncoderName.parse(path)
    if name.kind == NEW:
        raise ConfigError(f"--encoder={path}: must be a TF-Hub module; no new network is made here")
    for kind in ("classifier", "detector"):
        card = os.path.join(name.module, f"{kind}.json")
        if name.module and "://" not in name.module and tf.io.gfile.exists(card):
            raise ConfigError(
                f"--encoder={path}: is a {kind}; export the run's encoder for features"
            )
    return name


def _compiled(
    encode: Callable[[tf.Tensor], tf.Tensor], side: int
) -> Callable[[tf.Tensor], tf.Tensor]:
    images = tf.TensorSpec([None, side, side, 3], tf.uint8)
    return tf.function(encode, input_signature=[images], autograph=False)


def _stamp(module: str) -> list[tuple[str, int, int]]:
    """Returns names, sizes and times of the files of a module in a directory, or of a file of
    weights; of another handle nothing.
    """
    if os.path.isfile(module):
        files = [pathlib.Path(module)]
    elif os.path.isdir(module):
        files = sorted(path for path in pathlib.Path(module).rglob("*") if path.is_file())
    else:
        return []
    return [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files]


def _thumbnails(images: tf.Tensor) -> tf.Tensor:
    """Images float32 [N, S, S, 3] in [0, 1] -> the pixels of small ones, float32 [N, D]."""
    small = tf.image.resize(images, [_THUMBNAIL, _THUMBNAIL], tf.image.ResizeMethod.AREA)
    return tf.reshape(small, [-1, 3 * _THUMBNAIL**2])
