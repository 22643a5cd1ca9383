"""`cpc-tf label`: the features of the pictures, then the page until Ctrl+C."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import os
import socket
import webbrowser
from collections.abc import Iterator

from cpc_tf.classify.features import PictureEncoder
from cpc_tf.files import cache_folder, writing
from cpc_tf.label.config import LabelConfig
from cpc_tf.label.gallery import open_gallery
from cpc_tf.label.server import Page, serve
from cpc_tf.label.session import Session
from cpc_tf.label.table import LabelTable
from cpc_tf.settings import ConfigError
from cpc_tf.texts import listed


def main(config: LabelConfig) -> None:
    """The command `cpc-tf label`.

    Raises:
      ConfigError: the pictures, the encoder, the table or the port cannot be used, or another process labels already.
    """
    tell = functools.partial(print, flush=True)
    with _alone(config.labels):
        LabelTable(os.path.expanduser(config.labels), [])  # what is no table is said before minutes of encoding
        encoder = PictureEncoder(config.encoder, "", config.image_size, config.seed)
        gallery = open_gallery(encoder, config.pictures, config.batch_size, tell)
        if gallery.broken:
            why = listed([f"{name} ({reason})" for name, reason in gallery.broken.items()])
            tell(f"{len(gallery.broken):,} pictures are left out: {why}")
        page = Page(Session(config, gallery))
        server = serve(page, config.port)
        address = f"http://127.0.0.1:{server.port}/{page.token}/"
        tell(f"{len(gallery.rows):,} pictures, labels in {config.labels}: {address}")
        if remote := "SSH_CONNECTION" in os.environ:
            tell(f"on your own machine: ssh -N -L {server.port}:127.0.0.1:{server.port} {socket.gethostname()}")
        tell("Ctrl+C ends; each label is in the table at once")
        if config.browser and not remote:
            webbrowser.open(address)
        try:
            server.serve_forever()
        finally:
            server.server_close()


@contextlib.contextmanager
def _alone(labels: str) -> Iterator[None]:
    """Keeps other processes out of a table of labels, by a file in the cache."""
    name = hashlib.sha256(os.path.realpath(os.path.expanduser(labels)).encode(errors="surrogateescape")).hexdigest()
    path = os.path.join(cache_folder(), "label", f"{name[:32]}.lock")
    with writing(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        file = open(path, "a+")  # noqa: SIM115 closed below
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise ConfigError(
                "labels",
                labels,
                f"another cpc-tf label is at work on it ({file.read(100).strip()}); end that one first",
            ) from None
        file.truncate(0)
        file.write(f"process {os.getpid()}")
        file.flush()
        yield
