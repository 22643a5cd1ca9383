"""`csv:PATH`: images and tables with a line for each box, as of TensorFlow's Object Detection API
and of Roboflow.
"""

from __future__ import annotations

import csv
import io
import os
from typing import Any

import numpy as np
import tensorflow as tf

from cpc_tf.boxes import coco, geometry, layout
from cpc_tf.boxes.layout import Annotated, Format
from cpc_tf.core.files import reason
from cpc_tf.core.settings import ConfigError
from cpc_tf.data.config import DataConfig

FORMAT = Format(
    name="a table",
    known=(
        "known are CSV files with the columns filename,width,height,class,xmin,ymin,xmax,ymax, one"
        " for each split, beside or above the images; and csv:FILE.csv"
    ),
    annotated="is in a table",
    incomplete="no class or no four numbers",
    mistaken="xmin,ymin,xmax,ymax are two corners in pixels of the image itself",
    in_pixels=True,
    negatives=True,
    place=lambda boxes, size: geometry.clipped(boxes.astype(np.float32), size),
)


def read(data: DataConfig) -> Annotated:
    """Returns the images and annotations of --dataset=csv:PATH, a folder or a table.

    Each table is a split, called as its file without `_labels`, or as a folder that it lies in. The
    columns width and height may be absent. A line with the name of an image alone says that it has
    no objects.

    Raises:
      ConfigError: as `coco.assembled`, or a table cannot be read.
    """
    root, files = coco.files_of(data, ".csv")
    delimiters = {file: layout.delimiter_of(f"{root}/{file}") for file in files}
    contents = {
        file: _content(f"{root}/{file}", delimiter)
        for file, delimiter in delimiters.items()
        if delimiter
    }
    return coco.assembled(data, FORMAT, root, contents, "CSV files")


def _content(path: str, delimiter: str) -> dict[str, list[dict[str, Any]]]:
    """Returns a table as the content of one of COCO's JSON files; files and classes are their own
    ids there.
    """
    try:
        with tf.io.gfile.GFile(os.path.expanduser(path), "rb") as file:
            text = file.read().decode("utf-8-sig")
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        stripped = [[*map(str.strip, row)] for row in reader]
        titles, *rows = filter(any, stripped)
    except (UnicodeDecodeError, csv.Error, tf.errors.OpError) as error:
        raise ConfigError(f"{path}: cannot be read as CSV in UTF-8: {reason(error)}") from error
    images: dict[str, dict[str, Any]] = {}
    boxes = []
    for row in rows:
        cells = dict(zip(map(str.lower, titles), row))
        name = cells.get("filename", "")
        label = cells.get("class", "")
        size = {side: _number(cells.get(side, "")) for side in ("width", "height")}
        images.setdefault(name, {"id": name, "file_name": name, **size})
        x1, y1, x2, y2 = corners = [_number(cells.get(corner, "")) for corner in layout.CORNERS]
        if label or any(corner is not None for corner in corners):
            bbox = None if None in corners else [x1, y1, x2 - x1, y2 - y1]
            boxes.append({"image_id": name, "category_id": label, "bbox": bbox})
    classes = sorted({box["category_id"] for box in boxes} - {""})
    categories = [{"id": name, "name": name} for name in classes]
    return {"images": [*images.values()], "annotations": boxes, "categories": categories}


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
