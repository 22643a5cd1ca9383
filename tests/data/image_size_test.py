"""The size from the header against the size of the pixels."""

import io

import pytest
import tensorflow as tf
from PIL import Image

from cpc_tf.data.decode import decode
from cpc_tf.data.image_size import image_size


def encode(kind, mode, size=(45, 300)):
    stream = io.BytesIO()
    Image.effect_noise(size, 50).convert(mode).save(stream, kind)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("kind", "mode"),
    [("JPEG", "RGB"), ("JPEG", "L"), ("JPEG", "CMYK"), ("PNG", "RGB"), ("PNG", "LA"), ("BMP", "RGB"), ("GIF", "P")],
)
@pytest.mark.parametrize("graph", [False, True])
def test_same_as_the_pixels(kind, mode, graph):
    encoded = tf.constant(encode(kind, mode))
    size = (tf.function(image_size) if graph else image_size)(encoded)
    assert size.dtype == tf.int32
    assert size.numpy().tolist() == list(decode(encoded).shape[:2]) == [300, 45]


@pytest.mark.parametrize("encoded", [b"", b"These are words.", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff\xe0"])
def test_broken_files_are_refused(encoded):
    with pytest.raises(tf.errors.InvalidArgumentError):
        image_size(tf.constant(encoded))
