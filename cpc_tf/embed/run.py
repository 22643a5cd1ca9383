"""From pictures to features, and to what features tell of them: a map, neighbours, repeats, what to label first."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Collection
from typing import NamedTuple

import numpy as np

from cpc_tf import pictures
from cpc_tf.data import labels
from cpc_tf.data import names as names_of
from cpc_tf.embed import outputs, similar
from cpc_tf.embed.config import EmbedConfig
from cpc_tf.embed.encoder import Encoder, open_encoder
from cpc_tf.evaluation.neighbours import normalized
from cpc_tf.files import write_file
from cpc_tf.pictures import Pictures
from cpc_tf.progress import Progress
from cpc_tf.results import map as embedding_map
from cpc_tf.settings import ConfigError
from cpc_tf.texts import listed

_THUMBNAIL = 64  # px
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


def embed(config: EmbedConfig, progress: Tell | None = None) -> Embedding:
    """Encodes the pictures and writes what the settings ask for.

    Args:
      config: the settings; without any output, nothing is written.
      progress: gets lines on what is being done and what came of it. None: nobody does.

    Raises:
      ConfigError: the encoder, the pictures or the output cannot be used, or no picture is sound.
      NotWritten: an output cannot be written.
    """
    tell = progress or (lambda line: None)
    outputs.check(config)
    found = pictures.find(config.pictures)
    queries = pictures.find(config.neighbours, "neighbours") if config.neighbours else None
    labels = _labels(config.labels, found.names)
    encoder = open_encoder(config.encoder, config.seed, config.image_size)
    encoder = encoder._replace(levels=encoder.levels or found.levels)  # of the queries, too
    tell(f"features: {encoder.what}")
    kept, features, broken = _encode(encoder, found, config.batch_size, tell)
    if not kept:
        raise ConfigError(f"--pictures={config.pictures}: none can be read: {outputs.reasons(broken)}")
    if broken:
        tell(f"{len(broken)} of {len(found)} pictures are left out: {outputs.reasons(broken)}")
    sound = found.take(kept)
    result = Embedding(sound.names, features, broken, encoder.what)
    if config.output:
        outputs.write_features(config.output, sound.names, features, broken, config.encoder, encoder.what)
        tell(f"{config.output}: {len(features):,} x {features.shape[1]:,} features")
    normal = normalized(features)
    if config.duplicates:
        tell(_write_duplicates(config, sound.names, normal))
    if config.to_label:
        tell(_write_to_label(config, sound.names, normal, labels))
    if config.map:
        write_file(config.map, _map(config, sound, features, labels))
        tell(f"{config.map}: a map of the pictures")
    if queries:
        _draw_neighbours(config, encoder, sound, features, queries)
        first = f" (of the first {outputs.QUERIES} of {len(queries)})" if len(queries) > outputs.QUERIES else ""
        tell(f"{config.sheet}: the nearest pictures of {config.neighbours}{first}")
    return result


def _labels(path: str, names: list[str]) -> dict[str, tuple[str, ...]]:
    """Returns {picture: its classes} of those that have a class in a table."""
    if not path:
        return {}
    matched = labels.match(path, labels.read(path), names)
    if not matched.of:
        raise ConfigError(
            f"--labels={path}: none of its files is a picture of --pictures, e.g. {listed(matched.absent)}"
        )
    known = {name: [text for text in own or () if not names_of.is_nothing(text)] for name, own in matched.of.items()}
    return {name: tuple(own) for name, own in known.items() if own or matched.of[name] == ()}


def _encode(
    encoder: Encoder, files: Pictures, batch_size: int, tell: Tell
) -> tuple[list[int], np.ndarray, dict[str, str]]:
    """Returns the indices of the sound pictures, their features float32 [N, D], and why others are broken."""
    kept, blocks, broken, deep = [], [], {}, 0
    progress, told = Progress(len(files)), time.monotonic()
    for batch, features in encoder.features(files, batch_size):
        kept += batch.indices.tolist()
        blocks += [features] if len(features) else []
        broken |= {files.names[index]: why for index, why in batch.broken.items()}
        deep += int(batch.deep.sum())
        progress.update(batch.stop)
        if progress.rate and time.monotonic() - told > _REPORT_EVERY:
            told = time.monotonic()
            tell(f"{progress}  {progress.rate:.1f} pictures/s")
    pictures.say_deep(deep, encoder.levels)
    return kept, np.concatenate(blocks) if blocks else np.zeros([0, 0], np.float32), broken


def _write_duplicates(config: EmbedConfig, names: list[str], normal: np.ndarray) -> str:
    """Writes --duplicates and returns a line on it; `normal` are normalized features."""
    pairs = similar.repeats(normal, config.duplicate_similarity)
    rows = [(names[i], names[j], f"{cosine:.4f}") for i, j, cosine in pairs]
    outputs.write_table(config.duplicates, ("file", "repeats", "similarity"), rows)
    least = f"a cosine similarity of at least {config.duplicate_similarity:g} of centred features"
    return f"{config.duplicates}: {len(pairs)} pictures repeat an earlier one ({least})"


def _write_to_label(config: EmbedConfig, names: list[str], normal: np.ndarray, labels: Collection[str]) -> str:
    """Writes --to_label_output and returns a line on it; `labels`: the pictures that have one."""
    known = [i for i, name in enumerate(names) if name in labels]
    chosen = similar.farthest_first(normal, config.to_label, known)
    outputs.write_table(config.to_label_output, outputs.LABEL_COLUMNS, [(names[i], "") for i in chosen])
    beside = f", beside the {len(known)} that have a label" if known else ""
    return f"{config.to_label_output}: {len(chosen)} pictures to label first{beside}"


def _map(config: EmbedConfig, files: Pictures, features: np.ndarray, labels: dict[str, tuple[str, ...]]) -> bytes:
    """Draws evenly spaced pictures, `embedding_map.MOST` of them at most."""
    shown = np.arange(0, len(features), -(-len(features) // embedding_map.MOST))
    files = files.take(shown)
    own = [labels.get(name, ()) for name in files.names]
    names = sorted({classes[0] for classes in own if classes})  # of several labels the first has the colour
    numbers = [names.index(classes[0]) if classes else -1 for classes in own] if names else None
    tiles = pictures.thumbnails(files, _THUMBNAIL)
    return embedding_map.draw(features[shown], tiles, numbers, names, config.map_method, config.seed)


def _draw_neighbours(
    config: EmbedConfig, encoder: Encoder, files: Pictures, features: np.ndarray, queries: Pictures
) -> None:
    queries = queries.take(range(min(len(queries), outputs.QUERIES)))
    _, own, broken = _encode(encoder, queries, config.batch_size, lambda _: None)
    if broken:
        raise ConfigError(f"--neighbours={config.neighbours}: cannot be read: {outputs.reasons(broken)}")
    centre = features.mean(0)
    sides = normalized(own, centre), normalized(features, centre)
    near = similar.nearest_others(*sides, outputs.NEAREST, queries.places, files.places)
    rows = [*zip(pictures.thumbnails(queries, outputs.SIDE), queries.names, near)]
    write_file(config.sheet, outputs.draw_neighbours(rows, files))
