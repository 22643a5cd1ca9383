"""Ends a program on a signal with one line: at once, or in training after the step under way was
saved.

The signals are SIGTERM, SIGINT (Ctrl-C) and SIGHUP (the terminal is gone).

Python runs a handler only when its main thread comes back from C++, which can compile for minutes.
In a program a thread waits for signals, too, and ends the process if the main thread does not
within seconds. A program imports this first: it imports nothing that takes time.
"""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from typing import NoReturn

# Windows has none
_SIGNALS = (
    signal.SIGTERM,
    signal.SIGINT,
    *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else []),
)
# seconds that the main thread has to end by itself, in which it removes its locks and scratch files
_PATIENCE = 3.0
_HURRY = 0.5  # the same after a second signal
_stderr: list[int] = []  # a copy of it, once signals are watched
_said: list[str] = []  # the line, once it is printed


class Interrupted(KeyboardInterrupt):
    """A signal came outside of training. Not an Exception: nothing may handle it as a failure of
    its own.
    """

    def __init__(self, number: int):
        super().__init__(number)
        self.number = number


def name_of(number: int) -> str:
    """Returns the name of a signal; Python has none for most of the real-time signals."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def say(line: str) -> None:
    """Prints the line of a program that a signal ends, which is no error."""
    _said.append(line)
    with contextlib.suppress(OSError):  # SIGHUP: the terminal is gone
        print(line, file=sys.stderr, flush=True)


def stopped_by(number: int) -> str:
    """Returns the beginning of that line."""
    return f"stopped by {name_of(number)}"


def status_of(number: int) -> int:
    """Returns what a shell reports for a process that a signal ended."""
    return 128 + number


def watch() -> None:
    """Makes signals end this process within seconds, with one line. For programs: it sets handlers
    of the process.

    Until `interrupting` the handler ends the process itself: nothing was begun.
    """
    if _stderr or threading.current_thread() is not threading.main_thread():
        return
    _stderr.append(_copy_of_stderr())  # while TensorFlow is imported, stderr is put aside
    _handle(_end_now)
    read, write = os.pipe()
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    os.register_at_fork(after_in_child=lambda: signal.set_wakeup_fd(-1))
    threading.Thread(target=_end_if_nobody_does, args=(read,), daemon=True).start()


@contextlib.contextmanager
def interrupting() -> Iterator[list[int]]:
    """Makes the first signal raise Interrupted in the main thread.

    Yields:
      A list to which the signals are added. Libraries in C++ can make another error of what is
      raised within them.
    """
    received: list[int] = []

    def interrupt(number: int, frame: object) -> None:
        _leave_terminal(number)
        received.append(number)
        if len(received) == 1:  # a second one must not disturb what the first one ends
            raise Interrupted(number)

    with _handling(interrupt):
        yield received


class Deferred:
    """A context in which, from `begin` on, the first signal only sets `number`; a second one raises
    Interrupted.
    """

    number = 0

    def __enter__(self) -> Deferred:
        self._handlers: contextlib.ExitStack | None = None
        return self

    def begin(self) -> None:
        """Defers signals from now on: there is work to be saved."""
        if not self._handlers:
            self._handlers = contextlib.ExitStack()
            self._handlers.enter_context(_handling(self._note))

    def __exit__(self, *_) -> None:
        if self._handlers:
            self._handlers.close()

    def _note(self, number: int, frame: object) -> None:
        _leave_terminal(number)
        if self.number:
            raise Interrupted(number)
        self.number = number


def unhandled() -> contextlib.AbstractContextManager[None]:
    """A context in which a signal ends the process as it does without handlers: at once, and
    without a line.
    """
    return _handling(signal.SIG_DFL)


@contextlib.contextmanager
def _handling(handler: Callable | signal.Handlers) -> Iterator[None]:
    before = _handle(handler)
    try:
        yield
    finally:
        for number, other in before.items():
            signal.signal(number, other)


def _handle(handler: Callable | signal.Handlers) -> dict:
    """Sets a handler of the signals, except of those that are ignored, as with nohup. Returns the
    handlers before.

    In another thread than the main one, which Python lets have none, nothing is set.
    """
    if threading.current_thread() is not threading.main_thread():
        return {}
    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    return {
        number: signal.signal(number, handler)
        for number in handlers
        if handlers[number] is not signal.SIG_IGN
    }


def _leave_terminal(number: int) -> None:
    """After SIGHUP, prints what goes to a terminal nowhere: it is gone, and an error would end the
    step under way.
    """
    for stream in (1, 2) if number == getattr(signal, "SIGHUP", None) else ():
        with contextlib.suppress(OSError):
            if stat.S_ISCHR(os.fstat(stream).st_mode):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream)


def _end_if_nobody_does(pipe: int) -> NoReturn:
    """Waits for signals, and ends the process some seconds after one for which the main thread
    should have ended it.
    """
    received = 0
    explaining = None
    while True:
        for number in os.read(pipe, 64):
            handler = signal.getsignal(number)
            if getattr(handler, "__module__", None) != __name__:  # another program's
                continue
            received += 1
            if received == 1 and getattr(handler, "__func__", None) is Deferred._note:
                # The step under way is saved first, however long it takes.
                explaining = threading.Timer(_PATIENCE, _explain, [number])
                explaining.daemon = True
                explaining.start()
                continue
            if explaining:
                explaining.cancel()
            timer = threading.Timer(_PATIENCE if received == 1 else _HURRY, _end_now, [number])
            timer.daemon = True  # a process that ends by itself does not wait for it
            timer.start()


def _explain(number: int) -> None:
    """Says why the process has not ended, if it is still there."""
    if not _said:
        line = "saving the steps that are under way first; a second signal ends without saving"
        with contextlib.suppress(OSError):
            os.write(_stderr[0], f"{name_of(number)}: {line}\n".encode())


def _end_now(number: int, frame: object = None) -> NoReturn:
    """Ends the process, with its line if the main thread has not said it."""
    if not _said:
        with contextlib.suppress(OSError):
            os.write(_stderr[0], f"{stopped_by(number)}\n".encode())
    os._exit(status_of(number))


def _copy_of_stderr() -> int:
    try:
        return os.dup(2)
    except OSError:  # there is none
        return os.open(os.devnull, os.O_WRONLY)
