"""What strangers send to an exported classifier: files of all kinds in one request, pixels in any range and type."""

import io

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from cpc_tf.data.decoding.decode import decode
from cpc_tf.export import classifier
from cpc_tf.linear.config import LinearConfig
from cpc_tf.settings import replace
from tests.attacks import declared_png
from tests.predict.models import write_classifier

pytestmark = pytest.mark.slow
PIXELS = np.random.default_rng(0).integers(0, 256, [3, 20, 30, 3], np.uint8)


def encoded(kind, **options):
    stream = io.BytesIO()
    Image.fromarray(PIXELS[0]).save(stream, kind, **options)
    return stream.getvalue()


def deep_png():
    return tf.io.encode_png(PIXELS[0].astype(np.uint16) * 16).numpy()  # of 12 bits


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    return tf.saved_model.load(write_classifier(tmp_path_factory.mktemp("model")))


def test_a_file_that_cannot_be_decoded_has_a_reason_and_the_others_their_prediction(module):
    frames = [Image.fromarray(x) for x in PIXELS]
    png, gif = encoded("PNG"), encoded("GIF", save_all=True, append_images=frames)
    wide = bytearray(gif)
    wide[6:10] = b"\xff" * 4  # width and height
    why = {
        png: "",
        b"": "cannot be decoded: empty",
        b"bad": "cannot be decoded: not a JPEG, PNG, GIF or BMP",
        encoded("WEBP"): "cannot be decoded: not a JPEG, PNG, GIF or BMP",
        gif: "",
        encoded("JPEG")[:9]: "cannot be decoded: a JPEG that is damaged or cut short",
        png[:20]: "cannot be decoded: a PNG that is damaged or cut short",
        png[:100]: "cannot be decoded: a PNG that is damaged or cut short",
        encoded("BMP")[:50]: "cannot be decoded: a BMP that is damaged or cut short",
        gif[:15]: "cannot be decoded: a GIF that is damaged or cut short",
        encoded("BMP"): "",
        declared_png(10_000, 10_000): "has 100 megapixels, and less than 100 are decoded",
        declared_png(2**31 - 1, 1): "has 2147 megapixels, and less than 100 are decoded",
        deep_png(): "has 16 bits, and the model knows no range of their values: scale them to 8 bits",
        bytes(wide): "has 4294 megapixels, and less than 100 are decoded",
    }
    found = {name: x.numpy() for name, x in module.from_bytes([*why]).items()}
    assert [text.decode() for text in found["error"]] == [*why.values()]
    sound = found["error"] == b""
    for name, nothing in {"label": -1, "name": b"", "probabilities": 0, "logits": 0}.items():
        assert np.all(found[name][~sound] == nothing)
    alone = module.from_bytes([png])
    for name in ("label", "name", "probabilities", "logits"):
        np.testing.assert_array_equal(found[name][0], alone[name][0])
    served = module.signatures["bytes"](encoded=tf.constant([b"", png]))
    assert served["error"].numpy().tolist() == [b"cannot be decoded: empty", b""]


@pytest.mark.parametrize("call", ["__call__", "prepared", "classify"])
def test_floats_are_seen_as_bytes_are(module, call):
    images = PIXELS[:, :8, :8]
    function = getattr(module, call)
    values = lambda found: found["logits"] if isinstance(found, dict) else found  # noqa: E731
    wanted = values(function(tf.constant(images)))
    for same in (images, images.tolist(), images / 255, tf.constant(images / 255, tf.float32)):
        np.testing.assert_allclose(values(function(same)), wanted, atol=1e-6)
    for wrong in (images * 1.0, images / 127.5 - 1, np.full_like(images, np.nan, np.float32)):
        with pytest.raises(tf.errors.InvalidArgumentError, match="must be floats in"):
            function(wrong)
    with pytest.raises(ValueError, match="Could not find matching concrete function"):
        function(images.astype(np.int32))


def test_a_run_on_the_upper_8_bits_keeps_them():
    """Exactly, as levels, which `predict` reads from the card, too."""
    image = np.arange(2**16, dtype=np.uint16).reshape(256, 256, 1).repeat(3, -1)
    run = replace(LinearConfig(), sixteen_bit="full", augment="none")
    levels = classifier._measured({}, run)["levels"]
    np.testing.assert_array_equal(decode(tf.io.encode_png(image), intensity_range=levels), image // 256)
    assert classifier._measured({}, replace(run, sixteen_bit="range"))["levels"] is None
