"""Input that a worker of tf.data's service computes in place of this process: --data_service.

The worker computes the same dataset as one stream, so the batches are the same. Each comes with
its number: a service with several workers would repeat and mix batches, and a worker that was
started again would begin anew; both end the run here.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator

import tensorflow as tf
from tensorflow.data.experimental import service

from cpc_tf.core import native
from cpc_tf.core.files import reason
from cpc_tf.core.settings import ConfigError, RunEnded
from cpc_tf.core.texts import shown

_CONNECT = 10  # seconds that the dispatcher may take to accept a connection
_WRONG_ORDER = "is not the next batch of --data_service"


class LostOrder(RunEnded):
    """The service did not send each batch once and in order."""

    status = 8

    def __init__(self, address: str):
        super().__init__(
            f"--data_service={shown(address)}: a batch was repeated or skipped: its worker was "
            "started again, or it has several; with a service of one worker the same command "
            "resumes the run from its last checkpoint"
        )


def compute(make: Callable[[], tf.data.Dataset], address: str) -> tf.data.Dataset:
    """Returns the dataset that `make` returns, computed by the service's worker if there is one.

    Args:
      make: makes the dataset of this host.
      address: HOST:PORT of the service's dispatcher; empty: this process computes it.

    Raises:
      ConfigError: no dispatcher answers at the address.
    """
    if not address:
        return make()
    _reach(address)
    url = f"grpc://{address.removeprefix('grpc://')}"
    # The graph is made here, since the host that reads the batches may lack our operations.
    with tf.device(None):
        dataset = make()
        number = service.register_dataset(url, dataset.enumerate(), compression=None)
    spec = (tf.TensorSpec([], tf.int64), dataset.element_spec)
    numbered = service.from_dataset_id(service.ShardingPolicy.OFF, url, number, spec)
    return numbered.enumerate().map(_in_order)


@contextlib.contextmanager
def explained(address: str) -> Iterator[None]:
    """Turns errors of the service inside into those that say what to do.

    Without an address nothing is changed.

    Raises:
      LostOrder: batches were repeated or skipped.
      ConfigError: the worker lacks operations that the input needs.
    """
    try:
        yield
    except tf.errors.OpError as error:
        flag = f"--data_service={shown(address)}"
        if not address:
            raise
        if _WRONG_ORDER in str(error):
            raise LostOrder(address) from error
        if native.IN_PYTHON in str(error):
            raise ConfigError(
                f"{flag}: --dataset has WebP, TIFF or BMP, which only this process can decode; "
                "convert them to JPEG or PNG, or train without --data_service"
            ) from error
        if "Op type not registered 'Cpc" in str(error):
            raise ConfigError(
                f"{flag}: its worker has not loaded the C++ operations; load them there as"
                " docs/scale.md shows, or take --augment_engine=reference"
            ) from error
        raise


def _reach(address: str) -> None:
    """Raises ConfigError if nothing listens there: TensorFlow would try for an hour."""
    host, _, port = address.removeprefix("grpc://").rpartition(":")
    if not (host and port.isdigit() and 0 < int(port) < 2**16):
        raise ConfigError(
            "data_service", shown(address), "must be HOST:PORT of a dispatcher, as docs/scale.md"
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT).close()
    except OSError as error:
        raise ConfigError(
            "data_service",
            shown(address),
            f"no dispatcher answers ({reason(error)}); start one as docs/scale.md shows",
        ) from error


def _in_order(expected: tf.Tensor, numbered: tuple) -> dict[str, tf.Tensor]:
    number, batch = numbered
    check = tf.debugging.assert_equal(number, expected, message=_WRONG_ORDER)
    with tf.control_dependencies([check]):
        return tf.nest.map_structure(tf.identity, batch)
