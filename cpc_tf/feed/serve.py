"""Serves a tf.data service to each training that connects, until it closes its connection."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import NoReturn

import tensorflow as tf
from tensorflow.data.experimental import service

from cpc_tf import augment, native
from cpc_tf.feed.config import FeedConfig
from cpc_tf.files import reason
from cpc_tf.settings import ConfigError
from cpc_tf.training import feeds

_FIRST_LINE = 30  # seconds that a training may take to say what it is


def serve(config: FeedConfig) -> None:
    """Serves until a signal ends the process.

    Raises:
      ConfigError: the port is taken, or the native operations cannot be built here.
    """
    tf.config.set_visible_devices([], "GPU")  # they are the trainings'
    try:
        augment.LIBRARY.load()
    except native.BuildError as error:
        raise ConfigError(f"feed: the native augmentation cannot be built here: {error}") from error
    with listen(config.port) as server:
        print(f"feed: ready at port {server.getsockname()[1]}", flush=True)
        answer(server)


def listen(port: int) -> socket.socket:
    """Returns a server at a port of this machine; 0: at a free one. Raises ConfigError if the port is taken."""
    both = socket.has_dualstack_ipv6()
    try:
        return socket.create_server(("", port), family=socket.AF_INET6 if both else socket.AF_INET, dualstack_ipv6=both)
    except OSError as error:
        raise ConfigError(f"--port={port}: cannot be listened at ({reason(error)})") from error


def answer(server: socket.socket) -> NoReturn:
    """Serves each training that connects, side by side."""
    while True:
        connection, peer = server.accept()
        name = peer[0].replace("::ffff:", "")  # an IPv4 address
        threading.Thread(target=_serve_one, args=(connection, name), daemon=True).start()


def _serve_one(connection: socket.socket, peer: str) -> None:
    """Serves the training at the other end of a connection."""
    with connection, contextlib.suppress(OSError, ValueError):  # it has ended, or is no training of ours
        connection.settimeout(_FIRST_LINE)
        host = str(feeds.receive(connection)["host"])
        dispatcher = service.DispatchServer(service.DispatcherConfig(port=0))
        port = int(dispatcher.target.rpartition(":")[2])
        worker = service.WorkerServer(
            service.WorkerConfig(f"localhost:{port}", worker_address=f"{host}:%port%", heartbeat_interval_ms=1000)
        )
        feeds.keep_alive(connection)
        feeds.send(connection, {"dispatcher": port, "has": {"TensorFlow": tf.__version__, **native.loaded()}})
        print(f"feed: serves a training at {peer}", flush=True)
        connection.settimeout(None)
        with contextlib.suppress(OSError):
            while connection.recv(1024):
                pass
        del worker, dispatcher  # stops both
        print(f"feed: the training at {peer} has ended", flush=True)
