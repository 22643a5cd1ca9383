"""The program `cpc-tf`, which is also `python -m cpc_tf`: all commands under one name."""

from __future__ import annotations

import difflib
import os
import runpy
import sys
from collections.abc import Sequence

import cpc_tf
from cpc_tf import presets
from cpc_tf.settings import ConfigError
from cpc_tf.texts import shown

# Command -> (module that `python -m` runs, what it does), in the order in which a newcomer needs them.
COMMANDS = {
    "pretrain": ("cpc_tf.pretrain", "learn an encoder from pictures without labels"),
    "linear": ("cpc_tf.linear", "train a linear classifier on a frozen encoder, and measure it"),
    "efficient": ("cpc_tf.efficient", "train a classifier on few labels, and fine-tune the encoder"),
    "detect": ("cpc_tf.detect", "train a detector on pictures with boxes"),
    "export": ("cpc_tf.export", "write the encoder, classifier or detector of a run as a SavedModel"),
    "predict": ("cpc_tf.predict", "say what is on new pictures, with an exported classifier or detector"),
    "embed": ("cpc_tf.embed", "write the features of pictures; map them, find neighbours and duplicates"),
    "report": ("cpc_tf.report", "put all results below a folder on one page"),
    "launch": ("cpc_tf.launch", "train on a Cloud TPU: create it, follow the training, delete it"),
    "feed": ("cpc_tf.feed", "read and augment the pictures of a training on another machine: an input server"),
    "show": ("cpc_tf.show_patches", "draw the patches that an encoder sees"),
}
_HELP = """cpc-tf {version}: learn from pictures without labels, then classify or detect with few.

First, on photographs that come with the program (some minutes on two CPU cores):
  cpc-tf pretrain --preset=photos/pretrain --workdir=runs/photos/small/pretrain
  cpc-tf export   --workdir=runs/photos/small/pretrain --output=runs/photos/small/hub
  cpc-tf linear   --preset=photos/linear --encoder=runs/photos/small/hub \\
    --workdir=runs/photos/small/linear
  cpc-tf report   --runs=runs --output=report
Then on your own: --preset=imagenette/pretrain --dataset=folder:MY_PICTURES

Commands:
{commands}
  presets    list the presets with their cost; `cpc-tf presets NAME` prints one
`cpc-tf COMMAND --help` lists its flags. A run that was stopped goes on with the same command."""


def main() -> int:
    """Runs the command line of this process and returns its exit status."""
    return run(sys.argv[1:])


def run(words: Sequence[str]) -> int:
    """Runs a command.

    Args:
      words: of the command line, without the program's name.

    Returns:
      The exit status: 2 if there is no such command or preset. A command of COMMANDS ends by SystemExit, as absl does.
    """
    word, *others = words or ["--help"]
    try:
        if word in ("help", "--help", "-h", "-help"):
            print(_HELP.format(version=cpc_tf.__version__, commands=_listed()))
        elif word in ("version", "--version"):
            print(cpc_tf.__version__)
        elif word == "presets":
            _presets(others)
            sys.stdout.flush()
        elif word in COMMANDS:
            sys.argv = [f"cpc-tf {word}", *others]
            runpy.run_module(COMMANDS[word][0], run_name="__main__", alter_sys=True)
        else:
            near = difflib.get_close_matches(word, [*COMMANDS, "presets"], n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise ConfigError(f"{shown(word)}: no such command; {hint}`cpc-tf --help` lists them")
    except ConfigError as refusal:
        print(f"error: {refusal}", file=sys.stderr)
        return refusal.status
    except BrokenPipeError:  # as in `cpc-tf presets | head`; nothing is left to be written at the exit
        if word in COMMANDS:
            raise  # a training has not ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _listed() -> str:
    return "\n".join(f"  {name:<10} {what}" for name, (_, what) in COMMANDS.items())


def _presets(words: Sequence[str]) -> None:
    """Prints all presets, those whose names contain the first word, or the one of that name."""
    wanted = words[0] if words else ""
    if wanted in presets.names():
        print(presets.read(wanted), end="")
        return
    found = [name for name in presets.names() if wanted in name]
    if not found:
        presets.path(wanted)  # raises the error that names similar ones
    for name in found:
        header = presets.header(name)
        print(f"{name}\n    {header.what}\n    Cost: {header.cost}")
    print("\n`cpc-tf presets NAME` prints one. Use: cpc-tf pretrain --preset=photos/pretrain --workdir=runs/first")
