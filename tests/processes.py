"""Starts binaries of ours as processes of their own, without importing TensorFlow for each.

`prepare` forks a process that has imported TensorFlow and waits: the server. It forks one process
for each binary that a test starts. Such a process is like `python -m MODULE`, but what was imported
before the fork is imported already; of our binaries that is all that the module imports. It heeds
SIGINT, even if the tests run in the background. Elsewhere than on Linux, processes are started as
usual.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import json
import os
import random
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable

import numpy as np

from cpc_tf.core import commands

_PR_SET_CHILD_SUBREAPER = (
    36  # a process whose parent has ended becomes our child, so that we can wait for it
)
_server: socket.socket | None = None
_server_pid = 0


def prepare() -> None:
    """Forks the server. No operation of TensorFlow may have run in this process: it would not run
    in a fork.
    """
    global _server, _server_pid
    if (
        _server
        or not sys.platform.startswith("linux")
        or ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    ):
        return
    _server, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    gc.freeze()  # so that the garbage collector writes into no page that processes share
    _server_pid = os.fork()
    if _server_pid == 0:
        _server.close()
        _serve(theirs)
    theirs.close()


def finish() -> None:
    """Ends the server; its CPU seconds are then among those of the children of this process."""
    if _server_pid and _server:
        _server.close()
        os.waitpid(_server_pid, 0)


def start(module: str, *words: object, **options) -> subprocess.Popen:
    """Starts `python -m module *words`.

    Args:
      module: a module with a `__main__` part. *words: of its command line.
      **options: env, cwd, stdout and stderr as for subprocess.Popen; by default both outputs are
        pipes.

    Returns:
      A Popen whose pipes are text.
    """
    command = [sys.executable, "-m", module, *map(str, words)]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return (_Forked if _server else subprocess.Popen)(command, text=True, **options)


def run(
    module: str, *words: object, timeout: float = 600, **options
) -> subprocess.CompletedProcess:
    """Runs `python -m module *words` to its end, as subprocess.run does; options as for `start`."""
    process = start(module, *words, **options)
    try:
        output, errors = process.communicate(timeout=timeout)
    except BaseException:
        process.kill()
        process.wait()
        raise
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)


def wait_for(process: subprocess.Popen, text: str) -> str:
    """Reads what a process prints up to a line with a text, and returns that line."""
    for line in process.stdout:
        if text in line:
            return line
    raise AssertionError(f"ended with {process.wait()} before it printed {text!r}")


def cluster(module: str, *words: object, **options) -> Callable[[int], subprocess.Popen]:
    """Returns a function that starts the process with a number, 0 or 1, of two that train together;
    see `start`.
    """
    sockets = [socket.create_server(("localhost", 0)) for _ in range(2)]
    addresses = [f"localhost:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()

    def start_one(number: int) -> subprocess.Popen:
        config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": number}}
        environment = {**os.environ, "TF_CONFIG": json.dumps(config)}
        return start(
            module,
            "--strategy=multiworker",
            *words,
            env=environment,
            stderr=subprocess.STDOUT,
            **options,
        )

    return start_one


class _Forked(subprocess.Popen):
    """A Popen whose process the server forks."""

    def _execute_child(self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *others):
        # In every Python from 3.9 to 3.13: startupinfo, creationflags, shell, and both ends of the
        # three pipes.
        c2pread, c2pwrite, errread, errwrite = others[5:9]
        order = [args[2:], os.fspath(cwd or os.getcwd()), dict(os.environ if env is None else env)]
        outputs = [number if end == -1 else end for number, end in ((1, c2pwrite), (2, errwrite))]
        ours, theirs = socket.socketpair()
        socket.send_fds(_server, [args[2].encode()], [theirs.fileno(), *outputs])
        theirs.close()
        with ours, ours.makefile("rw") as file:
            file.write(json.dumps(order) + "\n")
            file.flush()
            self.pid = int(file.readline())
        self._child_created = True
        for read, write in ((c2pread, c2pwrite), (errread, errwrite)):
            if read != -1:  # a pipe, and no file of the test's
                os.close(write)


def _serve(orders: socket.socket) -> None:
    """Forks a process for each order, until the process of the tests ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests
    gc.set_threshold(100_000, 20, 20)  # as in conftest.py
    sys.modules.pop("tests.conftest", None)  # its import was under way when this process was forked
    while True:
        module, descriptors, *_ = socket.recv_fds(orders, 1000, 3)
        if not module:
            os._exit(0)
        _import(module.decode())
        middle = os.fork()
        if middle == 0:
            middle = os.getpid()
            # the parent ends at once, so that the child gets a new one: the process of the tests
            if os.fork():
                os._exit(0)
            while os.getppid() == middle:
                time.sleep(0.001)
            orders.close()
            _become(*descriptors)
        os.waitpid(middle, 0)
        for descriptor in descriptors:
            os.close(descriptor)


def _import(module: str) -> None:
    """Imports what a command of ours does, but does not run it; what fails here fails in the
    command, too.
    """
    name = module.rpartition(".")[2]
    place = (
        commands.COMMANDS[name].function.partition(":")[0] if name in commands.COMMANDS else module
    )
    if place.split(".")[0] == "cpc_tf" and place not in sys.modules:
        with contextlib.suppress(Exception):
            importlib.import_module(place)
        gc.freeze()


def _become(connection: int, stdout: int, stderr: int) -> None:
    """Runs a module as if Python had been started for it."""
    with socket.socket(fileno=connection) as answer, answer.makefile("rw") as file:
        (module, *words), folder, environment = json.loads(file.readline())
        file.write(f"{os.getpid()}\n")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, output in ((1, stdout), (2, stderr)):
        os.dup2(output, number)
        os.close(output)
    sys.stdin = open(0)  # noqa: SIM115 its own
    sys.stdout = open(1, "w")  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1)  # noqa: SIM115
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    random.seed()
    np.random.seed()  # noqa: NPY002 the state that third-party code may use
    sys.argv, sys.orig_argv = [module, *words], [sys.executable, "-m", module, *words]
    sys.modules.pop(f"{module}.__main__", None)
    if not hasattr(sys.modules.get(module), "__path__"):  # no package
        sys.modules.pop(module, None)
    status = 1
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        status = 0
    except SystemExit as ended:
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
        else:
            status = int(ended.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        threading._shutdown()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
