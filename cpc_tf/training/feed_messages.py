"""What a training and a feed send each other: lines of JSON, signed with a secret that never travels.

The feed sends a random number, the training its request signed with it and a number of its own, and the feed an answer
signed with that. Without a secret the signatures are those of an empty one.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import socket
import stat
from typing import Any

from cpc_tf.files import reason
from cpc_tf.settings import ConfigError
from cpc_tf.texts import shown

SECRET = "CPC_TF_FEED_SECRET"  # the environment variable that names the file with it
HOW = f"`(umask 077; openssl rand -hex 32 > FILE)` makes one, and {SECRET}=FILE names it"
_LONGEST = 2**16  # bytes of a line
_SHORTEST = 16  # bytes of a secret
_SIGNATURE = "signature"


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
        raise ConfigError(f"{SECRET}={shown(path)}: cannot be read ({reason(error)}); {HOW}") from error
    if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO) or status.st_uid not in (0, os.geteuid()):
        mode = f"{stat.S_IMODE(status.st_mode):o}, of user {status.st_uid}"
        raise ConfigError(f"{SECRET}={shown(path)}: others can read it (mode {mode}); `chmod 600` it as its owner")
    if len(secret) < _SHORTEST:
        raise ConfigError(f"{SECRET}={shown(path)}: has {len(secret)} bytes, at least {_SHORTEST} are needed; {HOW}")
    return secret


def new_number() -> str:
    """Returns a random number that nobody has had before."""
    return secrets.token_hex(16)


def send(connection: socket.socket, message: dict[str, Any]) -> None:
    """Sends a line."""
    connection.sendall(json.dumps(message).encode() + b"\n")


def send_signed(connection: socket.socket, message: dict[str, Any], secret: bytes, number: str) -> None:
    """Sends a line that is signed with a secret and the other side's number."""
    send(connection, {**message, _SIGNATURE: _signature(message, secret, number)})


def receive(connection: socket.socket) -> dict[str, Any]:
    """Returns the line that the other side sent. Raises OSError or ValueError."""
    with connection.makefile("rb") as lines:
        line = lines.readline(_LONGEST)
    value = json.loads(line)
    if not isinstance(value, dict):
        raise ValueError(f"{shown(line)}: is not an object")
    return value


def receive_signed(connection: socket.socket, secret: bytes, number: str) -> dict[str, Any]:
    """Returns the line that the other side sent and signed. Raises OSError, ValueError or NotSigned."""
    message = receive(connection)
    signature = str(message.pop(_SIGNATURE, ""))
    if not hmac.compare_digest(signature.encode(), _signature(message, secret, number).encode()):
        raise NotSigned(f"has another secret (it answers {shown(str(message))})")
    return message


def _signature(message: dict[str, Any], secret: bytes, number: str) -> str:
    signed = json.dumps([number, message], sort_keys=True).encode()
    return hmac.new(secret, signed, hashlib.sha256).hexdigest()
