"""Serves a tf.data service to each training that connects and knows the secret, until it closes its connection."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import sys
import threading
from typing import NoReturn

import tensorflow as tf
from tensorflow.data.experimental import service

from cpc_tf import augment, native
from cpc_tf.feed import ports
from cpc_tf.feed.config import FeedConfig
from cpc_tf.files import reason
from cpc_tf.settings import ConfigError
from cpc_tf.texts import shown
from cpc_tf.training import feed_messages, feeds

_REQUEST = 30  # seconds that a training may take to say what it wants


def serve(config: FeedConfig) -> None:
    """Serves until a signal ends the process.

    Raises:
      ConfigError: the address is open to others and there is no secret, the port is taken, or the native operations
        cannot be built here.
    """
    secret = feed_messages.read_secret()
    with listen(config.address, config.port, secret) as server:
        tf.config.set_visible_devices([], "GPU")  # they are the trainings'
        try:
            augment.LIBRARY.load()
        except native.BuildError as error:
            raise ConfigError(f"feed: the native augmentation cannot be built here: {error}") from error
        print(f"feed: ready at port {server.getsockname()[1]}", flush=True)
        answer(server, secret)


def listen(address: str, port: int, secret: bytes) -> socket.socket:
    """Returns a server at an address and port of this machine; port 0: at a free one.

    Raises:
      ConfigError: there is no such address, it is open to others and there is no secret, or the port is taken.
    """
    try:
        infos = socket.getaddrinfo(address or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise ConfigError(f"--address={shown(address)}: no address of this machine ({reason(error)})") from error
    family, *_, place = infos[0]
    if not (secret or ipaddress.ip_address(place[0].partition("%")[0]).is_loopback):
        raise ConfigError(
            f"--address={shown(address)}: other machines reach it, and a feed reads and writes files for whoever may "
            f"use it: it needs a secret. {feed_messages.HOW}, for the feed and for the training"
        )
    try:
        both = place[0] == "::" and socket.has_dualstack_ipv6()
        return socket.create_server(place[:2], family=family, dualstack_ipv6=both)
    except OSError as error:
        raise ConfigError(
            f"--address={shown(address)} --port={port}: cannot be listened at ({reason(error)})"
        ) from error


def answer(server: socket.socket, secret: bytes) -> NoReturn:
    """Serves each training that connects, side by side."""
    pool = ports.Pool(server.getsockname()[1])
    while True:
        connection, peer = server.accept()
        threading.Thread(target=_serve_one, args=(connection, peer[0], pool, secret), daemon=True).start()


def _serve_one(connection: socket.socket, peer: str, pool: ports.Pool, secret: bytes) -> None:
    """Serves the training at the other end of a connection."""
    with connection, contextlib.suppress(OSError, ValueError, KeyError, TypeError):  # it has ended, or is none of ours
        connection.settimeout(_REQUEST)
        number = feed_messages.new_number()
        feed_messages.send(connection, {"number": number})
        try:
            request = feed_messages.receive_signed(connection, secret, number)
        except feed_messages.NotSigned:
            feed_messages.send(connection, {"refused": "it has another secret"})
            print(f"feed: refused {peer}, which has another secret", flush=True)
            return
        try:
            with pool.pair() as places:
                _serve_tensorflow(connection, peer, request, places, secret)
        except (OSError, RuntimeError) as error:  # no port is free, or TensorFlow cannot listen
            feed_messages.send_signed(connection, {"refused": str(error)}, secret, str(request["number"]))


def _serve_tensorflow(connection, peer: str, request: dict, places: tuple[int, int], secret: bytes) -> None:
    """Runs a tf.data service at two ports until the training has ended."""
    # Of the training, of this machine as the training names it, and of those that read for it.
    allowed = ports.addresses_of([peer, connection.getsockname()[0], request["host"], *request["readers"]])
    dispatcher = service.DispatchServer(service.DispatcherConfig(port=places[0]))
    limited = ports.take_only_from(places[0], allowed)
    host = f"[{request['host']}]" if ":" in request["host"] else request["host"]
    worker = service.WorkerServer(
        service.WorkerConfig(
            f"localhost:{places[0]}", worker_address=f"{host}:%port%", port=places[1], heartbeat_interval_ms=1000
        )
    )
    if not (limited and ports.take_only_from(places[1], allowed)):
        print(
            f"warning: feed: this system cannot limit who reaches TensorFlow's ports {places[0]} and {places[1]}; "
            "whoever does can read and write files here, so close them with a firewall",
            file=sys.stderr,
            flush=True,
        )
    feeds.keep_alive(connection)
    answer = {"dispatcher": places[0], "has": {"TensorFlow": tf.__version__, **native.loaded()}}
    feed_messages.send_signed(connection, answer, secret, str(request["number"]))
    print(f"feed: serves a training at {peer}", flush=True)
    connection.settimeout(None)
    with contextlib.suppress(OSError):
        while connection.recv(1024):
            pass
    del worker, dispatcher  # stops both
    print(f"feed: the training at {peer} has ended", flush=True)
