"""The input servers of a run: `cpc-tf feed` reads and augments the pictures of a run elsewhere.

The environment variable CPC_TF_FEED names one for each host with input. They change where the input is computed, not
what it is. A run holds a connection to each of them while it trains: one that was started anew would begin at the run's
first step again, so the end of a connection is the end of the run.

Both sides send lines of JSON, signed with a secret that never travels: the server sends a random number (a nonce), the
run its request signed with that and with a nonce of its own, and the server an answer signed with the run's nonce.
Without a secret the signatures are those of an empty one.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
import socket
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.data.experimental import service

from cpc_tf.core import native
from cpc_tf.core.files import reason
from cpc_tf.core.settings import ConfigError, RunEnded
from cpc_tf.core.texts import shown

VARIABLE = "CPC_TF_FEED"
SECRET = "CPC_TF_FEED_SECRET"  # the environment variable that names the file with the secret
HOW = f"`(umask 077; openssl rand -hex 32 > FILE)` makes one, and {SECRET}=FILE names it"
_WAIT = 300  # seconds that a run waits until its input servers have started
_ANSWER = 60  # seconds that one may take to answer
_LONGEST = 2**16  # bytes of a line
_SHORTEST = 16  # bytes of a secret
_open: list[Connection] = []  # connections of the training under way


class LostFeed(RunEnded):
    """An input server does not answer or has ended."""

    status = 8

    def __init__(self, address: str, why: str):
        super().__init__(
            f"{VARIABLE}: the input server at {address} {why}; start `cpc-tf feed` there, then the same command again: "
            "the run goes on from its last checkpoint"
        )


def addresses() -> list[str]:
    """Returns the addresses in CPC_TF_FEED, one for each host with input, or one without a host. Raises ConfigError."""
    servers = [word.strip() for word in os.environ.get(VARIABLE, "").split(",") if word.strip()]
    for address in servers:
        host, _, port = address.rpartition(":")
        if not (port.isdigit() and 0 < int(port) < 2**16) or (not host and len(servers) > 1):
            raise ConfigError(
                f"{VARIABLE}={shown(address)}: must be HOST:PORT for each host with input, with commas between "
                "them, or :PORT for one beside each"
            )
    return servers


def through(
    make: Callable[[], tf.data.Dataset],
    context: tf.distribute.InputContext,
    hosts: Sequence[str] = (),
) -> tf.data.Dataset:
    """Returns the dataset that `make` returns, computed by the input server of this host if there is one.

    Args:
      make: makes the dataset of one host.
      context: which host that is.
      hosts: all hosts with input, for servers beside each; none: this machine is the host.

    Raises:
      ConfigError: there are more or fewer servers than hosts, or one has another TensorFlow or other operations.
      LostFeed: it does not answer.
    """
    servers, host = addresses(), context.input_pipeline_id
    if not servers:
        return make()
    if servers[0].startswith(":"):
        servers = [
            f"{name}{servers[0]}" for name in hosts or ["localhost"] * context.num_input_pipelines
        ]
    if len(servers) != context.num_input_pipelines:
        raise ConfigError(
            f"{VARIABLE}={shown(os.environ[VARIABLE])}: names {len(servers)} input servers; this run needs "
            f"{context.num_input_pipelines}, one for each host with input, in their order"
        )
    with tf.device(
        None
    ):  # here: the host may lack our operations, and the server has no devices of the run
        dataset = make()
        connection = Connection(servers[host], _WAIT, hosts[host : host + 1])
        _open.append(connection)
        number = connection.register(dataset)
    return connection.read(number, dataset.element_spec)


@contextlib.contextmanager
def connected() -> Iterator[None]:
    """Closes the connections of the training inside at its end."""
    try:
        yield
    except tf.errors.OpError as error:
        if _open and native.IN_PYTHON in str(error):
            raise ConfigError(
                f"{VARIABLE}: --dataset has WebP, TIFF or BMP, which input servers cannot decode; convert them to JPEG "
                f"or PNG, or train without {VARIABLE}"
            ) from error
        raise
    finally:
        while _open:
            _open.pop().close()


class Connection:
    """A connection to an input server, which runs a tf.data service of its own as long as the connection is open.

    Args:
      address: of the server, as the hosts with input reach it.
      wait: seconds to wait until it has started.
      readers: other machines that read what it computes.

    Raises:
      ConfigError: it has another TensorFlow, other operations or another secret.
      LostFeed: it does not answer.
    """

    def __init__(self, address: str, wait: float, readers: Sequence[str] = ()):
        self._address, self._closed, secret, nonce = address, False, read_secret(), new_nonce()
        self._socket = _reach(address, wait)
        # A name may have several addresses; the server lets in who comes to this one.
        host = self._socket.getpeername()[0]
        try:
            request = {"host": host, "readers": [*readers], "number": nonce}
            send(self._socket, request, secret, str(receive(self._socket).get("number")))
            answer = receive(self._socket, secret, nonce)
            if "refused" in answer:
                raise ValueError(f"refuses this run: {shown(answer['refused'])}")
            if not (
                isinstance(answer.get("dispatcher"), int) and isinstance(answer.get("has"), dict)
            ):
                raise ValueError(f"answers {shown(answer)}")
            keep_alive(self._socket)
            self._socket.settimeout(None)
        except NotSigned as error:
            self._socket.close()
            raise ConfigError(
                f"{VARIABLE}: the input server at {address} {error}; it and the run need the same secret: {HOW}"
            ) from error
        except (OSError, ValueError) as error:
            raise LostFeed(
                address, f"does not answer as an input server does ({reason(error)})"
            ) from error
        mine, others = {"TensorFlow": tf.__version__, **native.loaded()}, answer["has"]
        for name in mine.keys() & others.keys():
            if mine[name] != others[name]:
                raise ConfigError(
                    f"{VARIABLE}: the input server at {address} has {name} {others[name]}, this run {mine[name]}; "
                    "start it with the same cpc_tf and TensorFlow"
                )
        self._service = f"grpc://{f'[{host}]' if ':' in host else host}:{answer['dispatcher']}"
        threading.Thread(target=self._watch, daemon=True).start()

    def register(self, dataset: tf.data.Dataset) -> tf.Tensor:
        """Sends the server a dataset, and returns its number there."""
        return service.register_dataset(self._service, dataset, compression=None)

    def read(self, number: tf.Tensor, spec: Any) -> tf.data.Dataset:
        """Returns the elements of a registered dataset in their order, computed by the server.

        One worker computes the whole dataset, as one stream: no element is lost, and none comes twice.
        """
        return service.from_dataset_id(service.ShardingPolicy.OFF, self._service, number, spec)

    def close(self) -> None:
        """Lets the server forget this run."""
        self._closed = True
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _watch(self) -> None:
        """Ends this process when the server ends: TensorFlow waits for ever for another one at that address."""
        why = "has ended"
        try:
            while self._socket.recv(1024):
                pass
        except OSError as error:
            why = f"is lost ({reason(error)})"
        if not self._closed:
            # The main thread waits inside TensorFlow, where no exception reaches it.
            print(f"error: {LostFeed(self._address, why)}", file=sys.stderr, flush=True)
            sys.stdout.flush()
            os._exit(LostFeed.status)


def keep_alive(connection: socket.socket) -> None:
    """Makes a connection end half a minute after the other machine was lost."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 4)):
        if hasattr(socket, name):  # Linux
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _reach(address: str, wait: float) -> socket.socket:
    """Returns a connection to an input server once it has started. Raises LostFeed."""
    host, _, port = address.rpartition(":")
    deadline, announced = time.monotonic() + wait, False
    while True:
        try:
            return socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWER)
        except OSError as error:
            if time.monotonic() > deadline:
                raise LostFeed(
                    address, f"does not answer for {wait:g} s ({reason(error)})"
                ) from error
            if not announced:
                print(f"waiting for the input server at {address} ({reason(error)})", flush=True)
            announced = True
            time.sleep(0.5)


class NotSigned(ValueError):
    """A message was not signed with our secret."""


def read_secret() -> bytes:
    """Returns the secret in the file that CPC_TF_FEED_SECRET names; empty if it names none.

    Raises:
      ConfigError: it cannot be read, others can read it, or it is too short.
    """
    path = os.environ.get(SECRET, "")
    if not path:
        return b""
    try:
        with open(path, "rb") as file:
            status, secret = os.fstat(file.fileno()), file.read(_LONGEST).strip()
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{SECRET}={shown(path)}: cannot be read ({reason(error)}); {HOW}"
        ) from error
    if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO) or status.st_uid not in (0, os.geteuid()):
        mode = f"{stat.S_IMODE(status.st_mode):o}, of user {status.st_uid}"
        raise ConfigError(
            f"{SECRET}={shown(path)}: others can read it (mode {mode}); `chmod 600` it as its owner"
        )
    if len(secret) < _SHORTEST:
        raise ConfigError(
            f"{SECRET}={shown(path)}: has {len(secret)} bytes, at least {_SHORTEST} are needed; {HOW}"
        )
    return secret


def new_nonce() -> str:
    """Returns a random number that is used once."""
    return secrets.token_hex(16)


def send(
    connection: socket.socket, message: dict[str, Any], secret: bytes | None = None, nonce: str = ""
) -> None:
    """Sends a line; with a secret it is signed, also with the other side's nonce."""
    if secret is not None:
        message = {**message, "signature": _signature(message, secret, nonce)}
    connection.sendall(json.dumps(message).encode() + b"\n")


def receive(
    connection: socket.socket, secret: bytes | None = None, nonce: str = ""
) -> dict[str, Any]:
    """Returns the line that the other side sent; with a secret it must be signed, also with our nonce.

    Raises:
      OSError, ValueError: there is no such line.
      NotSigned: it is not signed so.
    """
    with connection.makefile("rb") as lines:
        line = lines.readline(_LONGEST)
    message = json.loads(line)
    if not isinstance(message, dict):
        raise ValueError(f"{shown(line)}: is not an object")
    if secret is not None:
        signature = str(message.pop("signature", ""))
        if not hmac.compare_digest(signature.encode(), _signature(message, secret, nonce).encode()):
            raise NotSigned(f"has another secret (it answers {shown(message)})")
    return message


def _signature(message: dict[str, Any], secret: bytes, nonce: str) -> str:
    signed = json.dumps([nonce, message], sort_keys=True).encode()
    return hmac.new(secret, signed, hashlib.sha256).hexdigest()
