"""The outputs of `cpc-tf predict`: a file that grows, standard output, COCO's JSON with its ids,
VOC's XML, YOLO.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import json
import os
import sys
import unicodedata
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, NamedTuple

import tensorflow as tf
import yaml

from cpc_tf.core.files import NotWritten, read_json, reason, to_json, write_file, writing
from cpc_tf.core.locks import lock
from cpc_tf.core.settings import ConfigError, Stopped
from cpc_tf.core.termination import Interrupted
from cpc_tf.core.texts import STDOUT, csv_lines, escaped, listed, name_lines
from cpc_tf.use.model import BEST, Detected, Model, Record
from cpc_tf.use.predict_config import COCO, CSV, JSON_LINES, VOC, YOLO_SCORES, PredictConfig

PART = ".part"  # ending of an output that still grows


def check(config: PredictConfig, model: Model, names: Sequence[str]) -> None:
    """Raises ConfigError if the outputs of the settings do not go with the model or with the names
    of the images.
    """
    if not model.is_detector:
        if config.drawn:
            raise ConfigError(
                f"--drawn={config.drawn}: a classifier finds no boxes; --sheet draws its"
                " predictions"
            )
        if config.output and config.format in (COCO, ""):
            raise ConfigError(
                f"--output={config.output}: a classifier finds no boxes; choose a file that ends"
                " with .csv or .jsonl"
            )
    if config.drawn or (config.output and not config.format):
        places: dict[str, str] = {}
        for name in names:
            other = places.setdefault(place("", name, ""), name)
            if other != name:
                flag = "drawn" if config.drawn else "output"
                raise ConfigError(
                    f"--{flag}: {other} and {name} differ in their endings only; rename one of them"
                )


def check_new(output: str) -> None:
    """Raises ConfigError if an --output is there already; NotWritten if it cannot be seen."""
    if output in ("", STDOUT):
        return
    with writing(output):
        if tf.io.gfile.isdir(output):
            raise ConfigError(
                f"--output={output}: is an existing folder; name a new file, such as"
                " predictions.csv, or a new folder"
            )
        if tf.io.gfile.exists(output):
            raise ConfigError(
                f"--output={output}: is finished (an unfinished one has a {PART} beside it); remove"
                " it or choose another name"
            )


@contextlib.contextmanager
def opened(
    config: PredictConfig, model: Model, ids: Ids | None
) -> Iterator[Callable[[Sequence[Record]], None]]:
    """Yields a function that takes the records of an --output in order; the output is finished
    where the context ends.

    CSV and JSON lines grow in a file beside it, with the ending PART; on standard output rows
    appear as they come. Other formats, and files in a bucket, where none can grow, are written at
    the end.

    Raises:
      ConfigError: another process is writing it.
      NotWritten: it cannot be written.
      Stopped: a signal came while a file was growing.
    """
    output = config.output
    form = config.format
    if output == STDOUT:
        _print(head(form, model))
        yield lambda records: _print(lines(records, form, model))
    elif form in (CSV, JSON_LINES) and "://" not in output:
        with _growing(output) as append:
            append(head(form, model))
            yield lambda records: append(lines(records, form, model))
    else:
        records: list[Record] = []
        yield records.extend
        if form == COCO:
            write_file(output, coco(records, ids))
        elif form:
            write_file(output, head(form, model) + lines(records, form, model))
        elif output and config.boxes_format == VOC:
            for record in records:
                if not record.error:
                    write_file(place(output, record.file, ".xml"), voc(record))
        elif output:
            for name, text in yolo_names(model.class_names).items():
                write_file(os.path.join(output, name), text)
            number_of = {name: number for number, name in enumerate(model.class_names)}
            for record in records:
                if not record.error:
                    text = yolo(record, number_of, config.boxes_format == YOLO_SCORES)
                    write_file(place(os.path.join(output, "labels"), record.file, ".txt"), text)


@contextlib.contextmanager
def _growing(path: str) -> Iterator[Callable[[str], None]]:
    """Yields a function that appends text to a file, which is renamed where the context ends
    without an error.

    What a process left that was stopped is begun anew.
    """
    part = path + PART
    with writing(part):
        os.makedirs(os.path.dirname(part) or ".", exist_ok=True)
        # Without a buffer: what did not fit on a disk would be tried again as the file is closed.
        file = open(part, "ab", buffering=0)  # noqa: SIM115 (its errors are those of writing; those within are not)
        if not _is_mine(file, part):
            file.close()
            raise ConfigError(
                f"--output={path}: another process is writing {part}; wait, or choose another name"
            )
        file.truncate(0)

    def append(text: str) -> None:
        rest = memoryview(text.encode())
        try:
            while rest:
                rest = rest[file.write(rest) :]
        except OSError as error:
            raise NotWritten(
                f"{part}: cannot be written ({reason(error)}); it has what was predicted before"
            ) from error

    with file:
        try:
            yield append
        except Interrupted as stop:
            raise Stopped(
                stop.number,
                f"{part} has what was predicted before",
                "rename it to keep that: the same command starts over",
            ) from stop
        with writing(path):
            os.replace(part, path)


def _is_mine(file: BinaryIO, path: str) -> bool:
    """Locks a file until it is closed; returns False if another process holds it, or has renamed it
    meanwhile.
    """
    if not lock(file, wait=False):
        return False
    return os.path.exists(path) and os.path.samestat(os.fstat(file.fileno()), os.stat(path))


def _print(text: str) -> None:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:  # its reader has enough
        raise
    except OSError as error:
        # What did not fit would be tried again as Python ends, with a traceback.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise NotWritten(
            f"--output=-: standard output cannot be written ({reason(error)})"
        ) from error


def head(form: str, model: Model) -> str:
    """Returns how a file begins: CSV with the names of its columns."""
    return "" if form == JSON_LINES else csv_lines([columns(model)])


def lines(records: Sequence[Record], form: str, model: Model) -> str:
    """Returns records as JSON lines or as CSV."""
    if form == JSON_LINES:
        return "".join(map(to_line, records))
    return csv_lines([row for record in records for row in rows(record, model)])


def to_line(record: Record) -> str:
    """Returns a record as a line of JSON."""
    values = record._asdict()
    if isinstance(record, Detected):
        values["boxes"] = [box._asdict() for box in record.boxes]
    return json.dumps(values, ensure_ascii=False) + "\n"


def columns(model: Model) -> list[str]:
    """Returns the head of a CSV file."""
    if model.is_detector:
        return ["file", "label", "score", "ymin", "xmin", "ymax", "xmax", "error"]
    best = 1 if model.multi_label else BEST
    names = ["label", "probability"]
    for number in range(2, best + 1):
        names += [f"label_{number}", f"probability_{number}"]
    return ["file", *names, "error"]


def rows(record: Record, model: Model) -> Iterator[list[str]]:
    """Yields the rows of a record: one of a classifier, one for each box of a detector and at least
    one.
    """
    if isinstance(record, Detected):
        for label, score, *corners in record.boxes:
            yield [record.file, label, f"{score:.4f}", *(f"{x:.1f}" for x in corners), ""]
        if not record.boxes:
            yield [record.file, *[""] * 6, record.error]
        return
    if model.multi_label:
        cells = [";".join(record.labels), ";".join(f"{x:.4f}" for x in record.probabilities)]
    else:
        best = zip(record.labels, (f"{x:.4f}" for x in record.probabilities))
        cells = [*itertools.chain(*best)]
    yield [record.file, *cells, *[""] * (len(columns(model)) - 2 - len(cells)), record.error]


def coco(records: Sequence[Detected], ids: Ids) -> str:
    """Returns COCO's JSON: images, categories, and boxes as annotations with a score, which count
    from 1.

    `pycocotools.coco.COCO(file)` reads it; `loadRes` of the true boxes takes the annotations, if
    the ids are theirs.

    Args:
      records: of all images.
      ids: of these images and of the classes.
    """
    images = []
    annotations = []
    for number, record in zip(ids.images, records):
        if record.error:
            continue
        images.append(
            {"id": number, "file_name": record.file, "height": record.height, "width": record.width}
        )
        for label, score, ymin, xmin, ymax, xmax in record.boxes:
            box = [xmin, ymin, xmax - xmin, ymax - ymin]
            about = {
                "id": len(annotations) + 1,
                "image_id": number,
                "category_id": ids.categories[label],
                "iscrowd": 0,
            }
            annotations.append({**about, "bbox": box, "area": box[2] * box[3], "score": score})
    categories = [{"id": number, "name": name} for name, number in ids.categories.items()]
    return to_json({"images": images, "categories": categories, "annotations": annotations})


def voc(record: Detected) -> str:
    """Returns VOC's XML of an image: its pixels count from 1, the last one belongs to a box.

    Many readers take whole numbers only, and the elements of an object by their places: the score
    comes last.
    """
    root = ET.Element("annotation")
    ET.SubElement(root, "filename").text = escaped(os.path.basename(record.file))
    size = ET.SubElement(root, "size")
    for name, value in {"width": record.width, "height": record.height, "depth": 3}.items():
        ET.SubElement(size, name).text = str(value)
    for label, score, ymin, xmin, ymax, xmax in record.boxes:
        element = ET.SubElement(root, "object")
        for name, text in {
            "name": escaped(label),
            "pose": "Unspecified",
            "truncated": "0",
            "difficult": "0",
        }.items():
            ET.SubElement(element, name).text = text
        (left, right), (top, bottom) = (
            _pixels(xmin, xmax, record.width),
            _pixels(ymin, ymax, record.height),
        )
        box = ET.SubElement(element, "bndbox")
        for name, value in {"xmin": left, "ymin": top, "xmax": right, "ymax": bottom}.items():
            ET.SubElement(box, name).text = str(value)
        ET.SubElement(element, "score").text = f"{score:.4f}"
    ET.indent(root)
    return ET.tostring(root, encoding="unicode") + "\n"


def _pixels(low: float, high: float, side: int) -> tuple[int, int]:
    """Returns the first and the last pixel, from 1, between two edges; two different ones, or
    readers see no area.
    """
    first = max(1, min(round(low) + 1, side - 1))
    return first, max(first + 1, min(round(high), side))


def yolo(record: Detected, number_of: Mapping[str, int], scores: bool = False) -> str:
    """Returns YOLO's lines of an image, one a box: its class, centre and size in parts of the
    image, and its score.

    Args:
      record: of an image that could be read; without boxes there are no lines.
      number_of: {class: its number}.
      scores: whether the score is behind the box, which readers of labels refuse.
    """
    lines = []
    for label, score, ymin, xmin, ymax, xmax in record.boxes:
        x = (xmin + xmax) / 2 / record.width
        width = (xmax - xmin) / record.width
        y = (ymin + ymax) / 2 / record.height
        height = (ymax - ymin) / record.height
        numbers = [f"{part:.6f}" for part in (x, y, width, height)] + [f"{score:.4f}"] * scores
        lines.append(f"{number_of[label]} {' '.join(numbers)}\n")
    return "".join(lines)


def yolo_names(class_names: Sequence[str]) -> dict[str, str]:
    """Returns the files with the names of the classes in the order of their numbers, {name:
    text}.
    """
    names = dict(enumerate(map(escaped, class_names)))
    described = yaml.safe_dump({"names": names}, allow_unicode=True, sort_keys=False)
    return {"classes.txt": name_lines(class_names), "data.yaml": described}


def place(folder: str, name: str, ending: str) -> str:
    """Returns where a file about the image `name` goes below a folder: at the same place, with
    another ending.
    """
    parts = [part for part in name.split("/") if part not in ("", ".", "..")]
    return os.path.join(folder, os.path.splitext("/".join(parts))[0] + ending)


class Ids(NamedTuple):
    """The ids of the images, in their order, and of the classes."""

    images: list[int]
    categories: dict[str, int]


def read_ids(path: str, files: Sequence[str], model: Model) -> Ids:
    """Returns the ids for images and the classes of a detector.

    Classes have the ids of --coco_ids, or else of the COCO JSON that the detector learned from;
    without either, both count from 1.

    Args:
      path: the value of --coco_ids, '' for none.
      files: names of the images.
      model: the detector.

    Raises:
      ConfigError: the file cannot be read, or lacks an image or a class, or has an image twice.
    """
    if not path:
        ids = model.category_ids
        free = (number for number in itertools.count(1) if number not in ids.values())
        categories = {name: ids[name] if name in ids else next(free) for name in model.class_names}
        return Ids([*range(1, len(files) + 1)], categories)
    content = read_json(os.path.expanduser(path))
    try:
        numbers = {_composed(each["name"]): each["id"] for each in content["categories"]}
        images = [(_path(each["file_name"]), each["id"]) for each in content["images"]]
    except (KeyError, TypeError) as error:
        raise ConfigError(
            f"--coco_ids={path}: is not a COCO JSON file with images and categories"
        ) from error
    if absent := [name for name in model.class_names if name not in numbers]:
        raise ConfigError(
            f"--coco_ids={path}: has {listed([*numbers])}, but no category {listed(absent)} of the"
            " model"
        )
    return Ids(_image_ids(path, images, files), {name: numbers[name] for name in model.class_names})


def _image_ids(path: str, images: Sequence[tuple[str, Any]], files: Sequence[str]) -> list[Any]:
    """Returns the id of each image: of the image with its path, or else with its name, if only one
    has it.
    """
    by_path = collections.defaultdict(list)
    by_name = collections.defaultdict(list)
    for name, number in images:
        by_path[name].append(number)
        by_name[os.path.basename(name)].append(number)
    candidates = [
        by_path.get(_path(file)) or by_name.get(os.path.basename(_path(file)), []) for file in files
    ]
    for problem, wrong in (
        (
            "are not among its images",
            [file for file, numbers in zip(files, candidates) if not numbers],
        ),
        (
            "may be several of its images",
            [file for file, numbers in zip(files, candidates) if len(numbers) > 1],
        ),
    ):
        if wrong:
            raise ConfigError(
                f"--coco_ids={path}: {len(wrong)} of {len(files)} images {problem}: {listed(wrong)}"
            )
    numbers = [first for first, *_ in candidates]
    counts = collections.Counter(numbers)
    if twice := [file for file, number in zip(files, numbers) if counts[number] > 1]:
        raise ConfigError(
            f"--coco_ids={path}: several images match the same image in it: {listed(twice)}"
        )
    return numbers


def _composed(name: Any) -> str:
    return unicodedata.normalize("NFC", str(name)).strip()


def _path(name: Any) -> str:
    return _composed(name).replace("\\", "/").removeprefix("./")
