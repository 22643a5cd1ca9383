"""Labels of images in a CSV file with a file and its class in each row, and which images it
means.
"""

from __future__ import annotations

import collections
import csv
import dataclasses
import functools
import io
import json
import os
import re
import unicodedata
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, Optional

import numpy as np
import tensorflow as tf

from cpc_tf.core.files import reason
from cpc_tf.core.settings import ConfigError
from cpc_tf.core.texts import csv_text, listed, shown
from cpc_tf.data import check, names, walk
from cpc_tf.data.config import LEFT_OUT, PicturesConfig
from cpc_tf.data.table import Table

NO_CLASS = (  # says that an image has none of the classes; a blank says that it has no label yet
    "no class"
)
# {file: its classes; () has no class, None has no label yet}
FileClasses = dict[str, Optional[tuple[str, ...]]]

# Titles of columns, without spaces and the like: the usual ones, and others that count if none of
# these is there.
_FILE = (
    {"file", "files", "filename", "path", "filepath", "image", "imagename", "picture"},
    {
        "images",
        "filenames",
        "imageid",
        "imageindex",
        "imagepath",
        "imagefile",
        "imagefilename",
        "img",
        "imgname",
        "id",
    },
)
_LABEL = (
    {
        "label",
        "labels",
        "class",
        "classes",
        "classname",
        "category",
        "categories",
        "tags",
        "target",
    },
    {
        "tag",
        "labelname",
        "classid",
        "labelid",
        "species",
        "diagnosis",
        "finding",
        "findings",
        "findinglabels",
    },
)
_GROUP = {"group"}
_BY = {"by"}
_SPLIT = {"split", "subset", "fold", "set"}
_BOX = (
    {"xmin", "ymin"},
    {"x1", "y1", "x2", "y2"},
    {"left", "top", "right", "bottom"},
    {"bbox"},
    {"xcenter", "ycenter"},
)
# In the column `by`: a person gave the class on the page of cpc-tf label, or accepted the guess of
# a classifier.
PERSON = "person"
MODEL = "model"
_DELIMITERS = "\t,;"
_LARGEST = 2**28  # bytes
_SEPARATOR = re.compile(r'"?sep=(.)"?')  # the first line of some tables of Excel
# Begins a list of objects or an object, of one line or of many.
_JSON = re.compile(r"\s*(\[\s*(\{|$)|\{\s*(\"|$))")
_LONGEST_FIRST = 10_000  # characters of the first line that are read to tell columns
_SHOWN = 3  # images that a folder has, where those of a table are not there
# Separators of classes other than semicolons; some stand in the names of classes, too: 'black &
# white', 'crane, bird'.
_OTHERS = ("|", ",", "/", "+", "&", ":", "\\", "\t", "\n", "\uff1b", "\uff0c", "\u3001", "\uff5c")
_SURE = ("|", "\t", "\n", "\uff1b", "\uff5c")
_QUOTED = r"""(?:'[^']*'|"[^"]*")"""
_LIST = re.compile(rf"\[\s*{_QUOTED}(?:\s*,\s*{_QUOTED})*\s*\]")  # as Python prints it


def add(table: Table, data: PicturesConfig) -> Table:
    """Returns the images of a folder with their classes and groups in --labels.

    Raises:
      ConfigError: as `read` and `match`, or more than 1 % of the rows have no image.
    """
    flag = f"--labels={data.labels}"
    pictures = table.names.tolist()
    content = read(data.labels)
    matched = match(data.labels, content, pictures, table.root)
    notes = _notes_on_absent_rows(flag, table, content, matched)
    notes += _notes_on_reading(table, content, matched)

    # The classes of each image; some names say that it has none yet.
    labels = np.full(len(pictures), None, object)
    unknown = collections.Counter()
    row_of = {name: row for row, name in enumerate(pictures)}
    for name, texts in matched.classes.items():
        doubtful = names.is_doubtful if data.ambiguous_folders == LEFT_OUT else lambda text: False
        without = [text for text in texts or () if names.is_unlabelled(text) or doubtful(text)]
        unknown.update(without)
        if texts is not None and (not texts or len(without) < len(texts)):
            labels[row_of[name]] = tuple(text for text in texts if text not in without)
    if unknown:
        counted = listed([f"{text} ({number})" for text, number in unknown.items()])
        notes.append(f"names in --labels that are read as no label yet, like a blank: {counted}")

    # The groups, and who gave the labels.
    group_of_row = np.array([matched.groups.get(name, "") for name in pictures], object)
    accepted = np.array([name in matched.accepted for name in pictures], bool)
    if count := int((accepted & np.not_equal(labels, None)).sum()):
        notes.append(
            f"guesses that a person accepted (by=model in --labels): {count}; no test is drawn"
            " from them"
        )
    by_page = PERSON in content.by.values()
    if by_page:
        notes.append(
            "cpc-tf label chose most of the images with labels: the accuracy on a test that"
            " is drawn from them may differ from that on new images"
        )
    return dataclasses.replace(
        table,
        labels=labels,
        groups=group_of_row,
        accepted=accepted,
        by_page=by_page,
        notes=(*table.notes, *notes),
    )


def _notes_on_absent_rows(flag: str, table: Table, content: Content, matched: Matched) -> list[str]:
    """Returns lines on rows without an image. Raises ConfigError if these are too many, or all."""
    absent = matched.absent
    notes = []
    count = len(matched.classes) + len(absent)
    there = f"which has {listed(table.names[:_SHOWN].tolist())}"
    if matched.elsewhere:
        there += (
            f"; rows name files in another folder, {listed(matched.elsewhere)}: name that"
            " folder, or write paths in this one"
        )
    if not matched.classes:
        raise ConfigError(
            f"{flag}: none of its {count} files is in {table.root}, e.g. {listed(absent)}; {there}"
        )
    # What the page of cpc-tf label wrote named an image, which has been deleted since.
    gone = [row for row in absent if row in content.by]
    if gone and len(gone) < len(matched.classes) and not matched.elsewhere:
        absent = [row for row in absent if row not in content.by]
        notes.append(
            f"rows written by cpc-tf label whose images are no longer there: {len(gone)}:"
            f" {listed(gone)}"
        )
    problem = f"name no image in {table.root}, {there}"
    check.leave_out(flag, absent, f"{count} rows", problem, "remove or correct them")
    if absent:
        notes.append(f"rows of --labels without an image: {listed(absent)}")
    return notes


def _notes_on_reading(table: Table, content: Content, matched: Matched) -> list[str]:
    """Returns lines on how a table was understood, where it can be understood in another way."""
    notes = []
    if matched.title:
        notes.append(f"line 1 of --labels is read as a header: {matched.title}")
    if matched.cut:
        notes.append(
            "rows of --labels name folders that do not exist, and are matched without them in"
            f" {table.root}: {listed(matched.cut)}"
        )
    if unused := [name for name in content.titles if _letters(name) not in _GROUP]:
        notes.append(
            f"columns of --labels that are not used: {listed(unused)}{_why_unused(unused)}"
        )
    if alike := sharing_words(_class_names(matched.classes)):
        notes.append(
            "class names with several words that other class names have, too:"
            f" {listed(alike)}; each is read as one class. Several classes of an image are"
            " written as cat;dog"
        )
    return notes


def _class_names(classes: FileClasses) -> set[str]:
    """Returns the names of all classes."""
    return {name for names_of_row in classes.values() for name in names_of_row or ()}


def _why_unused(titles: Sequence[str]) -> str:
    """Returns what to do instead for columns that a user may take for used, '' if there are none of
    these.
    """
    letters = {_letters(title) for title in titles}
    if letters & _SPLIT:
        return "; splits are folders such as train and test, or slices such as --split=train[:80%]"
    return "; boxes are read by --boxes" if any(corners <= letters for corners in _BOX) else ""


class Content(NamedTuple):
    """What a table says."""

    classes: FileClasses  # of the files exactly as the table names them, in its order
    groups: Mapping[str, str] = {}  # {file: its group}, of those that have one
    first: str = ""  # the file of line 1, if that may be a header
    by: Mapping[str, str] = {}  # {file: who gave the class}, of those that say so
    titles: Sequence[str] = ()  # of the columns other than file, label and by
    others: Mapping[str, Sequence[str]] = {}  # {file: its cells in these columns}
    delimiter: str = ","


def read(path: str, may_be_empty: bool = False) -> Content:
    """Reads a table of files and classes.

    Columns are separated by tabs, commas or semicolons. A header such as `file,label` is optional;
    with one there may be more columns: those of one `group` belong together; `model` in the column
    `by` says that the class is a guess which a person accepted; others are not used. Several
    classes of an image are separated by semicolons: `1.jpg,cat;dog`. A blank is no label yet; `no
    class` says that an image has none of the classes.

        read("labels.csv").classes
        # {"1.jpg": ("cat",), "cats/2.jpg": ("cat", "dog"), "3.jpg": (), "4.jpg": None}

    Args:
      path: the table, on a disk or e.g. gs://.
      may_be_empty: whether it may have no rows, with a header or without.

    Raises:
      ConfigError: it cannot be read, is no such table, has no rows, a file has different classes in
        two rows, or several classes are written in another way.
    """
    where = f"--labels={shown(path)}"
    lines = _lines(path)
    if not any(map(str.strip, lines)):
        if may_be_empty:
            return Content({})
        raise ConfigError(f"{where}: is empty; it needs lines such as pictures/1.jpg,cat")

    # The header, if there is one, and the rows.
    delimiter, columns = _columns_of(path, lines)
    content_of = {}
    line_of = {}
    others = {}
    by = {}
    titles = []
    table = csv.reader(lines, delimiter=delimiter, strict=True)
    rest = [i for i in range(columns.count) if i not in (columns.file, columns.label, columns.by)]
    rows = ((table.line_num, row) for row in table if any(map(str.strip, row)))
    try:
        if columns.header:
            _, header = next(rows)
            titles = [header[i] for i in rest]
        for number, row in rows:
            name, *content = _parsed(path, number, row, columns)
            cells = dict(enumerate(row))
            if columns.by is not None and (who := csv_text(cells.get(columns.by, "").strip())):
                by[name] = who
            others[name] = [csv_text(cells.get(i, "")) for i in rest]
            if name in content_of and columns.boxes:
                raise ConfigError(
                    f"{where}: is a table of boxes, with {shown(name)} in lines {line_of[name]} and"
                    f" {number}; --labels has one row of classes for each image, and boxes are read"
                    " by --boxes=FOLDER"
                )
            if content_of.setdefault(name, content) != content:
                raise ConfigError(
                    f"{where}: {shown(name)} has {_text(*content_of[name])} in line {line_of[name]}"
                    f" and {_text(*content)} in line {number}; keep one, or write several classes"
                    " as cat;dog; if these are two images in different folders, write the path of"
                    " each"
                )
            line_of.setdefault(name, number)
    except csv.Error as error:
        raise ConfigError(
            f"{where}: line {table.line_num} is not a line of CSV ({error})"
        ) from error
    if not (content_of or may_be_empty):
        raise ConfigError(f"{where}: has a header only; it needs lines such as pictures/1.jpg,cat")

    # The columns.
    classes = {name: labels for name, (labels, _) in content_of.items()}
    if pair := joined(_class_names(classes)):
        raise ConfigError(
            f"{where}: the class {shown(pair[0])} joins classes of the table by {pair[1]!a};"
            " write several classes with semicolons, cat;dog, or use _ in its place if it is"
            " one class"
        )
    groups = {}
    for name, (_, group) in content_of.items():
        if group and not names.is_nothing(group):
            groups[name] = group
    first = "" if columns.header else next(iter(classes))
    return Content(classes, groups, first, by, titles, others if titles else {}, delimiter)


class Matched(NamedTuple):
    """Rows of a table beside the images of a folder."""

    classes: FileClasses  # {picture: its classes}; without those that have no row
    absent: list[str]  # rows without an image
    groups: Mapping[str, str] = {}  # {picture: its group}
    title: str = ""  # what line 1 has in place of a file, if it is a header after all
    accepted: Collection[str] = ()  # images whose class is a guess that a person accepted
    rows: Mapping[str, str] = {}  # {row: its picture}
    cut: Sequence[str] = ()  # folders that rows begin with, are nowhere, and were left out
    elsewhere: Sequence[str] = ()  # folders that rows without an image are in


def match(path: str, table: Content, pictures: Collection[str], root: str = "") -> Matched:
    """Finds the images that the rows of a table mean.

    A row may have the picture's path in the folder, an absolute path or one that begins further up,
    or the name alone if no other image has it; each of these also without the extension, with
    accents composed differently, and with other capitals, spaces around it or backslashes. An image
    of exactly this name goes before all of these. A first row whose file and class are nowhere else
    is a header.

    A path that begins further up must lead to this folder: day1/1.jpg is not 1.jpg in day2. If its
    folders are nowhere, as those of another machine, they are left out, unless other rows do lead
    to this folder.

    Args:
      path: the table, for messages.
      table: as `read` returns it.
      pictures: relative to their folder, with '/'.
      root: that folder; '': where paths lead is not asked.

    Raises:
      ConfigError: a row means several images, or two rows mean the same one and differ.
    """
    there = {*pictures}
    exact = _Names(pictures, _composed)
    alike = functools.cache(
        lambda: _Names(pictures, lambda text: _composed(_composed(text).casefold()))
    )

    def find(row: str) -> _Found | None:
        if row in there:
            return _Found(row)
        tidy = _tidied(row)
        return exact.find(path, row) or exact.find(path, tidy) or alike().find(path, tidy)

    place_of = {row: find(row) for row in table.classes}
    above = dict.fromkeys(place.above for place in place_of.values() if place)
    folders = _Folders.look_up(above, root, path) if root else _Folders()

    # What the table says of each image.
    content_of = {}
    absent = []
    row_of = {}
    groups = {}
    picture_of = {}
    for row, labels in table.classes.items():
        if place_of[row] is None or place_of[row].above in folders.refused:
            absent.append(row)
            continue
        name = place_of[row].picture
        content = labels, table.groups.get(row, "")
        if content_of.setdefault(name, content) != content:
            raise ConfigError(
                f"--labels={shown(path)}: {shown(row_of[name])} and {shown(row)} are the same"
                f" image, {shown(name)}, with {_text(*content_of[name])} and {_text(*content)};"
                " keep one"
            )
        row_of[name], picture_of[row] = row, name
        if content[1]:
            groups[name] = content[1]

    # A first row that is a header after all.
    title = ""
    if table.first in absent and walk.extension(table.first) not in walk.EXTENSIONS:
        labels = table.classes[table.first]
        others = [other for name, other in table.classes.items() if name != table.first]
        title = table.first if labels and others and labels not in others else ""
    classes = {name: labels for name, (labels, _) in content_of.items()}
    accepted = {name for row, name in picture_of.items() if table.by.get(row) == MODEL}
    absent = [row for row in absent if row != title]

    return Matched(
        classes, absent, groups, title, accepted, picture_of, folders.nowhere, folders.elsewhere
    )


class _Columns(NamedTuple):
    """Where a table has what."""

    file: int
    label: int
    group: int | None
    count: int
    header: bool
    by: int | None = None
    boxes: bool = False  # whether it also has the edges of boxes


class _Found(NamedTuple):
    """The image that a row means."""

    picture: str
    above: str = ""  # the beginning of the row's path that lies above the folder of the images


class _Folders(NamedTuple):
    """The folders above the images that rows name, apart from those that lead to the folder of the
    images.
    """

    elsewhere: Sequence[str] = ()  # other folders, which exist
    nowhere: Sequence[str] = ()  # folders that are left out of the rows
    # Folders that are nowhere, while other rows lead to the folder of the images.
    unknown: Sequence[str] = ()

    @property
    def refused(self) -> set[str]:
        """The folders whose rows name no image."""
        return {*self.elsewhere, *self.unknown}

    @classmethod
    def look_up(cls, above: Collection[str], root: str, path: str) -> _Folders:
        """Returns what folders are: relative to the table, to the working directory, or to one that
        `root` lies in.
        """
        root = root if "://" in root else os.path.abspath(root)
        bases = [os.path.dirname(os.path.abspath(path)), os.getcwd()]
        if "://" not in root:
            bases += [root.rsplit("/", depth)[0] or "/" for depth in range(1, root.count("/") + 1)]
        root_names = {os.path.basename(root), os.path.basename(os.path.realpath(root))}
        elsewhere = []
        nowhere = []
        for folder in filter(None, above):
            candidates = filter(os.path.isdir, (os.path.join(base, folder) for base in bases))
            there = {*map(os.path.realpath, candidates)}
            if there and os.path.realpath(root) not in there:
                elsewhere.append(folder)
            elif not there and folder.rsplit("/", 1)[-1] not in root_names:
                nowhere.append(folder)
        is_sure = len(elsewhere) + len(nowhere) < len(above)
        return cls(elsewhere, (), nowhere) if is_sure else cls(elsewhere, nowhere)


def _lines(path):
    where = f"--labels={shown(path)}"
    try:
        with tf.io.gfile.GFile(os.path.expanduser(path), "rb") as file:
            data = file.read(_LARGEST + 1)
    except (OSError, tf.errors.OpError) as error:
        raise ConfigError(f"{where}: cannot be read: {reason(error)}") from error
    if len(data) > _LARGEST:
        raise ConfigError(
            f"{where}: more than {_LARGEST >> 20} MiB; it needs lines such as pictures/1.jpg,cat"
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ConfigError(
            f"{where}: line {line} is not UTF-8; save the table as CSV in UTF-8"
        ) from error
    if "\0" in text:
        raise ConfigError(f"{where}: not a text file; save the table as CSV in UTF-8")
    if _JSON.match(text[:_LONGEST_FIRST].split("\n")[0]):
        raise ConfigError(
            f"{where}: is JSON, which is not read here; it needs lines such as pictures/1.jpg,cat"
        )
    return list(io.StringIO(text, newline=""))


def _columns_of(path, lines):
    """Returns the delimiter of a table and its columns."""

    def places(titles, usual):
        """Returns where titles of one of several sets are: of the first set of which any is
        there.
        """
        for names_of_set in usual:
            columns = [place for place, title in enumerate(titles) if title in names_of_set]
            if columns:
                return columns
        return []

    delimiters = _DELIMITERS
    if said := _SEPARATOR.fullmatch(lines[0].strip()):
        delimiters, lines[0] = said[1], "\n"  # blank: lines keep their numbers
    first = next((line for line in lines if line.strip()), "").strip()[:_LONGEST_FIRST]
    cells = {delimiter: next(csv.reader([first], delimiter=delimiter)) for delimiter in delimiters}
    for delimiter, row in cells.items():
        titles = [*map(_letters, row)]
        files = places(titles, _FILE)
        labels = places(titles, _LABEL)
        groups = places(titles, (_GROUP,))
        by = places(titles, (_BY,))
        if len(files) == len(labels) == 1 and len(groups) < 2:
            return delimiter, _Columns(
                file=files[0],
                label=labels[0],
                group=groups[0] if groups else None,
                count=len(titles),
                header=True,
                by=by[0] if by else None,
                boxes=any(edges <= {*titles} for edges in _BOX),
            )
        if max(map(len, (files, labels, groups))) > 1:
            raise ConfigError(
                f"--labels={shown(path)}: its header has several columns for files or labels;"
                " call one file and one label"
            )
        if files and groups:
            raise ConfigError(
                f"--labels={shown(path)}: its header has file and group, but no column label"
            )
    for delimiter, row in cells.items():
        if len(row) == 2:
            return delimiter, _Columns(0, 1, None, 2, header=False)
    raise ConfigError(
        f"--labels={shown(path)}: line 1 is {shown(first)}, which is not a file and its class"
        " separated by a comma, a semicolon or a tab; with other columns, a header must name"
        " the two: file,label"
    )


def _letters(title: str) -> str:
    return re.sub(r"[\W_]+", "", title.casefold())


def _parsed(path, number, row, columns):
    """Returns the file, the classes and the group of a row."""
    where = f"--labels={shown(path)}: line {number}"
    if len(row) <= max(columns.file, columns.label) or any(row[columns.count :]):
        raise ConfigError(
            f"{where} has {len(row)} columns, not a file and its class; text with the separator in"
            ' it needs quotes: "a.jpg","cat;dog"'
        )
    name = csv_text(row[columns.file])
    if not _tidied(name):
        raise ConfigError(f"{where} names no file")
    try:
        labels = _classes(csv_text(row[columns.label]))
    except ValueError as error:
        raise ConfigError(f"{where} {error}") from error
    in_row = columns.group is not None and columns.group < len(row)
    return name, labels, _composed(row[columns.group].strip()) if in_row else ""


class _Names:
    """Images by the texts that name them.

    Args:
      pictures: relative to their folder.
      same: returns the same text for names that are taken for one.
    """

    def __init__(self, pictures: Collection[str], same: Callable[[str], str]):
        self._same = same
        # Images by the path, by the path without its extension, and by the name alone.
        self._whole = {}
        self._stems = {}
        self._alone = {}
        for name in pictures:
            whole = same(name)
            last = whole.rsplit("/", 1)[-1]
            self._whole.setdefault(whole, []).append(name)
            self._stems.setdefault(os.path.splitext(whole)[0], []).append(name)
            for text in {last, os.path.splitext(last)[0]}:
                self._alone.setdefault(text, []).append(name)

    def find(self, path: str, row: str) -> _Found | None:
        """Returns the image that a row means, None if there is none."""
        rest = self._same(row).lstrip("/")
        # cat/1.jpg is not dog/1.jpg, even if no other image is called 1.jpg.
        places = self._stems if "/" in rest else self._alone
        # A path may begin further up: data/my_pictures/cat/1.jpg is cat/1.jpg in my_pictures.
        while True:
            if pictures := self._whole.get(rest) or places.get(rest):
                if len(pictures) > 1:
                    where = f"--labels={shown(path)}: {shown(row)}"
                    raise ConfigError(
                        f"{where} is ambiguous: it can be {listed(pictures)}; write one of these"
                        " paths"
                    )
                above = "/".join(row.split("/")[: row.count("/") - rest.count("/")])
                above = os.path.normpath(above) if above else ""
                return _Found(pictures[0], "" if above == "." else above)
            _, slash, rest = rest.partition("/")
            if not slash:
                return None


def _text(labels, group):
    if labels is None:
        text = "no label"
    elif labels:
        text = f"the class {shown(';'.join(labels))}"
    else:
        text = NO_CLASS
    return f"{text} and the group {shown(group)}" if group else text


def _tidied(name: str) -> str:
    """Returns the name of a file without spaces around it and `./` before it, with '/' between
    folders.
    """
    name = name.strip().replace("\\", "/")
    while name.startswith("./"):
        name = name[2:]
    return name


def _composed(text: str) -> str:
    """Returns the text with its accents composed."""
    return unicodedata.normalize("NFC", text)


def _classes(text: str) -> tuple[str, ...] | None:
    """Returns the classes of an image: `cat`, `cat;dog`, `["cat", "dog"]`; () for `no class`, None
    for a blank.

    Raises:
      ValueError: the text can be understood in two ways; the message goes on after 'line 3'.
    """
    text = text.strip()
    content: Any = text.split(";")
    if text[:1] + text[-1:] in ("[]", "{}"):
        try:
            content = json.loads(text, parse_int=str, parse_float=str)
            # {"choices": ["cat", "dog"]} of Label Studio
            if isinstance(content, dict) and len(content) == 1:
                (content,) = content.values()
        except (ValueError, RecursionError):
            content = None
            if _LIST.fullmatch(text):
                content = [quoted[1:-1] for quoted in re.findall(_QUOTED, text)]
        if content == []:
            raise ValueError(
                f"has an empty list; write {NO_CLASS}, or leave it blank if there is no label yet"
            )
        if not isinstance(content, list) or not all(isinstance(name, str) for name in content):
            raise ValueError(f"has the list {text}; write several classes as cat;dog")
    classes = tuple(dict.fromkeys(_composed(name.strip()) for name in content if name.strip()))
    if not any(name.casefold() == NO_CLASS for name in classes):
        return classes or None
    if len(classes) > 1:
        raise ValueError(f"has {NO_CLASS} beside a class")
    return ()


def joined(classes: Collection[str]) -> tuple[str, str] | None:
    """Returns the name of a class that joins others by a separator, with this separator; None if
    there is none.
    """
    for separator in _OTHERS:
        parts = {}
        joints = collections.Counter()
        for name in classes:
            words = [part.strip() for part in name.split(separator)]
            if len(words) > 1 and all(words):
                parts[name] = words
                joints.update({*words})
        alone = {*classes} - {*parts}
        enough = any if separator in _SURE else all
        for name, words in parts.items():
            if enough(part in alone or joints[part] > 1 for part in words):
                return name, separator
    # Names of several words are usual, so all words must be classes, or few words make up many
    # names.
    parts = {name: {*name.split(" ")} for name in classes if " " in name}
    whole = {*classes}
    vocabulary = set().union(*parts.values())
    for name, words in parts.items():
        if words <= whole or 3 * len(vocabulary) <= len(parts):
            return name, " "
    return None


def sharing_words(classes: Collection[str]) -> list[str]:
    """Returns the names of several words of which each is in another name, too: 'cat photo' beside
    'cat', 'cup photo'.

    Such a name may be several classes with a space between them, or one, as 'red fox' beside 'red
    panda' and 'fox'.
    """
    # One spelling of each class.
    name_of = {names.key(name): name for name in sorted(classes)}
    words_of = {name: {*key.split()} for key, name in name_of.items()}
    count = collections.Counter()
    for words in words_of.values():
        count.update(words)

    sharing = []
    for name, words in words_of.items():
        if len(words) > 1 and all(count[word] > 1 for word in words):
            sharing.append(name)
    return sorted(sharing)
