"""`cpc-tf embed`: from images to features, and to a map, neighbours, near duplicates and images to
label first.
"""

from __future__ import annotations

import csv
import functools
import io
import itertools
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from matplotlib.figure import Figure

from cpc_tf.core.files import read_text, reason, write_file
from cpc_tf.core.progress import Progress, waiting_for
from cpc_tf.core.settings import ConfigError
from cpc_tf.core.texts import csv_lines, listed
from cpc_tf.data import labels, pictures
from cpc_tf.data.decode import IntensityRange
from cpc_tf.data.names import is_nothing
from cpc_tf.data.pictures import Images, Pictures
from cpc_tf.drawing import map as embedding_map
from cpc_tf.drawing import plots
from cpc_tf.encoders import feature_cache
from cpc_tf.encoders.features import Encoder
from cpc_tf.encoders.side_by_side import open_encoder
from cpc_tf.evaluation.neighbours import farthest_first, nearest_others, normalized, repeats
from cpc_tf.use.embed_config import CSV, NPZ, PARQUET, EmbedConfig

# rows, neighbours and px of an image on the sheet of neighbours
QUERIES = 20
NEAREST = 8
SIDE = 128
LABEL_COLUMNS = ("file", "label")
_LETTERS = 18  # of a name on the sheet, as wide as its image
_THUMBNAIL = 64  # px of an image on the map
Tell = Callable[[str], None]


class Embedding(NamedTuple):
    """Features of images.

    Attributes:
      names: of the images that could be read, see `pictures.find`.
      features: float32 [N, D], a row for each.
      broken: name -> why an image could not be read.
      what: a description of the features.
    """

    names: list[str]
    features: np.ndarray
    broken: dict[str, str]
    what: str


def main(config: EmbedConfig) -> None:
    """The command `cpc-tf embed`."""
    done = embed(config, functools.partial(print, file=sys.stderr, flush=True))
    print(f"done: {len(done.names)} images")


def embed(
    config: EmbedConfig,
    progress: Tell | None = None,
    encoder: Encoder | None = None,
    images: Images | None = None,
) -> Embedding:
    """Encodes images and writes what the settings ask for.

    Args:
      config: the settings; without any output, nothing is written.
      progress: gets lines on what is done and its results; None: no one does.
      encoder: an open encoder; None: that of the settings.
      images: images; None: those of the settings.

    Raises:
      ConfigError: the encoder, the images or the output cannot be used, or no image can be read.
      NotWritten: an output cannot be written.
    """
    tell = progress or (lambda line: None)
    check(config)
    files = pictures.find(config.pictures if images is None else images)
    queries = pictures.find(config.neighbours, "neighbours") if config.neighbours else None
    classes = _classes(config.labels, files.names, config.pictures) if config.labels else {}
    encoder = encoder or open_encoder(config.encoder, config.seed, config.image_size)
    tell(f"features: {encoder.what}")
    root = _folder(config, images)
    indices, features, broken = _encode(encoder, files, root, config.batch_size)
    if not indices:
        raise ConfigError("pictures", config.pictures, f"none can be read: {_reasons(broken)}")
    if broken:
        tell(f"{len(broken)} of {len(files)} images are left out: {_reasons(broken)}")
    all_files = files
    files = files.take(indices)
    if config.output:
        write_features(config.output, files.names, features, broken, config.encoder, encoder.what)
        tell(f"{config.output}: {len(features):,} x {features.shape[1]:,} features")
    similar = encoder.comparable(features, features)
    normal = normalized(similar)
    if config.duplicates:
        pairs = repeats(normal, config.duplicate_similarity)
        rows = [(files.names[i], files.names[j], f"{cosine:.4f}") for i, j, cosine in pairs]
        write_table(config.duplicates, ("file", "repeats", "similarity"), rows)
        least = (
            f"a cosine similarity of at least {config.duplicate_similarity:g} of centred features"
        )
        tell(f"{config.duplicates}: {len(pairs)} images repeat an earlier one ({least})")
    if config.to_label:
        labelled = [i for i, name in enumerate(files.names) if name in classes]
        to_label = farthest_first(normal, config.to_label, labelled)
        write_table(config.to_label_output, LABEL_COLUMNS, [(files.names[i], "") for i in to_label])
        beside = f", beside the {len(labelled)} that have a label" if labelled else ""
        tell(f"{config.to_label_output}: {len(to_label)} images to label first{beside}")
    if config.map:
        write_file(config.map, draw_map(config, files, similar, classes))
        tell(f"{config.map}: a map of the images")
    if queries:
        first = queries.take(range(min(len(queries), QUERIES)))
        intensity_range = all_files.intensity_range
        _, asked, unread = _encode(encoder, first, "", config.batch_size, intensity_range)
        if unread:
            raise ConfigError(
                "neighbours", config.neighbours, f"cannot be read: {_reasons(unread)}"
            )
        near = nearest_others(
            encoder.comparable(asked, features), similar, NEAREST, first.places, files.places
        )
        write_file(
            config.sheet,
            draw_neighbours([*zip(pictures.thumbnails(first, SIDE), first.names, near)], files),
        )
        part = f" (of the first {QUERIES} of {len(queries)})" if len(queries) > QUERIES else ""
        tell(f"{config.sheet}: the nearest images of {config.neighbours}{part}")
    return Embedding(files.names, features, broken, encoder.what)


def check(config: EmbedConfig) -> None:
    """Raises ConfigError if an output cannot be written, before anything is computed."""
    if config.output.lower().endswith(PARQUET):
        try:
            import pyarrow.parquet  # noqa: F401 one that was built for another NumPy is found, but fails here
        except ImportError as error:
            raise ConfigError(
                "output",
                config.output,
                f"Parquet needs the package pyarrow (pip install pyarrow): {reason(error)}; {NPZ}"
                f" and {CSV} do not",
            ) from error
    if config.to_label and tf.io.gfile.exists(config.to_label_output):
        head, *rows = list(csv.reader(read_text(config.to_label_output).splitlines())) or [[]]
        if head != list(LABEL_COLUMNS) or any(row[1:] != [""] for row in rows):
            raise ConfigError(
                "to_label_output",
                config.to_label_output,
                "exists, and is not an empty table; choose another name (and give this one as"
                " --labels if it has labels)",
            )


def _classes(path: str, names: list[str], pictures: str) -> dict[str, tuple[str, ...]]:
    """Returns {picture: its classes} of those that have a class in a table of --labels."""
    folder = os.path.expanduser(pictures).rstrip("/")
    matched = labels.match(path, labels.read(path), names, folder if os.path.isdir(folder) else "")
    if not matched.classes:
        raise ConfigError(
            "labels",
            path,
            f"none of its files is an image of --pictures, e.g. {listed(matched.absent)}",
        )
    classes = {
        name: tuple(text for text in row or () if not is_nothing(text))
        for name, row in matched.classes.items()
    }
    return {name: texts for name, texts in classes.items() if texts or matched.classes[name] == ()}


def _encode(
    encoder: Encoder,
    files: Pictures,
    root: str,
    batch_size: int,
    intensity_range: IntensityRange | None = None,
) -> tuple[list[int], np.ndarray, dict[str, str]]:
    """Returns the indices of the images that can be read, their features float32 [N, D], and why
    others cannot.

    Args:
      encoder: whose features.
      files: the images.
      root: their folder, whose features are kept in the cache; '': they are in no folder.
      batch_size: images encoded at a time.
      intensity_range: of images of more than 8 bits if the encoder has none; None: their own.
    """
    values_range = encoder.intensity_range or intensity_range or files.intensity_range
    if root:
        cached = feature_cache.encoded(encoder, root, files.paths, values_range, batch_size)
        broken = {files.names[i]: why for i, why in cached.broken.items()}
        return cached.sound, cached.features[cached.rows], broken

    indices = []
    blocks = []
    broken = {}
    progress = Progress(len(files))
    with waiting_for("encoding images", progress):
        for batch, features in encoder.steps(files, batch_size, values_range):
            indices += batch.indices.tolist()
            blocks += [features] if len(features) else []
            broken |= {files.names[index]: why for index, why in batch.broken.items()}
            progress.update(batch.stop)
    return indices, np.concatenate(blocks) if blocks else np.zeros([0, 0], np.float32), broken


def _folder(config: EmbedConfig, images: Images | None) -> str:
    """Returns the folder of images on a disk that the settings name; '' for a list of files and for
    arrays.
    """
    path = os.path.expanduser(config.pictures)
    return path.rstrip("/") or "/" if images is None and os.path.isdir(path) else ""


def _reasons(broken: Mapping[str, str]) -> str:
    """Returns the first broken images with their reasons, on a line."""
    return listed([f"{name} ({why})" for name, why in broken.items()])


def write_features(
    path: str,
    names: Sequence[str],
    features: np.ndarray,
    broken: Mapping[str, str],
    encoder: str,
    what: str,
) -> None:
    """Writes features [N, D] with the names of their files, in the format that the ending of `path`
    says.
    """
    buffer = io.BytesIO()
    if path.lower().endswith(NPZ):
        texts = {"names": names, "broken": [*broken], "reasons": [*broken.values()]}
        arrays = {name: np.array(values, np.str_) for name, values in texts.items()}
        np.savez(buffer, features=features, **arrays, encoder=np.str_(encoder), what=np.str_(what))
    elif path.lower().endswith(PARQUET):
        import pyarrow as pa
        import pyarrow.parquet as pq

        rows = pa.FixedSizeListArray.from_arrays(pa.array(features.ravel()), features.shape[1])
        about = {"encoder": encoder, "what": what}
        pq.write_table(
            pa.table({"file": pa.array(names), "features": rows}, metadata=about), buffer
        )
    else:
        columns = ("file", *(f"feature_{i}" for i in range(features.shape[1])))
        write_table(
            path,
            columns,
            ((name, *map("{:.6g}".format, row)) for name, row in zip(names, features)),
        )
        return
    write_file(path, buffer.getvalue())


def write_table(path: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Writes a CSV file."""
    write_file(path, csv_lines(itertools.chain([columns], rows)))


def draw_map(
    config: EmbedConfig, files: Pictures, features: np.ndarray, classes: dict[str, tuple[str, ...]]
) -> bytes:
    """Returns a PNG with a map of evenly spaced images, in the colours of their classes."""
    indices = np.arange(0, len(features), -(-len(features) // embedding_map.MOST))
    files = files.take(indices)
    # of several classes the first
    firsts = [next(iter(classes.get(name, ())), None) for name in files.names]
    class_names = sorted({name for name in firsts if name is not None})
    numbers = None
    if class_names:
        number_of = {name: number for number, name in enumerate(class_names)}
        numbers = [number_of.get(name, -1) for name in firsts]
    tiles = pictures.thumbnails(files, _THUMBNAIL)
    return embedding_map.draw(
        features[indices], tiles, numbers, class_names, config.map_method, config.seed
    )


def draw_neighbours(
    rows: Sequence[tuple[np.ndarray, str, Sequence[tuple[int, float]]]], files: Pictures
) -> bytes:
    """Returns a PNG with a query a row, then its neighbours with their cosines.

    Args:
      rows: image uint8 [S, S, 3] and name of a query, and (index, cosine) of its neighbours.
      files: what the indices are of.
    """

    paths = [row[1] for row in rows]
    for _, _, near in rows:
        paths += [files.names[i] for i, _ in near]
    paths = [*dict.fromkeys(paths)]
    drawable = plots.drawable(tuple(map(os.path.basename, paths)), "image")
    named = dict(zip(paths, plots.shortened(drawable, _LETTERS, ends=True)))

    def fill(canvas: Figure, theme: plots.Theme) -> None:
        axes = canvas.subplots(len(rows), 1 + NEAREST, squeeze=False)
        for line, (image, name, near) in zip(axes, rows):
            plots.tile(line[0], image, named[name], frame=theme.named["cpc"])
            tiles = pictures.thumbnails(files.take([index for index, _ in near]), SIDE)
            for axis, tile, (index, cosine) in zip(line[1:], tiles, near):
                plots.tile(axis, tile, f"{cosine:.2f}\n{named[files.names[index]]}")
            for axis in line[1 + len(near) :]:
                axis.set_visible(False)
        canvas.suptitle(
            "Framed: the images asked for. Then the nearest, with their cosine similarity.",
            fontsize=10,
        )

    return plots.png(fill, 1.6 * (1 + NEAREST), 1.9 * len(rows) + 0.4, dpi=100)
