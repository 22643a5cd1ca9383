"""The unfinished output of `predict`, a line of JSON a picture, from which the same command goes on."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO

import tensorflow as tf

from cpc_tf.files import writing
from cpc_tf.predict.records import Record, from_line, to_line
from cpc_tf.settings import ConfigError

SUFFIX = ".part"


class Part:
    """An open file of records.

    Attributes:
      path: of the file.
      records: what it held when it was opened.
    """

    def __init__(self, path: str, file: BinaryIO, records: list[Record]):
        self.path, self.records, self._file = path, records, file

    def append(self, records: Sequence[Record]) -> None:
        """Adds records behind the last. Raises NotWritten."""
        with writing(self.path):
            _write(self._file, "".join(map(to_line, records)).encode())


def _write(file: BinaryIO, content: bytes) -> None:
    """Writes all of it. The file has no buffer: what did not fit on a disk would be tried again as it is closed."""
    rest = memoryview(content)
    while rest:
        rest = rest[file.write(rest) :]


def path_of(output: str) -> str:
    """Returns the path of the unfinished file beside an --output."""
    return output.rstrip("/") + SUFFIX


def is_finished(output: str) -> bool:
    """Returns whether an --output is there, and no unfinished one beside it. Raises NotWritten if it cannot be seen."""
    with writing(output):
        return tf.io.gfile.exists(output) and not tf.io.gfile.exists(path_of(output))


@contextmanager
def opened(output: str, about: Mapping[str, Any]) -> Iterator[Part]:
    """Yields the unfinished file beside `output`, new or with the whole lines that an earlier process left.

    Args:
      output: the path of the finished output.
      about: what the records depend on, by name for messages: the model, the pictures, settings.

    Raises:
      ConfigError: it depends on something else, is damaged, or another process writes it.
      NotWritten: it cannot be written.
    """
    path = path_of(output)
    with writing(path):
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        file = open(path, "a+b", buffering=0)  # noqa: SIM115 (its errors are those of writing; those within are not)
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ConfigError("output", output, f"another process is writing {path}") from error
        file.seek(0)
        whole = file.read().rpartition(b"\n")[0]
        head, *lines = whole.split(b"\n") if whole else [b""]
        wanted = json.dumps(dict(about)).encode()
        with writing(path):
            if head:
                _check(path, output, head, about)
                file.truncate(len(whole) + 1)  # the last line may have been cut off
            else:
                file.truncate(0)
                _write(file, wanted + b"\n")
        try:
            records = [from_line(line.decode()) for line in lines]
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"{path}: is damaged; remove it to begin again") from error
        yield Part(path, file, records)


def _check(path: str, output: str, head: bytes, about: Mapping[str, Any]) -> None:
    try:
        known = json.loads(head)
        # What is None here may be missing in a file of an earlier version.
        found = {name: known.get(name) if value is None else known[name] for name, value in about.items()}
        different = [name for name, value in about.items() if found[name] != value]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{path}: is damaged; remove it to begin again") from error
    if different:
        raise ConfigError(
            "output",
            output,
            f"{path} was begun with other {' and '.join(different)}; remove it to begin again, or choose another name",
        )
