"""Images with boxes in memory."""

import io

from PIL import Image

from cpc_tf.data import catalog
from cpc_tf.data.config import DataConfig


def open_folder(root, split="train", cache="", **settings):
    return catalog.open_source(
        DataConfig(dataset=f"folder:{root}", data_dir=str(cache), **settings), split
    )


def write_files(root, files):
    """Writes {path below root: bytes or text}."""
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content.encode() if isinstance(content, str) else content)


def encode(picture, kind="PNG", **options):
    """The file of an image of Pillow or of pixels."""
    stream = io.BytesIO()
    image = picture if isinstance(picture, Image.Image) else Image.fromarray(picture)
    image.save(stream, kind, **options)
    return stream.getvalue()
