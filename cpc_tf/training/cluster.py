"""The processes of TF_CONFIG that train together: they exchange numbers, agree and end as one."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import pathlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

import cpc_tf
from cpc_tf.core import termination
from cpc_tf.core.settings import ConfigError, RunEnded, Settings, flatten
from cpc_tf.core.texts import listed, shown

# What collective operations end with, 20 seconds at most after another process was killed.
_LOST = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
)
_WIDTH = 128  # numbers that are sent at a time: of one shape there is one program
_SOURCES = (".py", ".cc", ".h")  # suffixes; each machine compiles its own operations
# Settings that may differ: a folder may have another path on each machine, and each may read from
# a service of its own.
_PLACES = ("workdir", "data_dir", "data_service")
_TASK = re.compile(r"/job:\w+(/replica:\d+)?/task:\d+")  # as errors name a process


class Member(NamedTuple):
    """A process of TF_CONFIG that trains."""

    kind: str  # 'chief' or 'worker'
    task: int  # its number among these
    address: str  # HOST:PORT


def tf_config() -> tuple[dict[str, list[str]], dict[str, Any]]:
    """Returns ({kind of process: addresses}, this process's 'type' and 'index') of TF_CONFIG.

    Raises:
      ConfigError: it is not what TensorFlow expects.
    """
    text = os.environ.get("TF_CONFIG") or "{}"
    try:
        config = json.loads(text)
        processes = config.get("cluster", {})
        task = config.get("task", {})
        if any(isinstance(addresses, str) for addresses in processes.values()):
            raise TypeError("an address in place of a list of them")
        return {kind: list(addresses) for kind, addresses in processes.items()}, dict(task)
    except (ValueError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"TF_CONFIG={shown(text)}: is not the JSON object that TensorFlow expects"
        ) from error


def members() -> tuple[list[Member], int]:
    """Returns the processes of TF_CONFIG that train, the chief first, and the number of this one.

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
            f"the environment variable TF_CONFIG {missing}; set it as docs/scale.md shows, or take "
            "another --strategy for one machine",
        )
    members = []
    for kind in kinds:
        for index, address in enumerate(processes[kind]):
            members.append(Member(kind, index, address))
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
    for address in addresses:
        if not re.fullmatch(r".+:\d+", address):
            raise ConfigError(
                "strategy", "multiworker", f"{shown(address)} in TF_CONFIG: must be HOST:PORT"
            )
    if twice := [address for address in dict.fromkeys(addresses) if addresses.count(address) > 1]:
        raise ConfigError(
            "strategy",
            "multiworker",
            f"several processes of TF_CONFIG have the address {shown(twice[0])}; give each its own",
        )
    return members, names.index(name)


def connect() -> tf.distribute.Strategy:
    """Returns the strategy of all processes of TF_CONFIG, for which TensorFlow waits."""
    processes, _ = members()
    if len(processes) > 1:
        print(f"waiting for {len(processes)} processes of TF_CONFIG to start", flush=True)
    with termination.unhandled():  # TensorFlow lets no code in Python run meanwhile
        return tf.distribute.MultiWorkerMirroredStrategy()


def addresses(strategy: tf.distribute.Strategy) -> list[str]:
    """Returns the addresses of the processes, the chief's first; empty if there is only one."""
    together = isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
    return [member.address for member in members()[0]] if together else []


def process(strategy: tf.distribute.Strategy) -> int:
    """Returns the place of this process in `addresses`, 0 if there is only one."""
    return members()[1] if addresses(strategy) else 0


def replica_names(strategy: tf.distribute.Strategy) -> list[str]:
    """Returns the device of each replica: 'GPU:1', with its host if there are several."""
    names = []
    for device in strategy.extended.worker_devices:
        spec = tf.DeviceSpec.from_string(device)
        of_host = f" of host {spec.task}" if isinstance(strategy, tf.distribute.TPUStrategy) else ""
        names.append(f"{spec.device_type}:{spec.device_index}{of_host}")
    processes = addresses(strategy)
    if not processes:
        return names
    return [f"{name} of {address}" for address in processes for name in names]


def hosts(strategy: tf.distribute.Strategy) -> int:
    """Returns how many machines read data."""
    if isinstance(strategy, tf.distribute.TPUStrategy):
        return strategy.extended.num_hosts
    return max(1, len(addresses(strategy)))


def barrier(strategy: tf.distribute.Strategy) -> None:
    """Waits until all processes have called this."""
    total(strategy, 0)


def leave(strategy: tf.distribute.Strategy) -> None:
    """Waits until all processes have done what this one has done, before it ends.

    A process that has the answer of the barrier ends at once, and its sockets with it: an error
    here means that another one has ended, and says nothing of what this one has saved.
    """
    with contextlib.suppress(*_LOST):
        barrier(strategy)


def total(strategy: tf.distribute.Strategy, value: int) -> int:
    """Returns the sum of `value` over all processes, once all have called this."""
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
    count = len(values[0])
    values = np.array(values, np.int64)
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
      facts: returns {name: value}, with the same names in all processes; not called if there is
        only one.

    Raises:
      ConfigError: in all processes; it names the facts that differ and their values in this one.
    """
    if len(addresses(strategy)) < 2:
        return
    texts = {name: str(value) for name, value in facts().items()}
    digests = [
        int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big") for text in texts.values()
    ]
    table = gathered_of_processes(strategy, digests)  # [processes, facts]
    same = (table == table[0]).all(0)
    if same.all():
        return
    differ = [
        f"{name} (here {shown(text)})"
        for (name, text), equal in zip(texts.items(), same)
        if not equal
    ]
    raise ConfigError(
        "strategy",
        "multiworker",
        f"the processes of TF_CONFIG differ in {listed(differ)}; all need the same command, code "
        "and data",
    )


def about_program(task: str) -> dict[str, str]:
    """Returns facts on what runs in this process."""
    root = pathlib.Path(cpc_tf.__file__).parent
    code = hashlib.sha256()
    for path in sorted(path for path in root.rglob("*") if path.suffix in _SOURCES):
        code.update(str(path.relative_to(root)).encode() + path.read_bytes())
    return {
        "the task": task,
        "the version of cpc_tf": f"{cpc_tf.__version__}, code {code.hexdigest()[:8]}",
        "the version of TensorFlow": tf.__version__,
    }


def about_settings(config: Settings) -> dict[str, object]:
    """Returns the settings that all processes must share: all but the places of data and runs."""
    return {f"--{name}": value for name, value in flatten(config).items() if name not in _PLACES}


class LostWorker(RunEnded):
    """Another process of the cluster has ended or cannot be reached; `error` is TensorFlow's."""

    status = 6

    def __init__(self, error: tf.errors.OpError):
        why = error.message.rpartition("aborted by: ")[2].strip().partition("\n")[0]
        super().__init__(
            "another process of the cluster has ended or cannot be reached; run the same command "
            f"on each machine to resume from the last checkpoint ({why})"
        )


@contextlib.contextmanager
def lost_workers_explained(strategy: str) -> Iterator[None]:
    """Re-raises the errors of a process that lost another one as LostWorker.

    Args:
      strategy: --strategy of the run; nothing is changed unless it is 'multiworker' or 'tpu'.
    """
    try:
        yield
    except (*_LOST, RunEnded) as error:
        # Saving and loading are joint operations, too, and their errors have become others.
        cause = error.__cause__ if isinstance(error, RunEnded) else error
        if not isinstance(cause, _LOST):
            raise
        # Of a TPU the error names the host; without one a bucket is out of reach.
        of_host = strategy == "tpu" and _TASK.search(cause.message)
        if strategy != "multiworker" and not of_host:
            raise
        raise LostWorker(cause) from error
