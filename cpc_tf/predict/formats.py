"""Records as CSV, JSON lines, COCO's JSON and VOC's XML."""

from __future__ import annotations

import os
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence

from cpc_tf.files import to_json, write_file
from cpc_tf.predict.coco_ids import Ids
from cpc_tf.predict.config import COCO, JSON_LINES
from cpc_tf.predict.models import BEST, Model
from cpc_tf.predict.records import Detected, Record, to_line
from cpc_tf.settings import ConfigError
from cpc_tf.texts import csv_lines, escaped


def write(path: str, form: str, records: Sequence[Record], model: Model, ids: Ids | None) -> None:
    """Writes all records in a format of `PredictConfig.format`; COCO's needs `ids`. Raises NotWritten."""
    if form == JSON_LINES:
        write_file(path, "".join(map(to_line, records)))
    elif form == COCO:
        write_file(path, coco(records, ids))
    elif form:
        write_file(path, csv_lines([columns(model), *(row for record in records for row in rows(record, model))]))
    else:
        for record in records:
            if not record.error:
                write_file(place(path, record.file, ".xml"), voc(record))


def columns(model: Model) -> list[str]:
    """Returns the head of a CSV file."""
    if model.is_detector:
        return ["file", "label", "score", "ymin", "xmin", "ymax", "xmax", "error"]
    best = 1 if model.several_labels else BEST
    numbered = (f"{name}_{i}" if i > 1 else name for i in range(1, best + 1) for name in ("label", "probability"))
    return ["file", *numbered, "error"]


def rows(record: Record, model: Model) -> Iterator[list[str]]:
    """Yields the rows of a record: one of a classifier, one for each box of a detector and at least one."""
    if isinstance(record, Detected):
        for label, score, *corners in record.boxes:
            yield [record.file, label, f"{score:.4f}", *(f"{x:.1f}" for x in corners), ""]
        if not record.boxes:
            yield [record.file, *[""] * 6, record.error]
        return
    if model.several_labels:
        cells = [";".join(record.labels), ";".join(f"{x:.4f}" for x in record.probabilities)]
    else:
        best = zip(record.labels, (f"{x:.4f}" for x in record.probabilities))
        cells = [cell for pair in best for cell in pair]
    yield [record.file, *cells, *[""] * (len(columns(model)) - 2 - len(cells)), record.error]


def coco(records: Sequence[Detected], ids: Ids) -> str:
    """Returns COCO's JSON: images, categories, and boxes as annotations with a score, which count from 1.

    `pycocotools.coco.COCO(file)` reads it; `loadRes` of the true boxes takes the annotations, if the ids are theirs.

    Args:
      records: of all pictures.
      ids: of these pictures and of the classes.
    """
    images, annotations = [], []
    for number, record in zip(ids.images, records):
        if record.error:
            continue
        images.append({"id": number, "file_name": record.file, "height": record.height, "width": record.width})
        for label, score, ymin, xmin, ymax, xmax in record.boxes:
            box = [xmin, ymin, xmax - xmin, ymax - ymin]
            known = {"id": len(annotations) + 1, "image_id": number, "category_id": ids.categories[label], "iscrowd": 0}
            annotations.append({**known, "bbox": box, "area": box[2] * box[3], "score": score})
    categories = [{"id": number, "name": name} for name, number in ids.categories.items()]
    return to_json({"images": images, "categories": categories, "annotations": annotations})


def voc(record: Detected) -> str:
    """Returns VOC's XML of a picture: its pixels count from 1, the last one belongs to a box.

    Many readers take whole numbers only, and the elements of an object by their places: the score comes last.
    """
    root = ET.Element("annotation")
    ET.SubElement(root, "filename").text = escaped(os.path.basename(record.file))
    size = ET.SubElement(root, "size")
    for name, value in {"width": record.width, "height": record.height, "depth": 3}.items():
        ET.SubElement(size, name).text = str(value)
    for label, score, ymin, xmin, ymax, xmax in record.boxes:
        thing = ET.SubElement(root, "object")
        for name, text in {"name": escaped(label), "pose": "Unspecified", "truncated": "0", "difficult": "0"}.items():
            ET.SubElement(thing, name).text = text
        (left, right), (top, bottom) = _pixels(xmin, xmax, record.width), _pixels(ymin, ymax, record.height)
        box = ET.SubElement(thing, "bndbox")
        for name, value in {"xmin": left, "ymin": top, "xmax": right, "ymax": bottom}.items():
            ET.SubElement(box, name).text = str(value)
        ET.SubElement(thing, "score").text = f"{score:.4f}"
    ET.indent(root)
    return ET.tostring(root, encoding="unicode") + "\n"


def _pixels(low: float, high: float, side: int) -> tuple[int, int]:
    """Returns the first and the last pixel, from 1, between two edges; two different ones, or readers see no area."""
    first = max(1, min(round(low) + 1, side - 1))
    return first, max(first + 1, min(round(high), side))


def place(folder: str, name: str, ending: str) -> str:
    """Returns where a file about the picture `name` goes below a folder: at the same place, with another ending."""
    parts = [part for part in name.split("/") if part not in ("", ".", "..")]
    return os.path.join(folder, os.path.splitext("/".join(parts))[0] + ending)


def check_places(names: Sequence[str], flag: str) -> None:
    """Raises ConfigError if two pictures would have the same place below a folder."""
    places: dict[str, str] = {}
    for name in names:
        other = places.setdefault(place("", name, ""), name)
        if other != name:
            raise ConfigError(f"--{flag}: {other} and {name} differ in their endings only; rename one of them")
