"""An input server: runs tf.data's service for the training that connects and knows the secret, until that ends.

TensorFlow's servers behind it listen on all interfaces and run the graphs of anyone who reaches them. So a packet
filter of the kernel limits, for each of their ports, from which addresses packets come.
"""

from __future__ import annotations

import contextlib
import ctypes
import ipaddress
import os
import socket
import stat
import struct
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from typing import NoReturn

import tensorflow as tf
from tensorflow.data.experimental import service

from cpc_tf import augment
from cpc_tf.core import native
from cpc_tf.core.files import reason
from cpc_tf.core.settings import ConfigError
from cpc_tf.core.texts import shown
from cpc_tf.feed.config import FeedConfig
from cpc_tf.training import feeds

_REQUEST = 30  # seconds that a training may take to say what it wants, and that it waits for the end of the one before

_ATTACH_FILTER = 26  # SO_ATTACH_FILTER of Linux
# Instructions of its packet filters: (code, steps if true, steps if false, number).
_Instruction = tuple[int, int, int, int]
_LOAD_BYTE, _LOAD_WORD, _AND, _JUMP_IF_EQUAL, _JUMP, _RETURN = 0x30, 0x20, 0x54, 0x15, 0x05, 0x06
_HEADER = 0xFFF00000  # where the header of IP begins
_SOURCE = {4: _HEADER + 12, 6: _HEADER + 8}  # where the sender's address is
_TAKE, _DROP = (_RETURN, 0, 0, 0xFFFFFFFF), (_RETURN, 0, 0, 0)


def serve(config: FeedConfig) -> None:
    """Serves until a signal ends the process.

    Raises:
      ConfigError: the address is open to others and there is no secret, the port is taken, or the native operations
        cannot be built here.
    """
    secret = feeds.read_secret()
    with listen(config.address, config.port, secret) as server:
        tf.config.set_visible_devices([], "GPU")  # they are the trainings'
        try:
            augment.LIBRARY.load()
        except native.BuildError as error:
            raise ConfigError(
                f"input server: the native augmentation cannot be built here: {error}"
            ) from error
        print(f"input server: ready at port {server.getsockname()[1]}", flush=True)
        answer(server, secret)


def listen(address: str, port: int, secret: bytes) -> socket.socket:
    """Returns a server at an address and port of this machine; port 0: at a free one, with two free ones after it.

    Raises:
      ConfigError: there is no such address, it is open to others and there is no secret, or the port is taken; with
        port 0: no free port has two free ones after it.
    """
    try:
        infos = socket.getaddrinfo(
            address or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except OSError as error:
        raise ConfigError(
            "address", shown(address), f"no address of this machine ({reason(error)})"
        ) from error
    family, *_, place = infos[0]
    if not (secret or ipaddress.ip_address(place[0].partition("%")[0]).is_loopback):
        raise ConfigError(
            "address",
            shown(address),
            "other machines reach it, and an input server reads and writes files for "
            f"whoever may use it: it needs a secret. {feeds.HOW}, for the server and for the training",
        )
    try:
        both = place[0] == "::" and socket.has_dualstack_ipv6()
        for _ in range(1 if port else 20):
            server = socket.create_server(place[:2], family=family, dualstack_ipv6=both)
            first = server.getsockname()[1]
            if port or (_is_free(first + 1) and _is_free(first + 2)):  # for TensorFlow's servers
                return server
            server.close()
        raise OSError("of 20 free ports none has two free ones after it")
    except OSError as error:
        raise ConfigError(
            f"--address={shown(address)} --port={port}: cannot be listened at ({reason(error)})"
        ) from error


def answer(server: socket.socket, secret: bytes) -> NoReturn:
    """Serves the trainings that connect, one after the other; a silent client delays no other one."""
    port, in_use = server.getsockname()[1], threading.Lock()
    while True:
        connection, (peer, *_) = server.accept()
        threading.Thread(
            target=_serve_one, args=(connection, peer, port, in_use, secret), daemon=True
        ).start()


def _serve_one(
    connection: socket.socket, peer: str, port: int, in_use: threading.Lock, secret: bytes
) -> None:
    with (
        connection,
        contextlib.suppress(OSError, ValueError, KeyError, TypeError),
    ):  # it has ended, or is none of ours
        connection.settimeout(_REQUEST)
        nonce = feeds.new_nonce()
        feeds.send(connection, {"number": nonce})
        try:
            request = feeds.receive(connection, secret, nonce)
        except feeds.NotSigned:
            feeds.send(connection, {"refused": "it has another secret"})
            print(f"input server: refused {peer}, which has another secret", flush=True)
            return
        try:
            with _alone(in_use, port):
                _serve_tensorflow(connection, peer, request, port, secret)
        except (OSError, RuntimeError) as error:  # RuntimeError: TensorFlow cannot listen
            feeds.send(connection, {"refused": str(error)}, secret, str(request["number"]))


@contextlib.contextmanager
def _alone(in_use: threading.Lock, port: int) -> Iterator[None]:
    """Waits until no other training is served and TensorFlow's ports are free. Raises OSError if that does not come."""
    if not in_use.acquire(timeout=_REQUEST):
        raise OSError(
            "it serves another training; start `cpc-tf feed --port=...` once more for this one"
        )
    try:
        deadline = time.monotonic() + _REQUEST
        # Another program may have them, and TensorFlow would share them without an error.
        while not (_is_free(port + 1) and _is_free(port + 2)):
            if time.monotonic() > deadline:
                raise OSError(
                    f"another program has port {port + 1} or {port + 2}; take another --port"
                )
            time.sleep(0.1)
        yield
    finally:
        in_use.release()


def _serve_tensorflow(connection, peer: str, request: dict, port: int, secret: bytes) -> None:
    """Runs a tf.data service at the two ports after this one until the training has ended."""
    # Of the training, of this machine as the training names it, and of those that read for it.
    allowed = addresses_of(
        [peer, connection.getsockname()[0], request["host"], *request["readers"]]
    )
    dispatcher = service.DispatchServer(service.DispatcherConfig(port=port + 1))
    limited = take_only_from(port + 1, allowed)
    host = f"[{request['host']}]" if ":" in request["host"] else request["host"]
    worker = service.WorkerServer(
        service.WorkerConfig(
            f"localhost:{port + 1}",
            worker_address=f"{host}:%port%",
            port=port + 2,
            heartbeat_interval_ms=1000,
        )
    )
    if not (limited and take_only_from(port + 2, allowed)):
        print(
            f"warning: input server: this system cannot limit who reaches TensorFlow's ports {port + 1} and "
            f"{port + 2}; whoever does can read and write files here, so close them with a firewall",
            file=sys.stderr,
            flush=True,
        )
    feeds.keep_alive(connection)
    answer = {"dispatcher": port + 1, "has": {"TensorFlow": tf.__version__, **native.loaded()}}
    feeds.send(connection, answer, secret, str(request["number"]))
    print(f"input server: serves a training at {peer}", flush=True)
    connection.settimeout(None)
    with contextlib.suppress(OSError):
        while connection.recv(1024):
            pass
    del worker, dispatcher  # stops both
    print(f"input server: the training at {peer} has ended", flush=True)


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("", port)).close()
    except (OSError, OverflowError):  # taken, or above the last one
        return False
    return True


def addresses_of(hosts: Iterable[str]) -> list[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    """Returns the addresses of hosts by name or address. Raises OSError."""
    infos = [
        info for host in hosts for info in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    ]
    addresses = [ipaddress.ip_address(info[4][0].partition("%")[0]) for info in infos]
    return [getattr(address, "ipv4_mapped", None) or address for address in addresses]


def take_only_from(
    port: int, addresses: Iterable[ipaddress.IPv4Address | ipaddress.IPv6Address]
) -> bool:
    """Makes this process take connections at a port, on which it listens, from this machine and some addresses alone.

    Returns:
      Whether the system can do that: Linux can.
    """
    code = b"".join(struct.pack("HBBI", *each) for each in _program(addresses))
    buffer = ctypes.create_string_buffer(code)
    program = struct.pack("HL", len(code) // 8, ctypes.addressof(buffer))
    limited = False
    with contextlib.suppress(OSError):  # not Linux
        for name in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):
                if not stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                    continue
                with socket.socket(fileno=os.dup(int(name))) as each:
                    listens = each.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
                    if (
                        each.family in (socket.AF_INET, socket.AF_INET6)
                        and listens
                        and each.getsockname()[1] == port
                    ):
                        each.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, program)
                        limited = True
    return limited


def _program(
    addresses: Iterable[ipaddress.IPv4Address | ipaddress.IPv6Address],
) -> list[_Instruction]:
    """Returns the filter that takes packets from this machine's own loopback and from these addresses."""
    four: list[_Instruction] = [(_LOAD_WORD, 0, 0, _SOURCE[4])]
    six: list[_Instruction] = []
    for address in {*addresses, ipaddress.ip_address("::1")}:
        words = struct.unpack(f"!{len(address.packed) // 4}I", address.packed)
        if address.version == 4:
            four += [(_JUMP_IF_EQUAL, 0, 1, *words), _TAKE]
        else:
            for index, word in enumerate(words):
                left = 2 * (len(words) - index)  # instructions up to the next address
                six += [
                    (_LOAD_WORD, 0, 0, _SOURCE[6] + 4 * index),
                    (_JUMP_IF_EQUAL, 0, left - 1, word),
                ]
            six.append(_TAKE)
    four += [(_AND, 0, 0, 0xFF000000), (_JUMP_IF_EQUAL, 0, 1, 127 << 24), _TAKE, _DROP]
    version = [(_LOAD_BYTE, 0, 0, _HEADER), (_AND, 0, 0, 0xF0), (_JUMP_IF_EQUAL, 1, 0, 4 << 4)]
    return [*version, (_JUMP, 0, 0, len(four)), *four, *six, _DROP]
