"""The files that `embed` writes: features, tables, the map, the sheet of neighbours."""

from __future__ import annotations

import csv
import io
import itertools
import os
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
import tensorflow as tf
from matplotlib.figure import Figure

from cpc_tf import pictures
from cpc_tf.drawing import map as embedding_map
from cpc_tf.drawing import plots
from cpc_tf.embed import similar
from cpc_tf.embed.config import CSV, NPZ, PARQUET, EmbedConfig
from cpc_tf.files import read_text, reason, write_file
from cpc_tf.pictures import Pictures
from cpc_tf.settings import ConfigError
from cpc_tf.texts import csv_lines, listed

QUERIES, NEAREST, SIDE = 20, 8, 128  # rows, neighbours and px of a picture on the sheet
LABEL_COLUMNS = ("file", "label")
_LETTERS = 18  # of a name on it, as wide as its picture
_THUMBNAIL = 64  # px of a picture on the map


def check(config: EmbedConfig) -> None:
    """Raises ConfigError if an output cannot be written, before anything is computed."""
    if config.output.lower().endswith(PARQUET):
        try:
            import pyarrow.parquet  # noqa: F401 one that was built for another NumPy is found, but fails here
        except ImportError as error:
            raise ConfigError(
                f"--output={config.output}: Parquet needs the package pyarrow (pip install pyarrow): {reason(error)}; "
                f"{NPZ} and {CSV} do not"
            ) from error
    if config.to_label and _is_filled_in(config.to_label_output):
        raise ConfigError(
            f"--to_label_output={config.to_label_output}: is there, and not an empty table; choose another name "
            "(and name this one by --labels if it has labels)"
        )


def _is_filled_in(path: str) -> bool:
    """Returns whether a file is something else than a table of ours without a label."""
    if not tf.io.gfile.exists(path):
        return False
    head, *rows = list(csv.reader(read_text(path).splitlines())) or [[]]
    return head != list(LABEL_COLUMNS) or any(row[1:] != [""] for row in rows)


def write_features(
    path: str, names: Sequence[str], features: np.ndarray, broken: Mapping[str, str], encoder: str, what: str
) -> None:
    """Writes features [N, D] with the names of their files, in the format that the ending of `path` says."""
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
        pq.write_table(pa.table({"file": pa.array(names), "features": rows}, metadata=about), buffer)
    else:
        columns = ("file", *(f"feature_{i}" for i in range(features.shape[1])))
        write_table(path, columns, ((name, *map("{:.6g}".format, row)) for name, row in zip(names, features)))
        return
    write_file(path, buffer.getvalue())


def write_table(path: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Writes a CSV file."""
    write_file(path, csv_lines(itertools.chain([columns], rows)))


def write_duplicates(config: EmbedConfig, names: list[str], normal: np.ndarray) -> str:
    """Writes --duplicates and returns a line on it; `normal` are normalized features."""
    pairs = similar.repeats(normal, config.duplicate_similarity)
    rows = [(names[i], names[j], f"{cosine:.4f}") for i, j, cosine in pairs]
    write_table(config.duplicates, ("file", "repeats", "similarity"), rows)
    least = f"a cosine similarity of at least {config.duplicate_similarity:g} of centred features"
    return f"{config.duplicates}: {len(pairs)} pictures repeat an earlier one ({least})"


def write_to_label(config: EmbedConfig, names: list[str], normal: np.ndarray, labels: Collection[str]) -> str:
    """Writes --to_label_output and returns a line on it; `labels`: the pictures that have one."""
    known = [i for i, name in enumerate(names) if name in labels]
    chosen = similar.farthest_first(normal, config.to_label, known)
    write_table(config.to_label_output, LABEL_COLUMNS, [(names[i], "") for i in chosen])
    beside = f", beside the {len(known)} that have a label" if known else ""
    return f"{config.to_label_output}: {len(chosen)} pictures to label first{beside}"


def draw_map(config: EmbedConfig, files: Pictures, features: np.ndarray, labels: dict[str, tuple[str, ...]]) -> bytes:
    """Draws evenly spaced pictures, `embedding_map.MOST` of them at most."""
    shown = np.arange(0, len(features), -(-len(features) // embedding_map.MOST))
    files = files.take(shown)
    own = [labels.get(name, ()) for name in files.names]
    names = sorted({classes[0] for classes in own if classes})  # of several labels the first has the colour
    numbers = [names.index(classes[0]) if classes else -1 for classes in own] if names else None
    tiles = pictures.thumbnails(files, _THUMBNAIL)
    return embedding_map.draw(features[shown], tiles, numbers, names, config.map_method, config.seed)


def reasons(broken: Mapping[str, str]) -> str:
    """Returns the first broken pictures with their reasons, on a line."""
    return listed([f"{name} ({why})" for name, why in broken.items()])


def draw_neighbours(rows: Sequence[tuple[np.ndarray, str, Sequence[tuple[int, float]]]], files: Pictures) -> bytes:
    """Returns a PNG with a query a row, then its neighbours with their cosines.

    Args:
      rows: image uint8 [S, S, 3] and name of a query, and (index, cosine) of its neighbours.
      files: what the indices are of.
    """

    paths = list(dict.fromkeys([*(row[1] for row in rows), *(files.names[i] for row in rows for i, _ in row[2])]))
    drawable = plots.drawable(tuple(map(os.path.basename, paths)), "picture")
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
        canvas.suptitle("Framed: the pictures asked for. Then the nearest, with their cosine similarity.", fontsize=10)

    return plots.png(fill, 1.6 * (1 + NEAREST), 1.9 * len(rows) + 0.4, dpi=100)
