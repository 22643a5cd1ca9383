"""Runs commands in turn, each in a process of its own, but imports TensorFlow once: that takes longer than most do.

Figures are not drawn: that takes a third of the time of a small run.

    python -m tests.paper.in_turn < LINES     # of a line each: MODULE ARGUMENTS

It ends with the status of the first command that fails.
"""

import os
import runpy
import shlex
import sys
import traceback

import tensorflow_datasets  # noqa: F401

from cpc_tf.report import page  # noqa: F401
from cpc_tf.results import plots
from cpc_tf.tasks import TASKS  # noqa: F401


def run(module, arguments):
    """Runs `python -m MODULE ARGUMENTS` in a process of its own and returns its status."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    status = 1
    try:
        sys.argv = [module, *arguments]
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    plots.png = lambda *_, **__: b"\x89PNG"
    for line in sys.stdin.read().splitlines():
        print(f"# {line}")
        name, *words = shlex.split(line)
        if status := run(name, words):
            sys.exit(status)
