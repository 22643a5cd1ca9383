"""The ports on which TensorFlow serves trainings: the ones after the feed's own, and who may reach them.

TensorFlow's servers listen on all interfaces and take commands from whoever reaches them. So the system's kernel is
told, for each port, from which addresses it takes packets.
"""

from __future__ import annotations

import contextlib
import ctypes
import ipaddress
import os
import socket
import struct
import threading
from collections.abc import Iterable, Iterator

TRAININGS = 8  # that one feed serves side by side
PORTS = 2 * TRAININGS  # a dispatcher's and a worker's each

_ATTACH_FILTER = 26  # SO_ATTACH_FILTER of Linux
# Instructions of its packet filters: (code, steps if true, steps if false, number).
_Instruction = tuple[int, int, int, int]
_LOAD_BYTE, _LOAD_WORD, _AND, _JUMP_IF_EQUAL, _JUMP, _RETURN = 0x30, 0x20, 0x54, 0x15, 0x05, 0x06
_HEADER = 0xFFF00000  # where the header of IP begins
_SOURCE = {4: _HEADER + 12, 6: _HEADER + 8}  # where the sender's address is
_TAKE, _DROP = (_RETURN, 0, 0, 0xFFFFFFFF), (_RETURN, 0, 0, 0)


class Pool:
    """The ports after a feed's own one, two for each training."""

    def __init__(self, own: int):
        self._free = [own + 1 + 2 * number for number in range(TRAININGS)]
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def pair(self) -> Iterator[tuple[int, int]]:
        """Yields two ports that no other training has. Raises OSError if there are none."""
        with self._lock:
            # Looked for, since another program may have it, and TensorFlow shares ports without a word.
            first = next((port for port in self._free if _is_free(port) and _is_free(port + 1)), None)
            if first is None:
                raise OSError(f"all ports for {TRAININGS} trainings are taken")
            self._free.remove(first)
        try:
            yield first, first + 1
        finally:
            with self._lock:
                self._free = sorted([*self._free, first])


def addresses_of(hosts: Iterable[str]) -> list[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    """Returns the addresses of hosts by name or address. Raises OSError."""
    found = [each[4][0] for host in hosts for each in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]
    addresses = [ipaddress.ip_address(text.partition("%")[0]) for text in found]
    return [getattr(address, "ipv4_mapped", None) or address for address in addresses]


def take_only_from(port: int, addresses: Iterable[ipaddress.IPv4Address | ipaddress.IPv6Address]) -> bool:
    """Makes this process take connections at a port, on which it listens, from this machine and some addresses alone.

    Returns:
      Whether the system can do that: Linux can.
    """
    code = b"".join(struct.pack("HBBI", *each) for each in _program(addresses))
    buffer = ctypes.create_string_buffer(code)
    program = struct.pack("HL", len(code) // 8, ctypes.addressof(buffer))
    limited = False
    with contextlib.suppress(OSError):
        for listening in _listening(port):
            listening.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, program)
            limited = True
    return limited


def _program(addresses: Iterable[ipaddress.IPv4Address | ipaddress.IPv6Address]) -> list[_Instruction]:
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
                six += [(_LOAD_WORD, 0, 0, _SOURCE[6] + 4 * index), (_JUMP_IF_EQUAL, 0, left - 1, word)]
            six.append(_TAKE)
    four += [(_AND, 0, 0, 0xFF000000), (_JUMP_IF_EQUAL, 0, 1, 127 << 24), _TAKE, _DROP]
    version = [(_LOAD_BYTE, 0, 0, _HEADER), (_AND, 0, 0, 0xF0), (_JUMP_IF_EQUAL, 1, 0, 4 << 4)]
    return [*version, (_JUMP, 0, 0, len(four)), *four, *six, _DROP]


def _listening(port: int) -> Iterator[socket.socket]:
    """Yields the sockets with which this process listens at a port."""
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(int(name))) as found:
            is_inet = found.family in (socket.AF_INET, socket.AF_INET6)
            if is_inet and found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) and found.getsockname()[1] == port:
                yield found


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("", port)).close()
    except (OSError, OverflowError):  # taken, or above the last one
        return False
    return True
