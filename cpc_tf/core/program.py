"""The program `cpc-tf`, which is also `python -m cpc_tf`: all commands under one name."""

from __future__ import annotations

import difflib
import faulthandler
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TextIO

import cpc_tf
from cpc_tf.core import cli, termination, versions
from cpc_tf.core.commands import COMMANDS
from cpc_tf.core.settings import ConfigError, RunEnded, Settings
from cpc_tf.core.texts import shown

_HELP = """cpc-tf {version}: learn from images without labels, then classify or detect with few.
First, on photographs that come with the program (some minutes on two CPU cores):
  cpc-tf pretrain --preset=photos/pretrain --workdir=runs/photos/small/pretrain
  cpc-tf export --workdir=runs/photos/small/pretrain --output=runs/photos/small/hub
  cpc-tf linear --preset=photos/linear --encoder=runs/photos/small/hub --workdir=runs/photos/linear
Then on your own: cpc-tf classify --labelled=MY_PICTURES --labels=LABELS.csv

Commands:
{commands}
  presets    list the presets with their cost; `cpc-tf presets NAME` prints one
  version    print the versions of the program, TensorFlow, Keras and Python, for a bug report
`cpc-tf COMMAND --help` lists its flags. Run the same command to resume a run that was stopped."""


def main(command: str = "") -> int:
    """Runs the command line of this process, of `cpc-tf` or of a command alone, and returns its
    exit status: 1 after a bug, which is printed with the versions that it runs with.
    """
    termination.watch()  # a signal ends it from here on, also during the imports that follow
    if sys.stdout:  # it may be closed
        sys.stdout = _Output(sys.stdout)
    if sys.platform == "win32":
        print(f"error: {cpc_tf.WINDOWS}", file=sys.stderr)
        return ConfigError.status
    try:
        return run([command, *sys.argv[1:]] if command else sys.argv[1:])
    # of a training, whose reader has gone
    except BrokenPipeError:
        raise
    except Exception:
        versions.print_bug()
        return 1


def run(words: Sequence[str]) -> int:
    """Runs a command.

    Args:
      words: of the command line, without the program's name.

    Returns:
      The exit status: 2 if there is no such command or preset. A command of COMMANDS ends by
        SystemExit, as absl does.
    """
    word, *others = words or ["--help"]
    try:
        if word in ("help", "--help", "-h", "-help"):
            lines = [f"  {name:<10} {command.what}" for name, command in COMMANDS.items()]
            print(_HELP.format(version=cpc_tf.__version__, commands="\n".join(lines)))
        elif word in ("version", "--version"):
            print(versions.environment())
        elif word == "presets":
            _presets(others)
        elif word in COMMANDS:
            _start(word, others)
        else:
            near = difflib.get_close_matches(word, [*COMMANDS, "presets"], n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise ConfigError(f"{shown(word)}: no such command; {hint}`cpc-tf --help` lists them")
        print(end="", flush=True)
    except RunEnded as ended:
        print(f"error: {ended}", file=sys.stderr)
        return ended.status
    # as in `cpc-tf presets | head`; nothing is left to be written at the exit
    except BrokenPipeError:
        if word in COMMANDS:
            raise  # a training has not ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


class NotPrinted(RunEnded):
    """Standard output cannot be written: the disk that it leads to is full."""

    status = 4


class _Output:
    """Standard output, of which an error ends a command with one line; not if its reader has
    enough.
    """

    def __init__(self, stream: TextIO):
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        return self._done(self._stream.write, text)

    def flush(self) -> None:
        self._done(self._stream.flush)

    def _done(self, function: Callable, *arguments: str) -> Any:
        try:
            return function(*arguments)
        except BrokenPipeError:
            raise
        except OSError as error:
            # What did not fit would be tried again as Python ends, with a traceback.
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())
            raise NotPrinted(f"standard output cannot be written ({error.strerror})") from error


def _start(name: str, words: Sequence[str]) -> NoReturn:
    """Runs a command with its flags, and exits."""
    command = COMMANDS[name]
    sys.argv = [f"cpc-tf {name}", *words]

    def function(config: Settings) -> None:
        config.check_complete()
        cpc_tf.prepare_environment()
        quietly(lambda: command.run)
        command(config)

    cli.run(command.config, function)


def quietly(load: Callable[[], Any]) -> None:
    """Calls what imports TensorFlow with stderr put aside: from 2.16 on it writes notices at any
    TF_CPP_MIN_LOG_LEVEL.

    They are shown if that is set to another level than 3. If `load` fails, what was written there
    is printed. If it aborts, as on a CPU without the needed instructions, a traceback is.
    """
    if os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3") != "3":
        return load()
    try:
        stderr, notices = os.dup(2), tempfile.TemporaryFile()  # noqa: SIM115 closed below
    except OSError:  # no stderr, or a full disk
        return load()
    traces = not faulthandler.is_enabled()
    if traces:
        faulthandler.enable(stderr)
    os.dup2(notices.fileno(), 2)
    try:
        load()
    except BaseException:
        notices.seek(0)
        os.write(stderr, notices.read())
        raise
    finally:
        os.dup2(stderr, 2)
        if traces:
            faulthandler.disable()
        os.close(stderr)
        notices.close()


def _presets(words: Sequence[str]) -> None:
    """Prints all presets, those whose names contain the first word, or the one of that name."""
    part = words[0] if words else ""
    if part in cli.preset_names():
        print(cli.preset_text(part), end="")
        return
    names = [name for name in cli.preset_names() if part in name]
    if not names:
        cli.preset_path(part)  # raises the error that names similar ones
    for name in names:
        header = cli.preset_header(name)
        print(f"{name}\n    {header.what}\n    Cost: {header.cost}")
    print(
        "\n`cpc-tf presets NAME` prints one. Use: cpc-tf pretrain --preset=photos/pretrain"
        " --workdir=runs/first"
    )
