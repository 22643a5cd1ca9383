"""Labels of pictures in a table: a CSV file with a file and its class in each row."""

from __future__ import annotations

import csv
import io
import os
import unicodedata
from collections.abc import Collection, Mapping
from typing import NamedTuple

import tensorflow as tf

from cpc_tf.files import reason
from cpc_tf.settings import ConfigError
from cpc_tf.texts import csv_text, listed, shown

Rows = dict[str, tuple[str, ...]]  # {file as the table names it: its classes}

_FILE = {"file", "files", "filename", "file_name", "file name", "path", "filepath", "image", "image_name", "picture"}
_LABEL = {"label", "labels", "class", "classes", "class_name", "category", "categories", "tags", "target"}
_DELIMITERS = "\t,;"
_LARGEST = 2**28  # bytes
_LONGEST_FIRST = 10_000  # characters of the first line that are read to tell columns


def read(path: str) -> Rows:
    """Reads a table of files and classes.

    Columns are separated by tabs, commas or semicolons. A header such as `file,label` is optional; with one there may
    be more columns, which are not used. Several classes of a picture are separated by semicolons: `1.jpg,cat;dog`.

        read("labels.csv")  # {"1.jpg": ("cat",), "cats/2.jpg": ("cat", "dog"), "3.jpg": ()}

    Args:
      path: the table, on a disk or e.g. gs://.

    Returns:
      {file: its classes, in their order in the table}. A row without a class gives ().

    Raises:
      ConfigError: it cannot be read, is no such table, or a file has different classes in two rows.
    """
    lines = _lines(path)
    if not lines:
        raise ConfigError(f"--labels={shown(path)}: is empty; it needs lines such as pictures/1.jpg,cat")
    delimiter, columns = _layout(path, lines)
    found, line_of = {}, {}
    table = csv.reader(lines, delimiter=delimiter, strict=True)
    rows = ((table.line_num, row) for row in table if any(map(str.strip, row)))
    try:
        if columns.header:
            next(rows)
        for number, row in rows:
            name, labels = _parsed(path, number, row, columns)
            if found.setdefault(name, labels) != labels:
                raise ConfigError(
                    f"--labels={shown(path)}: {shown(name)} has the class {_text(found[name])} in line {line_of[name]} "
                    f"and {_text(labels)} in line {number}; keep one, or write several classes as cat;dog"
                )
            line_of.setdefault(name, number)
    except csv.Error as error:
        raise ConfigError(
            f"--labels={shown(path)}: line {table.line_num} is no line of a CSV file ({error})"
        ) from error
    if not found:
        raise ConfigError(f"--labels={shown(path)}: has a header only; it needs lines such as pictures/1.jpg,cat")
    return found


class Matched(NamedTuple):
    """Rows of a table beside the pictures of a folder."""

    of: Rows  # {picture: its classes}; without those that have no row
    absent: list[str]  # rows without a picture


def match(path: str, rows: Mapping[str, tuple[str, ...]], names: Collection[str]) -> Matched:
    """Finds the pictures that the rows of a table mean.

    A row may have the picture's path in the folder, an absolute path or one that begins further up, or the name alone
    if no other picture has it; each of these also without the extension, and with accents composed differently.

    Args:
      path: the table, for messages.
      rows: as `read` returns them.
      names: the pictures, relative to their folder, with '/'.

    Raises:
      ConfigError: a row means several pictures, or two rows mean the same one and differ.
    """
    known = {_composed(name): name for name in names}
    stems, alone = {}, {}  # {path without the extension, name in any folder: the pictures that it may mean}
    for name in names:
        whole = _composed(name)
        stems.setdefault(os.path.splitext(whole)[0], []).append(name)
        for key in {*_ends(whole)}:
            alone.setdefault(key, []).append(name)
    found, absent, row_of = {}, [], {}
    for row, labels in rows.items():
        name = _picture(path, row, known, stems, alone)
        if name is None:
            absent.append(row)
        elif found.setdefault(name, labels) != labels:
            raise ConfigError(
                f"--labels={shown(path)}: {shown(row_of[name])} and {shown(row)} are the same picture, {shown(name)}, "
                f"with the classes {_text(found[name])} and {_text(labels)}"
            )
        else:
            row_of[name] = row
    return Matched(found, absent)


class _Columns(NamedTuple):
    """Where a table has what."""

    file: int
    label: int
    count: int
    header: bool


def _lines(path):
    where = f"--labels={shown(path)}"
    try:
        with tf.io.gfile.GFile(os.path.expanduser(path), "rb") as file:
            data = file.read(_LARGEST + 1)
    except (OSError, tf.errors.OpError) as error:
        raise ConfigError(f"{where}: cannot be read: {reason(error)}") from error
    if len(data) > _LARGEST:
        raise ConfigError(f"{where}: more than {_LARGEST >> 20} MiB; it needs lines such as pictures/1.jpg,cat")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ConfigError(f"{where}: line {line} is not UTF-8; save the table as CSV in UTF-8") from error
    if "\0" in text:
        raise ConfigError(f"{where}: not a text; save the table as CSV in UTF-8")
    return list(io.StringIO(text, newline=""))


def _layout(path, lines):
    """Returns the delimiter of a table and its columns."""
    first = next((line for line in lines if line.strip()), "").strip()[:_LONGEST_FIRST]
    cells = {delimiter: next(csv.reader([first], delimiter=delimiter)) for delimiter in _DELIMITERS}
    for delimiter, own in cells.items():
        titles = [title.strip().casefold() for title in own]
        files, labels = ([i for i, title in enumerate(titles) if title in usual] for usual in (_FILE, _LABEL))
        if len(files) == len(labels) == 1:
            return delimiter, _Columns(files[0], labels[0], len(titles), header=True)
        if len(files) > 1 or len(labels) > 1:
            raise ConfigError(f"--labels={shown(path)}: its header has several such columns; name two file and label")
    for delimiter, own in cells.items():
        if len(own) == 2:
            return delimiter, _Columns(0, 1, 2, header=False)
    raise ConfigError(
        f"--labels={shown(path)}: line 1 is {shown(first)}, which is no file and its class; with other columns "
        "a header must name them: file,label"
    )


def _parsed(path, number, row, columns):
    """Returns the file and the classes of a row."""
    if len(row) <= max(columns.file, columns.label) or any(row[columns.count :]):
        raise ConfigError(
            f"--labels={shown(path)}: line {number} has {len(row)} columns, not a file and its class; text with the "
            'separator in it needs quotes: "a.jpg","cat;dog"'
        )
    name, labels = csv_text(row[columns.file].strip()).replace("\\", "/"), csv_text(row[columns.label]).split(";")
    while name.startswith("./"):
        name = name[2:]
    if not name:
        raise ConfigError(f"--labels={shown(path)}: line {number} names no file")
    return name, tuple(dict.fromkeys(_composed(label.strip()) for label in labels if label.strip()))


def _composed(text):
    return unicodedata.normalize("NFC", text)


def _ends(name):
    """Returns what names a file in any folder: its name, with and without the extension."""
    last = name.rsplit("/", 1)[-1]
    return last, os.path.splitext(last)[0]


def _picture(path, row, known, stems, alone):
    """Returns the picture that a row means, None if there is none."""
    rest = _composed(row).lstrip("/")
    places = stems if "/" in rest else alone  # cat/1.jpg is not dog/1.jpg, even if no other picture is called 1.jpg
    while True:  # a path that begins further up: data/my_pictures/cat/1.jpg is cat/1.jpg in my_pictures
        if rest in known:
            return known[rest]
        if found := places.get(rest):
            if len(found) > 1:
                where = f"--labels={shown(path)}: {shown(row)}"
                raise ConfigError(f"{where} can be each of {listed(found)}; write the path in the folder")
            return found[0]
        _, slash, rest = rest.partition("/")
        if not slash:
            return None


def _text(labels):
    return shown(";".join(labels)) if labels else "none"
