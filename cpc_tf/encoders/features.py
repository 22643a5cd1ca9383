"""A trained encoder: opened from its module, features of pictures, and which pictures are near each other."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from cpc_tf import augment
from cpc_tf.augment.config import knows_no_colour
from cpc_tf.core.settings import ConfigError
from cpc_tf.data import pictures as files
from cpc_tf.data import views
from cpc_tf.data.decode import IntensityRange
from cpc_tf.data.pictures import Batch, Images, Pictures
from cpc_tf.encoders.card import COPY, GRAPH, MODULE, EncoderCard, EncoderName, find_card
from cpc_tf.encoders.load import LoadedEncoder, load_patch_encoder
from cpc_tf.encoders.network import patch_grid
from cpc_tf.evaluation.scores import normalized

_BATCH = 64  # pictures
_BLOCK, _MOST = (
    1024,
    2**26,
)  # rows of similarities at a time, and how many numbers these have at most


class Neighbour(NamedTuple):
    """A picture that is near another one."""

    index: int  # among the pictures
    name: str  # of its file, relative to the folder; of an array its number, such as '000003.png'
    similarity: float  # cosine of both features after the mean of all was subtracted, -1 to 1


class Encoder:
    """A trained encoder. Pictures are resized and cropped as in its training.

    Pictures are a folder (with all below it), a file, a list of files, an array uint8 or float in [0, 1] of shape
    [N, H, W, 3] or [H, W, 3], or a list of arrays or PIL images of any sizes.

    Args:
      path: directory of a module that `cpc-tf export` wrote, or of another TF-Hub module of images, or the name of one
        that comes with the code, such as imagenette_128px; random:MODULE is an untrained copy.
      seed: of an untrained copy.
      image_size: side of the pictures for a third-party module, px; others come with their own sizes.

    Attributes:
      path, seed, image_size: the arguments.
      card: the content of encoder.json: geometry and training; None for a third-party module.
      prepare: image uint8 [H, W, 3] -> uint8 [S, S, 3], resized and cropped as in its training.
      what: a description of the features.
      intensity_range: the values that become 0 and 255 in pictures of more than 8 bits; None: the pictures' own range.

    Raises:
      ConfigError: there is no such module, or it gives no features.
    """

    def __init__(self, path: str | os.PathLike[str], seed: int = 0, image_size: int = 224):
        self.path, self.seed, self.image_size = (
            os.path.expanduser(os.fspath(path)),
            seed,
            image_size,
        )
        name = EncoderName.parse(self.path)
        if name.kind not in (MODULE, COPY, GRAPH):
            raise ConfigError(
                f"--encoder={self.path}: name a TF-Hub module; there is no network of that name to make here"
            )
        for kind in ("classifier", "detector"):
            if "://" not in name.module and tf.io.gfile.exists(
                os.path.join(name.module, f"{kind}.json")
            ):
                raise ConfigError(
                    f"--encoder={self.path}: is a {kind}; export the run's encoder for features"
                )
        self.card: EncoderCard | None = name.card() if name.kind == COPY else find_card(name.module)
        self.intensity_range: IntensityRange | None = self.card.levels if self.card else None
        # uint8 [N, S, S, 3] -> features float32 [N, D], and those of patches float32 [N, R, C, D].
        self._vectors: Callable[[tf.Tensor], tf.Tensor]
        self._grids: Callable[[tf.Tensor], tf.Tensor] | None = None
        loaded = load_patch_encoder(
            self.path, seed, self.card.geometry.patch_size if self.card else image_size
        )
        if self.card:
            self._encode_patches(loaded, self.card)
        else:
            self._encode_whole_pictures(loaded)

    def _encode_patches(self, loaded: LoadedEncoder, card: EncoderCard) -> None:
        """The features of a module of ours are the mean latents of the patches of a picture."""
        geometry, grey = (
            card.geometry,
            knows_no_colour(card.training.augment, card.training.augment_changes),
        )

        def prepare(image: tf.Tensor) -> tf.Tensor:
            plain = views.plain_crop(image, geometry)
            return augment.grey(plain) if grey else plain

        def grids(images: tf.Tensor) -> tf.Tensor:
            return loaded.patch_latents(
                patch_grid(images, geometry.patch_size, geometry.patch_stride)
            )

        self.prepare, self._least_side = prepare, geometry.resize
        self._grids = _compiled(grids, geometry.image_size)
        self._vectors = _compiled(
            lambda images: tf.reduce_mean(grids(images), [1, 2]), geometry.image_size
        )
        self.what = (
            f"mean latents of {geometry.grid} x {geometry.grid} patches of {geometry.patch_size} px, cut from pictures "
            f"of {geometry.image_size} x {geometry.image_size} px{', grey as in its training' if grey else ''}"
        )

    def _encode_whole_pictures(self, loaded: LoadedEncoder) -> None:
        """The features of a third-party module are its output for the whole picture, resized to a square."""
        side = self._least_side = self.image_size
        self.prepare = lambda image: views.resize(image, side)
        self._vectors = _compiled(
            lambda images: loaded.vectors(tf.image.convert_image_dtype(images, tf.float32)), side
        )
        self.what = f"the module's output for whole pictures, resized to {side} x {side} px"

    def __repr__(self) -> str:
        return f"Encoder({self.path!r}): {self.what}"

    def steps(
        self,
        pictures: Pictures,
        batch_size: int = _BATCH,
        intensity_range: IntensityRange | None = None,
        patches: bool = False,
    ) -> Iterator[tuple[Batch, np.ndarray]]:
        """Yields batches of pictures with the features of the sound ones, float32 [n, D].

        Args:
          pictures: those of `pictures.find`.
          batch_size: pictures encoded at a time.
          intensity_range: of pictures of more than 8 bits if the encoder has none; None: their own.
          patches: whether to yield the features of the patches, float32 [n, R, C, D].
        """
        encode = self._grids if patches else self._vectors
        options = {
            "least_side": self._least_side,
            "intensity_range": self.intensity_range or intensity_range,
        }
        for batch in files.batches(pictures, self.prepare, batch_size, **options):
            yield (
                batch,
                encode(batch.images).numpy()
                if len(batch.indices)
                else np.zeros([0, 0], np.float32),
            )

    def features(self, pictures: Images) -> np.ndarray:
        """Returns one vector a picture: the mean of the features of its patches.

        Of a third-party module it is the output for the whole picture.

        Returns:
          float32 [N, D].

        Raises:
          ConfigError: there is no such file, or a picture cannot be read.

        Example:

            >>> import cpc_tf, numpy as np
            >>> encoder = cpc_tf.load_encoder("imagenette_128px")
            >>> encoder.features("my_pictures").shape
            (24, 1024)
            >>> grey, noise = np.full([40, 60, 3], 128, np.uint8), np.random.default_rng(0).uniform(size=[50, 50, 3])
            >>> encoder.features([grey, noise]).shape
            (2, 1024)
            >>> encoder.patches(grey).shape
            (1, 5, 5, 1024)
            >>> [[nearest, second]] = encoder.neighbours("my_pictures/red/3.png", "my_pictures", count=2)
            >>> nearest.name.partition("/")[0], nearest.similarity >= second.similarity
            ('red', True)
        """
        return self._of_all(files.find(pictures))

    def patches(self, pictures: Images) -> np.ndarray:
        """Returns the features of each patch of the grid that is laid on a picture; an example is at `features`.

        Returns:
          float32 [N, R, C, D], R from top to bottom, C from left to right.

        Raises:
          ConfigError: those of `features`, or it is a third-party module, which has no patches.
        """
        if self._grids is None:
            raise ConfigError(
                f"{self.path}: a third-party module, which has no patches; features() has its output"
            )
        return self._of_all(files.find(pictures), patches=True)

    def neighbours(self, query: Images, pictures: Images, count: int = 5) -> list[list[Neighbour]]:
        """Returns, for each picture of a query, the most similar other ones, the nearest first; see `features`.

        The picture itself is left out: the same file, or an array with the same pixels.

        Args:
          query: one or several pictures.
          pictures: those to search.
          count: how many neighbours; fewer if there are fewer pictures.

        Raises:
          ConfigError: those of `features`.
        """
        gallery, queries = files.find(pictures), files.find(query)
        near = nearest_others(
            self._of_all(queries), self._of_all(gallery), count, queries.places, gallery.places
        )
        return [[Neighbour(i, gallery.names[i], cosine) for i, cosine in row] for row in near]

    def _of_all(self, pictures: Pictures, patches: bool = False) -> np.ndarray:
        """Returns the features of pictures. Raises ConfigError if one is broken."""
        blocks = []
        for batch, features in self.steps(pictures, patches=patches):
            for index, why in batch.broken.items():
                raise ConfigError(
                    f"{pictures.names[index]}: {why}; cpc_tf.embed leaves such pictures out"
                )
            blocks.append(features)
        return np.concatenate(blocks)


def load_encoder(path: str | os.PathLike[str]) -> Encoder:
    """Loads an encoder that `pretrain` or `cpc-tf export` wrote, or another TF-Hub module of images.

    Args:
      path: directory of the module, or the name of one that comes with the code, such as 'imagenette_128px'.

    Raises:
      ConfigError: there is no such module.

    Example:

        >>> import cpc_tf
        >>> cpc_tf.load_encoder("imagenette_128px").card.geometry.image_size
        128
    """
    return Encoder(path)


def _compiled(
    encode: Callable[[tf.Tensor], tf.Tensor], side: int
) -> Callable[[tf.Tensor], tf.Tensor]:
    images = tf.TensorSpec([None, side, side, 3], tf.uint8)
    return tf.function(encode, input_signature=[images], autograph=False)


def nearest_others(
    queries: np.ndarray,
    features: np.ndarray,
    count: int,
    query_ids: Sequence[Any],
    ids: Sequence[Any],
) -> list[list[tuple[int, float]]]:
    """Returns (index, cosine) of the nearest features of each query, the query's own picture left out.

    The nearest comes first, among equals the first in the list. The mean of the features is subtracted before.

    Args:
      queries: float32 [Q, D].
      features: float32 [N, D].
      count: how many; fewer if there are not so many.
      query_ids, ids: of the pictures: equal ones are the same picture. [Q] and [N].
    """
    centre, rows = features.mean(0), []
    similarities = normalized(queries, centre) @ normalized(features, centre).T
    for query_id, cosines in zip(query_ids, similarities):
        order = (i for i in np.argsort(-cosines, kind="stable").tolist() if ids[i] != query_id)
        rows.append([(i, float(cosines[i])) for i in itertools.islice(order, count)])
    return rows


def repeats(
    features: np.ndarray,
    least: float,
    kinds: np.ndarray | None = None,
    compared: np.ndarray | None = None,
) -> list[tuple[int, int, float]]:
    """Returns (index, index of the most similar earlier one, cosine) where that is at least `least`, best first.

    Without all those in the first place, one of each group remains.

    Args:
      features: normalized, [N, D].
      least: cosine.
      kinds: of the rows, int [N], and
      compared: which kinds are compared, bool [K, K]; None: all.
    """
    pairs, block = [], min(_BLOCK, max(1, _MOST // max(len(features), 1)))
    for start in range(0, len(features), block):
        rows = features[start : start + block]
        similarity = rows @ features[: start + len(rows)].T  # [B, all up to the last of these]
        later = np.arange(start + len(rows)) >= start + np.arange(len(rows))[:, None]
        similarity[later] = -np.inf
        if kinds is not None and compared is not None:
            own, others = kinds[start : start + len(rows)], kinds[: start + len(rows)]
            similarity[~compared[own[:, None], others]] = -np.inf
        best = similarity.argmax(1)
        values = similarity[np.arange(len(rows)), best]
        pairs += [
            (start + int(i), int(best[i]), float(values[i]))
            for i in np.flatnonzero(values >= least)
        ]
    return sorted(pairs, key=lambda pair: -pair[2])


def farthest_first(features: np.ndarray, count: int, chosen: Sequence[int] = ()) -> list[int]:
    """Returns `count` indices, each farthest from those before it: few pictures that stand for all (Gonzalez 1985).

    Args:
      features: normalized, [N, D].
      count: how many, at most those that are there.
      chosen: indices that are chosen already, such as labelled pictures. None: the first is nearest to the mean.
    """
    distance = np.full(len(features), np.inf)  # squared, to the nearest chosen one

    def choose(index: int) -> None:
        np.minimum(distance, 2 - 2 * (features @ features[index]).astype(np.float64), out=distance)
        distance[index] = -np.inf

    for index in chosen:
        choose(index)
    indices: list[int] = []
    while len(indices) < min(count, len(features) - len(set(chosen))):
        if chosen or indices:
            indices.append(int(distance.argmax()))
        else:
            indices.append(int(np.linalg.norm(features - features.mean(0), axis=1).argmin()))
        choose(indices[-1])
    return indices
