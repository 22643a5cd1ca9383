"""The devices that train together, and what each of them gets."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable

import tensorflow as tf
from absl import logging

from cpc_tf.core import devices
from cpc_tf.core.files import reason
from cpc_tf.core.settings import ConfigError
from cpc_tf.training import cluster, data_service
from cpc_tf.training.config import TrainingConfig


def strategy_of(training: TrainingConfig) -> tf.distribute.Strategy:
    """Returns the strategy of a run and enables reproducible kernels if it asks for them.

    --strategy=auto takes a TPU if --tpu names one, else as many GPUs as divide the batch, else one
    device.

    Raises:
      ConfigError: there are no such devices, or they do not divide the batch.
    """
    workers = sum(map(len, cluster.tf_config()[0].values()))
    if workers > 1 and training.strategy != "multiworker":
        logging.warning(
            "TF_CONFIG names %d processes, but with --strategy=%s each trains by itself; "
            "--strategy=multiworker trains on all of them together",
            workers,
            training.strategy,
        )
    if training.deterministic:
        tf.config.experimental.enable_op_determinism()
    # A batch that is still to be derived is a power of two, but on fewer devices at least one image
    # for each.
    name = training.strategy
    gpus = []
    batch = training.batch_size or 2**20
    if name == "auto" and training.tpu:
        name = "tpu"
    # Several workers set up their collectives before devices are listed.
    elif name in ("auto", "single", "mirrored"):
        gpus = [device.name for device in tf.config.list_logical_devices("GPU")]
    if name == "auto":
        gpus = gpus[: most_replicas(len(gpus), batch)]
        name = "mirrored" if len(gpus) > 1 else "single"
    strategy = make_strategy(name, training.tpu, tuple(gpus))
    replicas = strategy.num_replicas_in_sync
    if training.batch_size % replicas:
        near = [
            str(n) for n in (batch - batch % replicas, batch - batch % replicas + replicas) if n
        ]
        raise ConfigError(
            "batch_size",
            batch,
            f"cannot be divided among the {replicas} replicas of --strategy={name};"
            f" {' or '.join(near)} can",
        )
    return strategy


def most_replicas(devices: int, batch: int) -> int:
    """Returns how many of some devices can divide a batch equally, at most; at least 1."""
    return next(count for count in range(max(1, devices), 0, -1) if not batch % count)


def share_cores(training: TrainingConfig, parts: int) -> None:
    """Divides this machine's cores among `parts` operations that run side by side.

    An operation on all cores waits for the slowest of them. Does nothing with an accelerator, or
    once TensorFlow has started.
    """
    accelerated = (
        training.strategy == "tpu" or training.tpu or tf.config.list_physical_devices("GPU")
    )
    if parts == 1 or accelerated:
        return
    cores = len(devices.cores())
    with contextlib.suppress(RuntimeError):
        tf.config.threading.set_intra_op_parallelism_threads(max(1, cores // parts))
        tf.config.threading.set_inter_op_parallelism_threads(max(2, cores))


@functools.cache
def make_strategy(
    name: str, tpu: str = "", devices: tuple[str, ...] = ()
) -> tf.distribute.Strategy:
    """Returns the tf.distribute strategy called `name`, the same object at each call.

    A second strategy would reuse the first one's keys of collective operations, which makes several
    workers fail.

    Args:
      name: 'single' (one device), 'mirrored' (several of this machine), 'multiworker' (TF_CONFIG
        names the machines) or 'tpu'.
      tpu: name or address of a TPU; 'local' for this machine's.
      devices: the devices to use. Empty: the CPU; for 'mirrored' all logical CPUs, with which tests
        show replicas.

    Raises:
      ConfigError: if there is no such TPU.
    """
    if name == "multiworker":
        # Before anything looks at the devices: its collective ops are set up with them.
        return cluster.connect()
    if name == "tpu":
        tpu = tpu or "local"
        try:
            resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=tpu)
            if tpu != "local":
                tf.config.experimental_connect_to_cluster(resolver)
            tf.tpu.experimental.initialize_tpu_system(resolver)
        except (ValueError, OSError, RuntimeError, tf.errors.OpError) as error:
            why = reason(error)
            raise ConfigError(
                f"--strategy=tpu --tpu={tpu}: no TPU answers ({why}); see docs/scale.md"
            ) from error
        return tf.distribute.TPUStrategy(resolver)
    if name == "single":
        return tf.distribute.OneDeviceStrategy(devices[0] if devices else "/cpu:0")
    return tf.distribute.MirroredStrategy(
        devices or [d.name for d in tf.config.list_logical_devices("CPU")]
    )


def replica_batches(
    training: TrainingConfig, make: Callable[..., tf.data.Dataset], remote: bool = True
) -> Callable[[int, tf.distribute.InputContext], tf.data.Dataset]:
    """Returns the `make_dataset` of `loop.train`: (first step, input context) -> this worker's
    per-replica batches.

    Args:
      make: takes `global_batch`, `per_batch`, `seed`, `start_step` and `shard` as
        `pipeline.batches` does.
      remote: whether --data_service may compute them; False for data held in this process.
    """

    def batches(step: int, context: tf.distribute.InputContext) -> tf.data.Dataset:
        host = functools.partial(
            make,
            global_batch=training.batch_size,
            per_batch=context.get_per_replica_batch_size(training.batch_size),
            seed=training.seed,
            start_step=step,
            shard=(context.input_pipeline_id, context.num_input_pipelines),
        )
        return data_service.compute(host, training.data_service if remote else "")

    return batches


def is_chief(strategy: str) -> bool:
    """Returns whether this is the one process that writes: with --strategy=multiworker the first
    one of TF_CONFIG.

    Raises:
      ConfigError: TF_CONFIG gives this process no role in the training.
    """
    return strategy != "multiworker" or cluster.members()[1] == 0


def wants_xla(setting: str, strategy: tf.distribute.Strategy) -> bool:
    """Returns whether to ask for XLA. A TPU compiles everything anyway; on a CPU XLA's convolutions
    are slower.
    """
    if isinstance(strategy, tf.distribute.TPUStrategy):
        return False
    return setting == "on" or (setting == "auto" and bool(tf.config.list_logical_devices("GPU")))
