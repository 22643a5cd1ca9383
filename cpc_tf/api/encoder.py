"""An encoder for Python: features of pictures, and which pictures are near each other."""

from __future__ import annotations

import hashlib
import os
from typing import Any, NamedTuple

import numpy as np

from cpc_tf import pictures as files
from cpc_tf.api.calls import settings_of, tell
from cpc_tf.api.images import Images, as_flag
from cpc_tf.embed import encoder as embedder
from cpc_tf.embed import run, similar
from cpc_tf.embed.config import EmbedConfig
from cpc_tf.encoders.card import EncoderCard, find_card
from cpc_tf.evaluation.scores import normalized
from cpc_tf.settings import ConfigError

_BATCH = 64  # pictures


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
      path: directory of a module that `cpc-tf export` wrote, or of another TF-Hub module of images.

    Attributes:
      path: the directory.
      card: the content of encoder.json: geometry and training; None for a third-party module.

    Raises:
      ConfigError: there is no such module.
    """

    def __init__(self, path: str | os.PathLike[str]):
        self.path = os.path.expanduser(os.fspath(path))
        self.card: EncoderCard | None = find_card(self.path)
        self._encoder = embedder.open_encoder(self.path)

    def __repr__(self) -> str:
        return f"Encoder({self.path!r}): {self._encoder.what}"

    def features(self, pictures: Images) -> np.ndarray:
        """Returns one vector a picture: the mean of the features of its patches.

        Of a third-party module it is the output for the whole picture.

        Returns:
          float32 [N, D].

        Raises:
          ConfigError: there is no such file, or a picture cannot be read.

        Example:

            >>> import cpc_tf, numpy as np
            >>> encoder = cpc_tf.load_encoder("modules/imagenette_128px")
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
        return self._encoded(pictures, self._encoder)[1]

    def patches(self, pictures: Images) -> np.ndarray:
        """Returns the features of each patch of the grid that is laid on a picture; an example is at `features`.

        Returns:
          float32 [N, R, C, D], R from top to bottom, C from left to right.

        Raises:
          ConfigError: as `features`, or it is a third-party module, which has no patches.
        """
        if self._encoder.latents is None:
            raise ConfigError(f"{self.path}: a third-party module, which has no patches; features() has its output")
        return self._encoded(pictures, self._encoder._replace(encode=self._encoder.latents))[1]

    def neighbours(self, query: Images, pictures: Images, count: int = 5) -> list[list[Neighbour]]:
        """Returns, for each picture of a query, the most similar other ones, the nearest first; see `features`.

        The picture itself is left out: the same file, or an array with the same pixels.

        Args:
          query: one or several pictures.
          pictures: those to search.
          count: how many neighbours; fewer if there are fewer pictures.

        Raises:
          ConfigError: as `features`.
        """
        names, gallery, known = self._encoded(pictures, self._encoder)
        _, queries, asked = self._encoded(query, self._encoder)
        centre = gallery.mean(0)
        near = similar.nearest_others(normalized(queries, centre), normalized(gallery, centre), count, asked, known)
        return [[Neighbour(i, names[i], cosine) for i, cosine in row] for row in near]

    def _encoded(self, pictures: Images, encoder: embedder.Encoder) -> tuple[list[str], np.ndarray, list[bytes]]:
        """Returns the names of the pictures, what the encoder makes of them, and what tells them apart."""
        with as_flag(pictures) as flag:
            found, blocks, deep = files.find(flag), [], 0
            for batch, features in encoder.features(found, _BATCH):
                for index, why in batch.broken.items():
                    raise ConfigError(f"{found.names[index]}: {why}; cpc_tf.embed leaves such pictures out")
                blocks.append(features)
                deep += int(batch.deep.sum())
            are_arrays = os.path.isdir(flag) and not isinstance(pictures, (str, os.PathLike))
            known = [_digest(path) for path in found.paths] if are_arrays else found.places
        files.say_deep(deep, encoder.levels or found.levels)
        return found.names, np.concatenate(blocks), known


def _digest(path: bytes) -> bytes:
    """What arrays are known by, which are files without loss for a moment."""
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).digest()


def load_encoder(path: str | os.PathLike[str]) -> Encoder:
    """Loads an encoder that `pretrain` or `cpc-tf export` wrote, or another TF-Hub module of images.

    Args:
      path: directory of the module.

    Raises:
      ConfigError: there is no such module.

    Example:

        >>> import cpc_tf
        >>> cpc_tf.load_encoder("modules/imagenette_128px").card.geometry.image_size
        128
    """
    return Encoder(path)


def embed(
    encoder: Encoder | str | os.PathLike[str], pictures: Images, *, verbose: bool = False, **settings: Any
) -> run.Embedding:
    """Encodes pictures, and writes what `cpc-tf embed` can: features, a map, near duplicates, what to label first.

    Args:
      encoder: as loaded, or directory of its module.
      pictures: as `Encoder` takes them.
      verbose: whether to print progress to stderr.
      **settings: any setting of `cpc-tf embed --help`, such as `output="features.npz"` or `map="map.png"`.

    Returns:
      `names` of the pictures, `features` float32 [N, D], `broken` {name: reason} of those that cannot be read, and
      `what` the features are.

    Raises:
      ConfigError: a setting cannot work, or no picture can be read.
      NotWritten: an output cannot be written.

    Example:

        >>> import cpc_tf
        >>> found = cpc_tf.embed("modules/imagenette_128px", "my_pictures", to_label=4)
        >>> found.names[:2], found.features.shape
        (['blue/0.png', 'blue/1.png'], (24, 1024))
        >>> open("to_label.csv").read().count(".png")
        4
    """
    path = encoder.path if isinstance(encoder, Encoder) else encoder
    with as_flag(pictures) as flag:
        config = settings_of(EmbedConfig, None, {"encoder": path, "pictures": flag, **settings})
        return run.embed(config, tell(verbose))
