"""What the processes and replicas that train together must have in common; who differs is named."""

from __future__ import annotations

import collections
import hashlib
import pathlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tensorflow as tf

import cpc_tf
from cpc_tf.settings import ConfigError, Settings, flatten
from cpc_tf.texts import listed, shown

_WIDTH = 128  # numbers that are sent at a time: of one shape there is one program
_SHOWN = 120  # bytes of a text that differs
_SOURCES = (".py", ".cc", ".h")  # suffixes; each machine compiles its own operations
_PLACES = ("workdir", "data_dir")  # settings: a folder may have another path on each machine


def gathered(strategy: tf.distribute.Strategy, values: Sequence[Sequence[int]]) -> np.ndarray:
    """Returns the values of all replicas, once all processes have called this.

    Args:
      strategy: of the run.
      values: of the replicas of this process, one after the other: integers [local replicas, n].

    Returns:
      int64 [replicas, n].
    """
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return np.array(values, np.int64)
    count, values = len(values[0]), np.array(values, np.int64)
    own = iter(np.pad(values, [[0, 0], [0, -count % _WIDTH]]))

    def row(context: tf.distribute.ValueContext) -> tf.Tensor:
        here = tf.one_hot(context.replica_id_in_sync_group, context.num_replicas_in_sync, dtype=tf.int64)
        return here[:, None] * next(own)

    rows = strategy.experimental_distribute_values_from_function(row)
    return _sum(strategy, rows).numpy()[:, :count]


@tf.function(autograph=False)
def _sum(strategy, values):
    return strategy.reduce(tf.distribute.ReduceOp.SUM, values, axis=None)


def gathered_of_processes(strategy: tf.distribute.Strategy, values: Sequence[int]) -> np.ndarray:
    """Returns the values of all processes, int64 [processes, n]; see `gathered`."""
    each = len(strategy.extended.worker_devices) if addresses(strategy) else 1
    return gathered(strategy, [values] * each)[::each]


def addresses(strategy: tf.distribute.Strategy) -> list[str]:
    """Returns the addresses of the processes that train together, the chief's first; empty if there is only one."""
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy) or not strategy.cluster_resolver:
        return []
    cluster = strategy.cluster_resolver.cluster_spec().as_dict()
    return [*cluster.get("chief", []), *cluster.get("worker", [])]


def process(strategy: tf.distribute.Strategy) -> int:
    """Returns the place of this process in `addresses`."""
    resolver = strategy.cluster_resolver
    chiefs = len(resolver.cluster_spec().as_dict().get("chief", []))
    return resolver.task_id + (chiefs if resolver.task_type == "worker" else 0)


def replica_names(strategy: tf.distribute.Strategy) -> list[str]:
    """Returns the name of the device of each replica: 'GPU:1', with its host if there are several."""
    names = []
    for device in strategy.extended.worker_devices:
        spec = tf.DeviceSpec.from_string(device)
        of_host = f" of host {spec.task}" if isinstance(strategy, tf.distribute.TPUStrategy) else ""
        names.append(f"{spec.device_type}:{spec.device_index}{of_host}")
    several = addresses(strategy)
    return [f"{name} of {address}" for address in several for name in names] if several else names


def agree(strategy: tf.distribute.Strategy, facts: Callable[[], Mapping[str, object]]) -> None:
    """Compares what the processes of a run know, once all have called this; of one process nothing is asked for.

    Args:
      strategy: of the run.
      facts: returns {what: as text}, with the same names in all processes.

    Raises:
      ConfigError: in all processes; it names those that differ from the others, and in what.
    """
    hosts = addresses(strategy)
    if len(hosts) < 2:
        return
    texts = {name: str(value).encode() for name, value in facts().items()}
    known = gathered_of_processes(strategy, [number(text) for text in texts.values()])  # [processes, facts]
    differ = [name for name, column in zip(texts, known.T) if len(set(column.tolist())) > 1]
    if not differ:
        return
    own = [*texts[differ[0]][:_SHOWN].ljust(_SHOWN, b"\0")]
    said = [bytes(row.tolist()).rstrip(b"\0").decode(errors="replace") for row in gathered_of_processes(strategy, own)]
    column = known[:, list(texts).index(differ[0])].tolist()
    odd = odd_ones(column)
    others = next((text for index, text in enumerate(said) if index not in odd), None)
    parts = [f"{shown(said[index])} at {hosts[index]}" for index in odd]
    parts += [] if others is None else [f"{shown(others)} at the others"]
    more = f" (and in {listed(differ[1:])})" if differ[1:] else ""
    raise ConfigError(
        "strategy",
        "multiworker",
        f"the processes of TF_CONFIG differ in {differ[0]}{more}: {', '.join(parts)}; all need "
        "the same command, code and data",
    )


def odd_ones(values: Sequence[object]) -> list[int]:
    """Returns the indices of the values that differ from most; of all if no value is that of more than half."""
    value, count = collections.Counter(values).most_common(1)[0]
    return [index for index, other in enumerate(values) if 2 * count <= len(values) or other != value]


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


def number(text: bytes) -> int:
    """Returns a number that other bytes do not have, up to 56 bits."""
    return int.from_bytes(hashlib.sha256(text).digest()[:7], "big")
