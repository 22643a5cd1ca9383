"""The processes of TF_CONFIG that train together: they meet, exchange numbers, agree, and end when one is lost."""

from __future__ import annotations

import collections
import contextlib
import functools
import hashlib
import json
import os
import pathlib
import re
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

import cpc_tf
from cpc_tf.core import termination
from cpc_tf.core.files import reason
from cpc_tf.core.settings import ConfigError, RunEnded, Settings, flatten
from cpc_tf.core.texts import listed, shown

WAIT = 300  # seconds that a process waits until all others have started
_SET_UP = 120  # seconds that TensorFlow may then take to connect them: less than WAIT, so that the others still wait
# What the collective operations of the others end with, 20 seconds at most after a process was killed.
_LOST = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
)
_GO = b"all are here"
_WIDTH = 128  # numbers that are sent at a time: of one shape there is one program
_SHOWN = 120  # bytes of a text that differs
_SOURCES = (".py", ".cc", ".h")  # suffixes; each machine compiles its own operations
_PLACES = ("workdir", "data_dir")  # settings: a folder may have another path on each machine
_TASK = re.compile(r"/job:(\w+)(?:/replica:\d+)?/task:(\d+)")  # as errors name a process


class Member(NamedTuple):
    """A process of TF_CONFIG that trains."""

    kind: str  # 'chief' or 'worker'
    task: int  # its number among these
    address: str  # HOST:PORT


def tf_config() -> tuple[dict[str, list[str]], dict[str, Any]]:
    """Returns ({kind of process: addresses}, this process's 'type' and 'index') of TF_CONFIG. Raises ConfigError."""
    text = os.environ.get("TF_CONFIG") or "{}"
    try:
        config = json.loads(text)
        processes, task = config.get("cluster", {}), config.get("task", {})
        if any(isinstance(addresses, str) for addresses in processes.values()):
            raise TypeError("an address in place of a list of them")
        return {kind: list(addresses) for kind, addresses in processes.items()}, dict(task)
    except (ValueError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"TF_CONFIG={shown(text)}: is not the JSON object that TensorFlow expects"
        ) from error


def members() -> tuple[list[Member], int]:
    """Returns the processes of TF_CONFIG that train, the chief first, and the number of this one among them.

    Raises:
      ConfigError: TF_CONFIG names no such processes, or this process is none of them.
    """
    processes, task = tf_config()
    kinds = [kind for kind in ("chief", "worker") if processes.get(kind)]
    if not kinds:
        missing = "names no processes"
        if not os.environ.get("TF_CONFIG"):
            missing = "is not set"  # as when an `export` was lost behind ssh or sudo
        elif processes:
            missing = f"names no 'chief' and no 'worker' (only {', '.join(processes)})"
        raise ConfigError(
            "strategy",
            "multiworker",
            f"the environment variable TF_CONFIG {missing}; set it as docs/gpu.md shows, or take another --strategy "
            "for one machine",
        )
    members = [
        Member(kind, index, address)
        for kind in kinds
        for index, address in enumerate(processes[kind])
    ]
    names = [(member.kind, str(member.task)) for member in members]
    name = (task.get("type"), str(task.get("index", 0)))
    if name not in names:
        raise ConfigError(
            "strategy",
            "multiworker",
            f"the task in TF_CONFIG is {shown(json.dumps(task))}; it must be a 'chief' or a "
            "'worker' of its cluster, since only these train",
        )
    addresses = [member.address for member in members]
    if twice := [address for address in dict.fromkeys(addresses) if addresses.count(address) > 1]:
        raise ConfigError(
            "strategy",
            "multiworker",
            f"several processes of TF_CONFIG have the address {shown(twice[0])}; give each its own",
        )
    return members, names.index(name)


def connect() -> tf.distribute.Strategy:
    """Returns the strategy of all processes of TF_CONFIG, once all have started.

    Raises:
      ConfigError: one of them has not started within WAIT seconds.
    """
    processes, index = members()
    if len(processes) > 1:
        _meet([process.address for process in processes], index, WAIT)
    with _guarded(_SET_UP):
        return tf.distribute.MultiWorkerMirroredStrategy()


def _meet(addresses: Sequence[str], index: int, wait: float) -> None:
    """Waits until every process has called this: the first listens at its address until all others have connected.

    Raises:
      ConfigError: one of them has not come within `wait` seconds.
    """
    host, _, port = addresses[0].rpartition(":")
    if not port.isdigit():
        raise ConfigError(
            "strategy", "multiworker", f"{shown(addresses[0])} in TF_CONFIG: must be HOST:PORT"
        )
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
            "strategy",
            "multiworker",
            f"waited {wait:g} seconds in vain for {names} of TF_CONFIG{why}; start the same command on each machine",
        )


def _gather(port: int, count: int, deadline: float) -> list[int]:
    """Waits for the `count` - 1 other processes, lets them go on, and returns which are missing at the deadline."""
    family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(
            socket.create_server(
                ("", port), family=family, dualstack_ipv6=family == socket.AF_INET6
            )
        )
        came: dict[int, socket.socket] = {}
        while len(came) < count - 1 and time.monotonic() < deadline:
            readable, _, _ = select.select([server, *came.values()], [], [], 0.2)
            came = {
                number: each for number, each in came.items() if each not in readable
            }  # those have ended
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


# Waits for the end of its input, which is the guarded process or what it does; else says a line and ends that process.
_GUARD = """
import os, select, signal, sys
if not select.select([0], [], [], float(sys.argv[1]))[0]:
    print(sys.argv[2], file=sys.stderr, flush=True)
    os.kill(os.getppid(), signal.SIGALRM)
"""


@contextlib.contextmanager
def _guarded(seconds: float) -> Iterator[None]:
    """Ends this process, with a line, if what is done inside takes longer than so many seconds.

    TensorFlow waits up to an hour for a process that ends while they connect, and lets no code in Python run meanwhile:
    another process has to do it, and signals have no handlers.
    """
    line = (
        f"error: --strategy=multiworker: the processes of TF_CONFIG were not connected within {seconds:g} seconds; one "
        "of them has ended, start the same command again on each machine"
    )
    command = [sys.executable, "-c", _GUARD, str(seconds), line]
    with (
        termination.unhandled(),
        subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True),
    ):
        yield


def addresses(strategy: tf.distribute.Strategy) -> list[str]:
    """Returns the addresses of the processes that train together, the chief's first; empty if there is only one."""
    together = isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
    return [member.address for member in members()[0]] if together else []


def process(strategy: tf.distribute.Strategy) -> int:
    """Returns the place of this process in `addresses`, 0 if there is only one."""
    return members()[1] if addresses(strategy) else 0


def replica_names(strategy: tf.distribute.Strategy) -> list[str]:
    """Returns the name of the device of each replica: 'GPU:1', with its host if there are several."""
    names = []
    for device in strategy.extended.worker_devices:
        spec = tf.DeviceSpec.from_string(device)
        of_host = f" of host {spec.task}" if isinstance(strategy, tf.distribute.TPUStrategy) else ""
        names.append(f"{spec.device_type}:{spec.device_index}{of_host}")
    several = addresses(strategy)
    return [f"{name} of {address}" for address in several for name in names] if several else names


def hosts(strategy: tf.distribute.Strategy) -> int:
    """Returns how many machines read data. A collective: every process must call it."""
    return (
        strategy.extended.num_hosts
        if isinstance(strategy, tf.distribute.TPUStrategy)
        else total(strategy, 1)
    )


def total(strategy: tf.distribute.Strategy, value: int) -> int:
    """Returns the sum of `value` over all processes, once all have called this; `value` itself if there is only one."""
    return int(gathered_of_processes(strategy, [value]).sum())


def gathered(strategy: tf.distribute.Strategy, values: Sequence[Sequence[int]]) -> np.ndarray:
    """Returns the values of all replicas. A collective: every process must call it.

    Args:
      strategy: of the run.
      values: of the replicas of this process, one after the other: integers [local replicas, n].

    Returns:
      int64 [replicas, n].
    """
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return np.array(values, np.int64)
    count, values = len(values[0]), np.array(values, np.int64)
    rows_here = iter(np.pad(values, [[0, 0], [0, -count % _WIDTH]]))

    def row(context: tf.distribute.ValueContext) -> tf.Tensor:
        here = tf.one_hot(
            context.replica_id_in_sync_group, context.num_replicas_in_sync, dtype=tf.int64
        )
        return here[:, None] * next(rows_here)

    rows = strategy.experimental_distribute_values_from_function(row)
    return _sum(strategy, rows).numpy()[:, :count]


@functools.partial(tf.function, autograph=False)
def _sum(strategy, values):
    return strategy.reduce(tf.distribute.ReduceOp.SUM, values, axis=None)


def gathered_of_processes(strategy: tf.distribute.Strategy, values: Sequence[int]) -> np.ndarray:
    """Returns the values of all processes, int64 [processes, n]; see `gathered`."""
    count = len(strategy.extended.worker_devices) if addresses(strategy) else 1
    return gathered(strategy, [values] * count)[::count]


def agree(strategy: tf.distribute.Strategy, facts: Callable[[], Mapping[str, object]]) -> None:
    """Compares facts of all processes of a run. A collective: every process must call it.

    Args:
      strategy: of the run.
      facts: returns {name: value}, with the same names in all processes; it is not called if there is only one.

    Raises:
      ConfigError: in all processes; it names those that differ from the others, and in what.
    """
    hosts = addresses(strategy)
    if len(hosts) < 2:
        return
    texts = {name: str(value).encode() for name, value in facts().items()}
    digests = [int.from_bytes(hashlib.sha256(text).digest()[:7], "big") for text in texts.values()]
    table = gathered_of_processes(strategy, digests)  # [processes, facts]
    differ = [index for index in range(len(digests)) if len(set(table[:, index].tolist())) > 1]
    if not differ:
        return
    names = [list(texts)[index] for index in differ]
    text = [*texts[names[0]][:_SHOWN].ljust(_SHOWN, b"\0")]
    values = [
        shown(bytes(row.tolist()).rstrip(b"\0").decode(errors="replace"))
        for row in gathered_of_processes(strategy, text)
    ]
    # The odd ones are those that differ from more than half; all, if there is no such majority.
    column = table[:, differ[0]].tolist()
    usual, count = collections.Counter(column).most_common(1)[0]
    odd = [
        index for index, digest in enumerate(column) if 2 * count <= len(column) or digest != usual
    ]
    parts = [f"{values[index]} at {hosts[index]}" for index in odd]
    if len(odd) < len(hosts):
        parts.append(f"{values[column.index(usual)]} at the others")
    more = f" (and in {listed(names[1:])})" if names[1:] else ""
    raise ConfigError(
        "strategy",
        "multiworker",
        f"the processes of TF_CONFIG differ in {names[0]}{more}: {', '.join(parts)}; all need the same command, "
        "code and data",
    )


def about_program(task: str) -> dict[str, str]:
    """Returns facts on what runs in this process."""
    root, code = pathlib.Path(cpc_tf.__file__).parent, hashlib.sha256()
    for path in sorted(path for path in root.rglob("*") if path.suffix in _SOURCES):
        code.update(str(path.relative_to(root)).encode() + path.read_bytes())
    return {
        "the task": task,
        "the version of cpc_tf": f"{cpc_tf.__version__}, code {code.hexdigest()[:8]}",
        "the version of TensorFlow": tf.__version__,
    }


def about_settings(config: Settings) -> dict[str, object]:
    """Returns the settings that all processes of a run must share: all but the places of data and runs."""
    return {f"--{name}": value for name, value in flatten(config).items() if name not in _PLACES}


class LostWorker(RunEnded):
    """Another process of the cluster has ended or cannot be reached.

    Args:
      error: of TensorFlow.
      who: the processes that are lost, as far as is known.
    """

    status = 6

    def __init__(self, error: tf.errors.OpError, who: Sequence[str] = ()):
        why = error.message.rpartition("aborted by: ")[2].strip().partition("\n")[0]
        super().__init__(
            f"{listed(who) or 'another process of the cluster'} has ended or cannot be reached; start the same command "
            f"again on each machine: the run goes on from its last checkpoint ({why})"
        )


@contextlib.contextmanager
def together(strategy: str, members: Sequence[Member] = (), index: int = 0) -> Iterator[None]:
    """Re-raises the errors of a process that lost another one as LostWorker.

    Args:
      strategy: --strategy of the run; nothing is changed unless it is 'multiworker' or 'tpu'.
      members: the processes that train together.
      index: of this process among them.
    """
    try:
        yield
    except (*_LOST, RunEnded) as error:
        # Saving and loading are joint operations, too, and their errors have become others.
        cause = error.__cause__ if isinstance(error, RunEnded) else error
        if strategy not in ("multiworker", "tpu") or not isinstance(cause, _LOST):
            raise
        tasks = _TASK.findall(cause.message)
        if strategy == "multiworker":
            raise LostWorker(cause, _lost(tasks, members, index)) from error
        if not tasks:  # a bucket that is out of reach
            raise
        hosts = sorted({int(task) for _, task in tasks})
        raise LostWorker(cause, [f"host {host} of the TPU" for host in hosts]) from error


def _lost(tasks: Sequence[tuple[str, str]], members: Sequence[Member], index: int) -> list[str]:
    """Returns the addresses of the other processes that an error names and that do not answer.

    One that does not answer may have lost another itself and ended, and one that an error names may only have reported
    it. If none is both, those that do not answer are returned, else those that are named.

    Args:
      tasks: kind and number of each process that the error names.
      members: all processes.
      index: of this process.
    """
    others = [member for number, member in enumerate(members) if number != index]
    named = [member for member in others if (member.kind, str(member.task)) in tasks]
    silent = [member for member in others if not _answers(member.address)]
    both = [member for member in silent if member in named]
    return [member.address for member in both or silent or named]


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=2).close()
    except (OSError, ValueError):
        return False
    return True
