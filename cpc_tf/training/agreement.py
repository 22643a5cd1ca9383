"""What the processes and replicas that train together must have in common; who differs is named."""

from __future__ import annotations

import collections
import hashlib
import pathlib
from collections.abc import Callable, Mapping, Sequence

import tensorflow as tf

import cpc_tf
from cpc_tf.settings import ConfigError, Settings, flatten
from cpc_tf.texts import listed, shown
from cpc_tf.training import cluster

_SHOWN = 120  # bytes of a text that differs
_SOURCES = (".py", ".cc", ".h")  # suffixes; each machine compiles its own operations
_PLACES = ("workdir", "data_dir")  # settings: a folder may have another path on each machine


def replica_names(strategy: tf.distribute.Strategy) -> list[str]:
    """Returns the name of the device of each replica: 'GPU:1', with its host if there are several."""
    names = []
    for device in strategy.extended.worker_devices:
        spec = tf.DeviceSpec.from_string(device)
        of_host = f" of host {spec.task}" if isinstance(strategy, tf.distribute.TPUStrategy) else ""
        names.append(f"{spec.device_type}:{spec.device_index}{of_host}")
    several = cluster.addresses(strategy)
    return [f"{name} of {address}" for address in several for name in names] if several else names


def agree(strategy: tf.distribute.Strategy, facts: Callable[[], Mapping[str, object]]) -> None:
    """Compares what the processes of a run know, once all have called this; of one process nothing is asked for.

    Args:
      strategy: of the run.
      facts: returns {what: as text}, with the same names in all processes.

    Raises:
      ConfigError: in all processes; it names those that differ from the others, and in what.
    """
    hosts = cluster.addresses(strategy)
    if len(hosts) < 2:
        return
    texts = {name: str(value).encode() for name, value in facts().items()}
    known = cluster.gathered_of_processes(strategy, [_number(text) for text in texts.values()])  # [processes, facts]
    differ = [name for name, column in zip(texts, known.T) if len(set(column.tolist())) > 1]
    if not differ:
        return
    own = [*texts[differ[0]][:_SHOWN].ljust(_SHOWN, b"\0")]
    said = [
        bytes(row.tolist()).rstrip(b"\0").decode(errors="replace")
        for row in cluster.gathered_of_processes(strategy, own)
    ]
    column = known[:, list(texts).index(differ[0])].tolist()
    odd = _odd_ones(column)
    others = next((text for index, text in enumerate(said) if index not in odd), None)
    parts = [f"{shown(said[index])} at {hosts[index]}" for index in odd]
    parts += [] if others is None else [f"{shown(others)} at the others"]
    more = f" (and in {listed(differ[1:])})" if differ[1:] else ""
    raise ConfigError(
        f"--strategy=multiworker: the processes of TF_CONFIG differ in {differ[0]}{more}: {', '.join(parts)}; all need "
        "the same command, code and data"
    )


def _odd_ones(values: Sequence[object]) -> list[int]:
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


def _number(text: bytes) -> int:
    """Returns a number that other bytes do not have, up to 56 bits."""
    return int.from_bytes(hashlib.sha256(text).digest()[:7], "big")
