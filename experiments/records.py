"""The records of a study: whether one is of the settings that the study has today, and how they are written."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import json
import os
import pathlib
import shlex
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from cpc_tf import cli
from cpc_tf.export.config import ExportConfig
from cpc_tf.files import write_file
from cpc_tf.settings import ConfigError, flatten
from cpc_tf.tasks import TASKS

Command = Sequence[str]  # module and flags
CONFIGS = {"export": ExportConfig, **{task.module: task.config for task in TASKS.values()}}
# Flags that say where something lies. What lies there is a setting of these, as far as its name tells.
NAMED = ("dataset", "pictures", "encoder", "initial_encoder")
PLACES = (*NAMED, "module", "workdir", "output", "data_dir")


def settings(command: Command) -> dict[str, Any]:
    """{flag: value} of a command with those of its presets and the defaults, and its module as ''.

    Of places only those in NAMED are there, by their last part. Of a module of unknown flags, or with flags that do not
    parse, these are the flags as they are given, the last one of a name.
    """
    module, *words = command
    try:
        values = flatten(cli.parse(CONFIGS[module], words, recorded=True))
    except (KeyError, ConfigError):
        given = (word[2:].partition("=") for word in words if word.startswith("--"))
        values = {name: value for name, _, value in given}
    named = {name: _last_part(value) for name, value in values.items() if name in NAMED}
    return {"": module, **{name: value for name, value in values.items() if name not in PLACES}, **named}


def _last_part(place: str) -> str:
    """'network:hub' of 'network:runs/a/hub'; a handle or a bucket as it is."""
    kind, colon, path = place.rpartition(":")
    return place if "://" in place else kind + colon + os.path.basename(path.rstrip("/"))


def as_line(command: Command) -> str:
    """All `settings` of a command as one line, which is again a command with these settings."""
    module, *values = settings(command).items()
    flags = [f"--{name}={str(value).lower() if isinstance(value, bool) else value}" for name, value in values]
    return shlex.join([module[1], *flags])


def difference(found: Sequence[str], commands: Sequence[Command]) -> str:
    """How the settings of commands written as lines differ from those of a study's commands; '' if they do not."""
    before = [settings(shlex.split(line.removeprefix("python -m "))) if line else {} for line in found]
    now = [settings(command) for command in commands]
    if before == now:
        return ""
    gone, new = (_beyond(some, others) for some, others in ((before, now), (now, before)))
    return f"made with {gone or 'nothing'} where this study has {new or 'nothing'}"


def _beyond(some: Sequence[dict[str, Any]], others: Sequence[dict[str, Any]]) -> str:
    """The modules and flags of some commands that others do not have."""
    known = {item for command in others for item in _items(command)}
    words = []
    for command in some:
        module = command.get("", "")
        own = [item for item in _items(command) if item not in known]
        if module not in (other.get("") for other in others):
            words.append(module)
        else:
            words += [f"--{name}={value}" if value != "" else f"--{name}" for _, name, value in own]
    return shlex.join(dict.fromkeys(words))


def _items(command: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(command.get("", ""), name, str(value)) for name, value in command.items() if name]


@functools.cache
def weights(module: str) -> str:
    """A digest of the values in the directory of a module; '' if there are none."""
    files = sorted(pathlib.Path(module, "variables").glob("*"))
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()[:16] if files else ""


def given_weights(steps: Sequence[tuple[Command, str]]) -> dict[str, str]:
    """{name: `weights`} of the modules that a run is given: not those that it exports itself."""
    made = [os.path.dirname(file) for _, file in steps]
    words = (word.partition("=") for command, _ in steps for word in command)
    places = [value for name, _, value in words if name in ("--encoder", "--initial_encoder")]
    paths = {place: place.rpartition(":")[2] for place in places if "://" not in place}
    found = {_last_part(place): weights(path) for place, path in paths.items() if path not in made}
    return {name: digest for name, digest in found.items() if digest}


class Standing(NamedTuple):
    """What the records hold of a run: a record of its settings, or how those of the others differ."""

    record: dict | None
    other: str = ""


def standing(fields: dict, steps: Sequence[tuple[Command, str]], records: Sequence[dict]) -> Standing:
    """Whether a run with these fields and steps is recorded.

    A record from before `settings` were recorded has those that its commands have by the presets of today.
    """
    commands, given, other = [command for command, _ in steps], given_weights(steps), ""
    for record in records:
        if not fields.items() <= record.items():
            continue
        other = difference(record.get("settings") or record.get("commands", ()), commands)
        changed = [name for name, digest in record.get("weights", {}).items() if given.get(name, digest) != digest]
        if not other and changed:
            other = f"made with other values in {', '.join(changed)} than this study has"
        if not other:
            return Standing(record)
    return Standing(None, other)


def read(path: pathlib.Path) -> list[dict]:
    """All records of a study; none if it has no file."""
    return json.loads(path.read_text()) if path.exists() else []


def add(path: pathlib.Path, record: dict, fields: dict, steps: Sequence[tuple[Command, str]]) -> str:
    """Adds a record of a run to what the file holds now, whoever wrote it; says what became of one that is there.

    Records of the same fields and other settings move to a file of the same name in `earlier_results`.
    """
    with _alone_in(path.parent):
        records = read(path)
        if standing(fields, steps, records).record:
            return "recorded by another process meanwhile"
        replaced = [other for other in records if fields.items() <= other.items()]
        earlier = path.parent.parent / "earlier_results" / path.name
        if replaced:
            _write(earlier, [*read(earlier), *replaced])
        _write(path, [*(other for other in records if other not in replaced), record])
    return f"the record of other settings moved to {earlier.parent.name}/{earlier.name}" if replaced else ""


def _write(path: pathlib.Path, records: Sequence[dict]) -> None:
    write_file(str(path), json.dumps(records, indent=1) + "\n")


@contextlib.contextmanager
def _alone_in(folder: pathlib.Path) -> Iterator[None]:
    """Within it no other process, and no other thread, writes records there; a killed one lets go."""
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
