"""`cpc-tf label`: the features of the images, then the page until Ctrl+C."""

from __future__ import annotations

import functools
import os
import re
import socket
import webbrowser

from cpc_tf.core.files import remove_leftovers
from cpc_tf.core.texts import listed
from cpc_tf.encoders.side_by_side import open_encoder
from cpc_tf.label.config import LabelConfig
from cpc_tf.label.gallery import open_gallery
from cpc_tf.label.server import Page, serve
from cpc_tf.label.session import Session
from cpc_tf.label.table import LabelTable


def main(config: LabelConfig) -> None:
    """The command `cpc-tf label`.

    Raises:
      ConfigError: the images, the encoder, the table or the port cannot be used.
    """
    tell = functools.partial(print, flush=True)
    # what is no table is said before minutes of encoding
    table = LabelTable(os.path.expanduser(config.labels), [])
    folder, name = os.path.split(os.path.realpath(table.path))
    remove_leftovers(folder, rf"{re.escape(name)}\.\d+\.tmp")
    encoder = open_encoder(config.encoder, config.seed, config.image_size)
    gallery = open_gallery(encoder, config.pictures, config.batch_size, tell)
    if gallery.broken:
        why = listed([f"{name} ({reason})" for name, reason in gallery.broken.items()])
        tell(f"{len(gallery.broken):,} images are left out: {why}")
    inside = os.path.realpath(os.path.expanduser(config.pictures)).rstrip("/") + "/"
    places = zip(
        gallery.pictures.names, map(os.path.realpath, map(os.fsdecode, gallery.pictures.paths))
    )
    if elsewhere := [name for name, place in places if not place.startswith(inside)]:
        tell(
            f"{len(elsewhere):,} images are links to files outside of the folder:"
            f" {listed(elsewhere)}"
        )
    page = Page(Session(config, gallery))
    server = serve(page, config.port)
    address = f"http://127.0.0.1:{server.port}/{page.token}/"
    tell(f"{len(gallery.rows):,} images, labels in {config.labels}: {address}")
    if remote := "SSH_CONNECTION" in os.environ:
        tell(
            f"on your own machine: ssh -N -L {server.port}:127.0.0.1:{server.port}"
            f" {socket.gethostname()}"
        )
    tell("Ctrl+C stops the program; each label is saved at once")
    if config.browser and not remote:
        webbrowser.open(address)
    server.run()
