"""The table of labels on the disk: written after each change, edits by others kept, undone without
end.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Optional

from cpc_tf.core.files import write_file, writing
from cpc_tf.core.locks import lock
from cpc_tf.core.settings import ConfigError
from cpc_tf.core.texts import csv_lines, shown
from cpc_tf.data import labels, names
from cpc_tf.data.labels import NO_CLASS, PERSON

COLUMNS = ("file", "label", "by")
_BOM = "\ufeff"  # the first character of a file, by which Excel knows that it is UTF-8


class Label(NamedTuple):
    """What an image is.

    Attributes:
      classes: none of them: 'no class'.
      by: who gave it: PERSON, what another program wrote, or MODEL for a guess that a person
        accepted.
    """

    classes: tuple[str, ...]
    by: str = PERSON


Labels = dict[str, Label]
Change = Mapping[str, Optional[Label]]  # {picture: its label; None: no label}


class LabelTable:
    """The labels of the images of a folder in a CSV file.

    Rows that name no image, other columns, the order of rows, the separator and the ends of lines
    stay as they are. If another program changes the file, what it wrote counts; if one removes it,
    the labels stay and the next change writes them. Several processes can change one table, on one
    machine or on several: each reads what the others wrote and writes its own change under a lock,
    the file PATH.lock.

    Args:
      path: the file, which need not exist.
      pictures: names relative to their folder.
      root: that folder; '': where the paths of rows lead is not asked, see `labels.match`.

    Attributes:
      of: {picture: its label}, of those that have one.

    Raises:
      ConfigError: the file is no table of files and classes, see `labels.read`.
    """

    def __init__(self, path: str, pictures: Sequence[str], root: str = ""):
        self.path, self._pictures, self._root, self.of = path, pictures, root, Labels()
        # {picture: its label before and after}
        self._done: list[dict[str, tuple[Label | None, Label | None]]] = []
        self._undone: list[dict[str, tuple[Label | None, Label | None]]] = []
        self._delimiter = ","
        self._end = "\n"
        self._begin = ""
        self._read()

    @property
    def steps(self) -> tuple[int, int]:
        """How many changes can be undone, and done again."""
        return len(self._done), len(self._undone)

    @property
    def classes(self) -> list[str]:
        """The classes of all labels, in the order in which they came."""
        return list(dict.fromkeys(name for label in self.of.values() for name in label.classes))

    def refresh(self) -> bool:
        """Reads the file again if another program has changed it, and returns whether it did."""
        if self._stamp() in (None, self._written):
            return False
        self._read()
        return True

    def change(self, change: Change) -> None:
        """Gives labels to images, and writes the file.

        Raises:
          ConfigError: a class cannot have this name, or another program wrote a file that is no
            table.
          NotWritten: the file cannot be written; the labels are as before.
        """
        with self._locked():
            self.refresh()
            step = {
                name: (self.of.get(name), label)
                for name, label in change.items()
                if self.of.get(name) != label
            }
            if step:
                self._apply({name: after for name, (_, after) in step.items()})
                self._done.append(step)
                self._undone.clear()

    def undo(self) -> list[str]:
        """Takes the last change back, and returns its images; none if there is none."""
        return self._move(self._done, self._undone, 0)

    def redo(self) -> list[str]:
        """Does again what was undone last, and returns its images."""
        return self._move(self._undone, self._done, 1)

    def _move(self, source: list, target: list, side: int) -> list[str]:
        with self._locked():
            self.refresh()
            if not source:
                return []
            step = source[-1]
            # What another program has changed since stays.
            change = {
                name: pair[side]
                for name, pair in step.items()
                if self.of.get(name) == pair[1 - side]
            }
            self._apply(change)
            target.append(source.pop())
            return [*change]

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Keeps other processes from changing the file. A disk that knows no locks has none."""
        path = f"{os.path.realpath(self.path)}.lock"
        with writing(path):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            is_of_another = os.path.exists(path) and not os.access(path, os.W_OK)
            file = os.open(path, os.O_RDONLY if is_of_another else os.O_RDWR | os.O_CREAT, 0o666)
        with open(file) as opened:
            lock(opened)
            yield

    def _apply(self, change: Change) -> None:
        after = {**self.of, **change}
        after = {name: label for name, label in after.items() if label is not None}
        check_classes({name for label in after.values() for name in label.classes})
        has_row = {*self._picture_of.values()}
        rows = dict.fromkeys([*self._rows, *(name for name in after if name not in has_row)])
        lines = []
        for row in rows:
            label = (
                self._strays[row]
                if row in self._strays
                else after.get(self._picture_of.get(row, row))
            )
            text = "" if label is None else ";".join(label.classes) or NO_CLASS
            cells = self._others.get(row, [""] * len(self._titles))
            lines.append([row, text, "" if label is None else label.by, *cells])
        text = csv_lines([[*COLUMNS, *self._titles], *lines], self._delimiter, self._end)
        write_file(self.path, self._begin + text)
        self.of, self._rows, self._written = after, [*rows], self._stamp()

    def _read(self) -> None:
        """Reads the file. Without one there are no labels."""
        self._written = self._stamp()
        content = labels.Content({})
        if self._written:
            content = labels.read(self.path, may_be_empty=True)
            with open(self.path, encoding="utf-8", newline="") as file:
                first = file.readline()
            self._begin = _BOM if first.startswith(_BOM) else ""
            self._end = "\r\n" if first.endswith("\r\n") else "\n"
            # those that `csv_lines` quotes
            self._delimiter = content.delimiter if content.delimiter in ",;\t" else ","
        matched = labels.match(self.path, content, self._pictures, self._root)

        def label(row: str) -> Label | None:
            classes = content.classes[row]
            return None if classes is None else Label(classes, content.by.get(row, PERSON))

        self._rows = [row for row in content.classes if row != matched.title]
        self._picture_of = matched.rows
        self._titles = content.titles
        self._others = content.others
        self._strays = {row: label(row) for row in matched.absent}
        values = {name: label(row) for row, name in matched.rows.items()}
        self.of = {name: value for name, value in values.items() if value is not None}

    def _stamp(self) -> tuple[int, int, int] | None:
        with contextlib.suppress(FileNotFoundError):
            status = os.stat(self.path)
            return status.st_mtime_ns, status.st_size, status.st_ino
        return None


def check_classes(classes: set[str]) -> None:
    """Raises ConfigError if a class has a name that the tasks would read in another way."""
    for name in classes:
        if not name or name != name.strip() or not name.isprintable() or ";" in name:
            raise ConfigError(
                f"the class {shown(name)}: must be text without semicolons and control characters"
            )
        if name.casefold() == NO_CLASS or names.is_unlabelled(name) or names.is_nothing(name):
            raise ConfigError(
                f"the class {shown(name)}: this name is read as no label; choose another one"
            )
    if pair := labels.joined(classes):
        raise ConfigError(
            f"the class {shown(pair[0])}: seems to join other classes by {pair[1]!a}; use _ in its"
            " place"
        )
