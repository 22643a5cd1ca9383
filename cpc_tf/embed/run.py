"""From pictures to features, and to what features tell of them: a map, neighbours, repeats, what to label first."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from cpc_tf import pictures
from cpc_tf.data import labels
from cpc_tf.data import names as names_of
from cpc_tf.data.decode import IntensityRange
from cpc_tf.embed import outputs, similar
from cpc_tf.embed.config import EmbedConfig
from cpc_tf.embed.encoder import Encoder
from cpc_tf.evaluation.scores import normalized
from cpc_tf.files import write_file
from cpc_tf.pictures import Images, Pictures
from cpc_tf.progress import Progress
from cpc_tf.settings import ConfigError
from cpc_tf.texts import listed

_REPORT_EVERY = 5  # seconds
Tell = Callable[[str], None]


class Embedding(NamedTuple):
    """Features of pictures.

    Attributes:
      names: of the sound pictures, as `pictures.find` gives them.
      features: float32 [N, D], a row for each.
      broken: name -> why a picture could not be read.
      what: what the features are.
    """

    names: list[str]
    features: np.ndarray
    broken: dict[str, str]
    what: str


def main(config: EmbedConfig) -> None:
    """The command `cpc-tf embed`."""
    done = embed(config, functools.partial(print, file=sys.stderr, flush=True))
    print(f"done: {len(done.names)} pictures")


def embed(
    config: EmbedConfig, progress: Tell | None = None, encoder: Encoder | None = None, images: Images | None = None
) -> Embedding:
    """Encodes pictures and writes what the settings ask for.

    Args:
      config: the settings; without any output, nothing is written.
      progress: gets lines on what is being done and what came of it. None: nobody does.
      encoder: one that is open; None: that of the settings.
      images: pictures; None: those of the settings.

    Raises:
      ConfigError: the encoder, the pictures or the output cannot be used, or no picture is sound.
      NotWritten: an output cannot be written.
    """
    tell = progress or (lambda line: None)
    outputs.check(config)
    found = pictures.find(config.pictures if images is None else images)
    queries = pictures.find(config.neighbours, "neighbours") if config.neighbours else None
    labels = _labels(config.labels, found.names)
    encoder = encoder or Encoder(config.encoder, config.seed, config.image_size)
    tell(f"features: {encoder.what}")
    kept, features, broken = _encode(encoder, found, config.batch_size, tell)
    if not kept:
        raise ConfigError("pictures", config.pictures, f"none can be read: {outputs.reasons(broken)}")
    if broken:
        tell(f"{len(broken)} of {len(found)} pictures are left out: {outputs.reasons(broken)}")
    sound = found.take(kept)
    result = Embedding(sound.names, features, broken, encoder.what)
    if config.output:
        outputs.write_features(config.output, sound.names, features, broken, config.encoder, encoder.what)
        tell(f"{config.output}: {len(features):,} x {features.shape[1]:,} features")
    normal = normalized(features)
    if config.duplicates:
        tell(outputs.write_duplicates(config, sound.names, normal))
    if config.to_label:
        tell(outputs.write_to_label(config, sound.names, normal, labels))
    if config.map:
        write_file(config.map, outputs.draw_map(config, sound, features, labels))
        tell(f"{config.map}: a map of the pictures")
    if queries:
        tell(_write_neighbours(config, encoder, found.levels, sound, features, queries))
    return result


def _labels(path: str, names: list[str]) -> dict[str, tuple[str, ...]]:
    """Returns {picture: its classes} of those that have a class in a table."""
    if not path:
        return {}
    matched = labels.match(path, labels.read(path), names)
    if not matched.of:
        raise ConfigError(
            "labels", path, f"none of its files is a picture of --pictures, e.g. {listed(matched.absent)}"
        )
    known = {name: [text for text in own or () if not names_of.is_nothing(text)] for name, own in matched.of.items()}
    return {name: tuple(own) for name, own in known.items() if own or matched.of[name] == ()}


def _encode(
    encoder: Encoder, files: Pictures, batch_size: int, tell: Tell, levels: IntensityRange | None = None
) -> tuple[list[int], np.ndarray, dict[str, str]]:
    """Returns the indices of the sound pictures, their features float32 [N, D], and why others are broken."""
    kept, blocks, broken = [], [], {}
    progress, told = Progress(len(files)), time.monotonic()
    for batch, features in encoder.steps(files, batch_size, levels):
        kept += batch.indices.tolist()
        blocks += [features] if len(features) else []
        broken |= {files.names[index]: why for index, why in batch.broken.items()}
        progress.update(batch.stop)
        if progress.rate and time.monotonic() - told > _REPORT_EVERY:
            told = time.monotonic()
            tell(f"{progress}  {progress.rate:.1f} pictures/s")
    return kept, np.concatenate(blocks) if blocks else np.zeros([0, 0], np.float32), broken


def _write_neighbours(
    config: EmbedConfig,
    encoder: Encoder,
    levels: IntensityRange | None,
    files: Pictures,
    features: np.ndarray,
    queries: Pictures,
) -> str:
    """Draws --sheet, of pictures that are seen as `files` with these features are, and returns a line on it."""
    asked = queries.take(range(min(len(queries), outputs.QUERIES)))
    _, own, broken = _encode(encoder, asked, config.batch_size, lambda _: None, levels)
    if broken:
        raise ConfigError("neighbours", config.neighbours, f"cannot be read: {outputs.reasons(broken)}")
    centre = features.mean(0)
    sides = normalized(own, centre), normalized(features, centre)
    near = similar.nearest_others(*sides, outputs.NEAREST, asked.places, files.places)
    rows = [*zip(pictures.thumbnails(asked, outputs.SIDE), asked.names, near)]
    write_file(config.sheet, outputs.draw_neighbours(rows, files))
    first = f" (of the first {outputs.QUERIES} of {len(queries)})" if len(queries) > outputs.QUERIES else ""
    return f"{config.sheet}: the nearest pictures of {config.neighbours}{first}"
