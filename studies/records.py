"""The records of studies: studies/NAME/records.json, and whether a record has the settings that its
study has today.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import pathlib
import shlex
from collections.abc import Sequence

from cpc_tf.core import cli
from cpc_tf.core.commands import TASKS
from cpc_tf.core.files import write_file
from cpc_tf.core.settings import flatten, leaves
from cpc_tf.export.run import ExportConfig

FOLDER = pathlib.Path(__file__).parent
CONFIGS = {
    "export": ExportConfig,
    **{f"cpc_tf.{name}": task.config for name, task in TASKS.items()},
}
# Flags that name a place, or the run. Of the first ones the last part of the path is compared, the
# others do not count.
NAMED = (
    "dataset",
    "unlabelled",
    "pictures",
    "boxes",
    "drawings",
    "encoder",
    "beside",
    "initial_encoder",
)
PLACES = ("module", "workdir", "output", "data_dir", "rung")
# of a command: modules, whose values count
GIVEN = (
    "--encoder=",
    "--beside=",
    "--initial_encoder=",
    "--module=",
)

Command = Sequence[str]  # module and flags
Steps = Sequence[tuple]  # of (Command, file that the command writes last)


def path(study: str) -> pathlib.Path:
    """The file of a study's records."""
    return FOLDER / study / "records.json"


def read(study: str) -> list[dict]:
    """All records of a study; none if it has no file."""
    return json.loads(path(study).read_text()) if path(study).exists() else []


def add(study: str, record: dict, fields: dict) -> None:
    """Writes a record in place of those with the same fields. Several processes may add at once."""
    path(study).parent.mkdir(parents=True, exist_ok=True)
    folder = os.open(path(study).parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        kept = [other for other in read(study) if not fields.items() <= other.items()]
        write_file(str(path(study)), json.dumps([*kept, record], indent=1) + "\n")
    finally:
        os.close(folder)


def find(fields: dict, steps: Steps, records: Sequence[dict]) -> tuple[dict | None, str]:
    """The record of a run with the settings of these steps; else how the last one with its fields
    differs.
    """
    commands = [command for command, _ in steps]
    values = weights(steps)
    other = ""
    for record in records:
        if fields.items() <= record.items():
            recorded = record.get("weights", {})
            changed = [
                name for name in recorded if recorded[name] != values.get(name, recorded[name])
            ]
            other = f"made with other weights of {', '.join(changed)}" if changed else ""
            other = difference(record["settings"], commands) or other
            if not other:
                return record, ""
    return None, other


def settings(command: Command) -> dict[str, str]:
    """{flag: value} of a command, with the values of its presets and the defaults; its module has
    the key ''.
    """
    module, *words = command
    values = flatten(cli.parse(CONFIGS[module], words)) if module in CONFIGS else _given(words)
    return {
        "": module,
        **{name: _text(name, value) for name, value in values.items() if name not in PLACES},
    }


def as_line(command: Command) -> str:
    """All `settings` of a command in one line."""
    module, *values = settings(command).items()
    return shlex.join([module[1], *(f"--{name}={value}" for name, value in values)])


def difference(lines: Sequence[str], commands: Sequence[Command]) -> str:
    """How settings recorded by `as_line` differ from those of commands; '' if they do not.

    A flag that a line does not have is newer than the record and had today's default. A flag of
    ours that exists no more is not compared.
    """
    before = [{"": line.split()[0], **_given(shlex.split(line)[1:])} for line in lines]
    now = [settings(command) for command in commands]
    modules = [[command[""] for command in side] for side in (before, now)]
    if modules[0] != modules[1]:
        return f"made by {' '.join(modules[0])} where this study has {' '.join(modules[1])}"
    for old, new in zip(before, now):
        config = CONFIGS.get(new[""])
        fields = [field for _, field in leaves(config)] if config else []
        default = {field.name: _text(field.name, field.default) for field in fields}
        # Where the length is given in steps, the number of epochs says nothing, and the other way
        # round.
        instead = {
            field.name: field.metadata["instead"] for field in fields if field.metadata["instead"]
        }
        given = {name for name, other in instead.items() if float(new.get(other, 0))}
        names = [
            name
            for name in [*new, *(() if config else old.keys() - new.keys())]
            if name not in given
        ]
        pairs = {name: (old.get(name, default.get(name)), new.get(name)) for name in names}
        other = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
        if other:
            sides = (
                " ".join(f"--{n}={pair[i]}" for n, pair in other.items() if pair[i] is not None)
                for i in (0, 1)
            )
            return "made with {} where this study has {}".format(
                *(side or "nothing" for side in sides)
            )
    return ""


def weights(steps: Steps) -> dict[str, str]:
    """{name: digest of the values} of the modules that a run is given; not of those that its steps
    export.
    """
    made = [os.path.dirname(file) for _, file in steps]
    words = [word for command, _ in steps for word in command]
    given = [word.partition("=")[2] for word in words if word.startswith(GIVEN)]
    found = {}
    for place in given:
        folder = place.rpartition(":")[2]
        files = (
            []
            if "://" in place or folder in made
            else sorted(pathlib.Path(folder, "variables").glob("*"))
        )
        if files:
            values = b"".join(file.name.encode() + file.read_bytes() for file in files)
            found[_last_part(place)] = hashlib.sha256(values).hexdigest()[:16]
    return found


def _given(words: Sequence[str]) -> dict[str, str]:
    """The flags as they are given; the last one of a name."""
    parts = (word[2:].partition("=") for word in words if word.startswith("--"))
    return {name: _text(name, value) for name, _, value in parts if name not in PLACES}


def _text(name: str, value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return _last_part(text) if name in NAMED else text


def _last_part(place: str) -> str:
    """'graph:hub' of 'graph:runs/a/hub'; a handle or a bucket as it is."""
    kind, colon, path = place.rpartition(":")
    return place if "://" in place else kind + colon + os.path.basename(path.rstrip("/"))
