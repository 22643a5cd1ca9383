"""The processes that train together: they meet, agree on a number, and end when one of them is lost."""

from __future__ import annotations

import contextlib
import functools
import select
import signal
import socket
import time
from collections.abc import Iterator, Sequence

import tensorflow as tf

from cpc_tf.files import reason
from cpc_tf.settings import ConfigError, RunEnded
from cpc_tf.texts import shown

WAIT = 300  # seconds that a process waits until all others have started
_SET_UP = 120  # seconds that TensorFlow may then take to connect them: less than WAIT, so that the others still wait
# What the collective operations of the others end with, 20 seconds at most after a process was killed.
_LOST = (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError, tf.errors.DeadlineExceededError)
_GO = b"all are here"


class LostWorker(RunEnded):
    """Another process of the cluster has ended or cannot be reached."""

    status = 6

    def __init__(self, error: tf.errors.OpError):
        why = error.message.rpartition("aborted by: ")[2].strip().partition("\n")[0]
        super().__init__(
            "another process of the cluster has ended or cannot be reached; start the same command again on each "
            f"machine: the run goes on from its last checkpoint ({why})"
        )


@contextlib.contextmanager
def together(strategy: str) -> Iterator[None]:
    """Re-raises the errors of a process that lost another one as LostWorker.

    Args:
      strategy: --strategy of the run; nothing is changed unless it is 'multiworker'.
    """
    try:
        yield
    except (*_LOST, RunEnded) as error:
        # Saving and loading are joint operations, too, and their errors have become others.
        cause = error.__cause__ if isinstance(error, RunEnded) else error
        if strategy != "multiworker" or not isinstance(cause, _LOST):
            raise
        raise LostWorker(cause) from error


def connect(addresses: Sequence[str], index: int) -> tf.distribute.Strategy:
    """Returns the strategy of all processes, once all have started.

    Args:
      addresses: of all processes that train, the first one's first.
      index: of this process among them.

    Raises:
      ConfigError: one of them has not started within WAIT seconds.
    """
    if len(addresses) > 1:
        _meet(addresses, index, WAIT)
        # TensorFlow waits up to an hour for a process that ends now, and lets no code in Python run meanwhile.
        signal.alarm(_SET_UP)
    try:
        return tf.distribute.MultiWorkerMirroredStrategy()
    finally:
        signal.alarm(0)


def hosts(strategy: tf.distribute.Strategy) -> int:
    """Returns how many machines read data, once all processes have called this."""
    return strategy.extended.num_hosts if isinstance(strategy, tf.distribute.TPUStrategy) else total(strategy, 1)


def total(strategy: tf.distribute.Strategy, value: int) -> int:
    """Returns the sum of `value` over all processes, once all have called this; `value` itself if there is only one."""
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return value
    values = strategy.experimental_distribute_values_from_function(lambda _: tf.constant(value, tf.int64))
    replicas = len(strategy.experimental_local_results(values))
    return int(_sum(strategy, values)) // replicas


@functools.partial(tf.function, autograph=False)
def _sum(strategy, values):
    return strategy.reduce(tf.distribute.ReduceOp.SUM, values, axis=None)


def _meet(addresses: Sequence[str], index: int, wait: float) -> None:
    """Returns once all processes have called this: the first listens at its address until all others have connected.

    Raises:
      ConfigError: one of them has not come within `wait` seconds.
    """
    host, _, port = addresses[0].rpartition(":")
    if not port.isdigit():
        raise ConfigError(f"--strategy=multiworker: {shown(addresses[0])} in TF_CONFIG: must be HOST:PORT")
    deadline, missing = time.monotonic() + wait, [0]
    while missing and time.monotonic() < deadline:
        try:
            if index == 0:
                missing = _gather(int(port), len(addresses), deadline)
            else:
                missing = _report(host.strip("[]"), int(port), index, deadline)
        except OSError as error:
            missing, why = [0], f" ({reason(error)})"
        else:
            why = ""
        if missing:
            time.sleep(0.2)
    if missing:
        names = ", ".join(addresses[number] for number in missing)
        raise ConfigError(
            f"--strategy=multiworker: waited {wait:g} seconds in vain for {names} of TF_CONFIG{why}; start the same "
            "command on each machine"
        )


def _gather(port: int, count: int, deadline: float) -> list[int]:
    """Waits for the `count` - 1 other processes, lets them go on, and returns which are missing at the deadline."""
    family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(
            socket.create_server(("", port), family=family, dualstack_ipv6=family == socket.AF_INET6)
        )
        came: dict[int, socket.socket] = {}
        while len(came) < count - 1 and time.monotonic() < deadline:
            readable, _, _ = select.select([server, *came.values()], [], [], 0.2)
            came = {number: each for number, each in came.items() if each not in readable}  # those have ended
            if server in readable:
                connection = stack.enter_context(server.accept()[0])
                connection.settimeout(5)
                with contextlib.suppress(OSError, ValueError):
                    number = int(connection.recv(16))
                    if 0 < number < count:
                        came[number] = connection
        missing = [number for number in range(1, count) if number not in came]
        for connection in () if missing else came.values():
            connection.sendall(_GO)
        return missing


def _report(host: str, port: int, index: int, deadline: float) -> list[int]:
    """Tells the first process that this one has started, and returns [] once all have, [0] if the first one ends."""
    with socket.create_connection((host, port), timeout=5) as connection:
        connection.sendall(str(index).encode())
        connection.settimeout(max(0.1, deadline - time.monotonic()))
        # Anything else comes from a TensorFlow server that will end soon: it has lost this process's predecessor.
        return [] if connection.recv(len(_GO)) == _GO else [0]
