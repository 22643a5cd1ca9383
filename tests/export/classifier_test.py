"""An exported classifier predicts images, and files of them, as the run's test does; and it refuses
damaged files.
"""

import io
import json
import shutil

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from cpc_tf.core.files import write_file
from cpc_tf.core.settings import ConfigError, replace
from cpc_tf.data.decode import decode
from cpc_tf.efficient.classifier import FINE_TUNED, FROZEN
from cpc_tf.evaluation.scores import probabilities
from cpc_tf.export import classifier
from cpc_tf.linear.config import LinearConfig
from tests.attacks import declared_png, lying_png
from tests.export.conftest import assert_close, made, read
from tests.export.runs import GRID, NAMES, RESULT, few_labels, linear_run
from tests.use.models import write_classifier

pytestmark = pytest.mark.slow
PIXELS = np.random.default_rng(0).integers(0, 256, [3, 20, 30, 3], np.uint8)
NO_BMP = (
    "cannot be decoded: a BMP that is damaged, compressed or has less than 24 bits a pixel; save it"
    " as PNG"
)


@pytest.fixture(scope="module")
def files(root):
    return [(root / "pictures/val" / name / "0.png").read_bytes() for name in NAMES]


def with_result(path, folder, **changes):
    """A copy of a run whose result has other values; returns its path."""
    copy = shutil.copytree(path, folder / "run")
    result = json.loads(read(path, "result.json"))
    write_file(f"{copy}/result.json", json.dumps({**result, **changes}))
    return copy


def check(module, files, wanted):
    """Compares a module with the logits of the run's test, on images and on their files."""
    each = [module(tf.io.decode_png(file, channels=3)[None]) for file in files]
    together = module.from_bytes(tf.constant(files))
    for found in (
        {name: np.concatenate([one[name] for one in each]) for name in each[0]},
        together,
    ):
        assert_close(found["logits"], wanted)
        np.testing.assert_allclose(found["probabilities"], probabilities(wanted, 2.5), atol=1e-5)
        assert [NAMES[label] for label in wanted.argmax(1)] == [
            name.decode() for name in np.array(found["name"])
        ]
        np.testing.assert_array_equal(found["label"], wanted.argmax(1))


@pytest.mark.parametrize(
    ("encoder", "phase", "flags"),
    [
        ("random:ours", FROZEN, ["--endpoint=latents", "--augment=v1", "--resize_mode=pad"]),
        ("graph:ours", FINE_TUNED, ["--encoder_adam=paper", "--resize_mode=crop"]),
        ("pixels", "supervised", ["--refit"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_it_predicts_as_the_run_on_few_labels(root, source, files, encoder, phase, flags):
    path, tested = few_labels(root, encoder, phase, *flags)
    found = made(path, part="all")
    wanted = tested(source)
    assert np.ptp(wanted) > 0.01
    check(found.module, files, wanted)
    assert found.card["step"] == 2
    assert found.card["geometry"] is None
    refitted = "--refit" in flags
    assert found.card.get("refit_labels") == (40 if refitted else None)
    assert ("trained on all 40\nlabels, including those of split `val`" in found.readme) is refitted


def test_predictions_equal_those_of_the_linear_run(root, source, files, tmp_path):
    path, tested = linear_run(root, "ours", "--nobaselines", "--augment=v1")
    found = made(path, part="all")
    check(found.module, files, tested(source))
    assert found.card["geometry"]["patch_size"] == 8
    then = {**json.loads(read(path, "result.json"))["identity"], "steps": 900}
    with pytest.raises(
        ConfigError,
        match="learned on an encoder of 900 steps on photos, .*/ours is now one of 7 step",
    ):
        made(with_result(path, tmp_path, identity=then), part="all")


@pytest.fixture(scope="module")
def probed(root):
    """(path, images -> logits) of a linear run on pixels."""
    return linear_run(root, "pixels", "--nobaselines", *GRID)


def test_what_is_not_calibrated_says_so(probed, tmp_path):
    many = {**RESULT["calibration"], "tested": 120}
    unfitted = {**many, "temperature": 1.0, "fitted": False}
    for folder, calibration, text in (
        ("a", None, "no labels were held out"),
        ("b", unfitted, "all 6 held-out labels"),
    ):
        found = made(with_result(probed[0], tmp_path / folder, calibration=calibration), part="all")
        assert found.card["temperature"] == 1.0
        assert f"Not calibrated: {text}" in found.readme
    assert "the expected calibration error is 4.0 % (15 bins)" in found.readme
    fitted = made(with_result(probed[0], tmp_path / "c", calibration=many), part="all").readme
    assert "the expected calibration error is 4.0 % instead of 20.0 % (15 bins)" in fitted


def test_card_shows_a_class_never_found(probed, tmp_path):
    classes = {
        "ant": {"tested": 10, "predicted": 12, "right": 9},
        "bee": {"tested": 2, "predicted": 0, "right": 0},
        "wasp": {"tested": 0, "predicted": 0, "right": 0},
    }
    about = {"tested": 12, "class_mean": 0.45, "largest_class": 10 / 12, "classes": classes}
    found = made(with_result(probed[0], tmp_path, **about), part="all")
    assert (
        "| mean of the classes | 45.0 % |\n| always naming the largest class | 83.3 % |\n\nnote:"
        " only 12" in found.readme
    )
    assert (
        "| `bee` | 2 | 0 | 0 | 0 % | - |\n| `ant` | 10 | 9 | 12 | 90 % | 75 % |\n\n" in found.readme
    )
    assert (found.card["classes"], found.card["figures"]["class_mean"]) == (classes, 0.45)


# Files of any kind.


def encoded(kind, mode="RGB", **options):
    stream = io.BytesIO()
    Image.fromarray(PIXELS[0]).convert(mode).save(stream, kind, **options)
    return stream.getvalue()


def deep_png():
    return tf.io.encode_png(PIXELS[0].astype(np.uint16) * 16).numpy()  # of 12 bits


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    return tf.saved_model.load(write_classifier(tmp_path_factory.mktemp("model")))


def test_undecodable_file_gets_a_reason_instead_of_prediction(module):
    png = encoded("PNG")
    why = {
        png: "",
        b"": "cannot be decoded: empty",
        b"bad": "cannot be decoded: not a JPEG, PNG or BMP; save it as one",
        encoded("WEBP"): "cannot be decoded: not a JPEG, PNG or BMP; save it as one",
        encoded("GIF"): "cannot be decoded: a GIF; save it as PNG",
        encoded("JPEG")[:9]: "cannot be decoded: a JPEG that is damaged or cut short",
        png[:20]: "cannot be decoded: a PNG that is damaged or cut short",
        png[:100]: "cannot be decoded: a PNG that is damaged or cut short",
        encoded("BMP")[:50]: NO_BMP,
        encoded("BMP", mode="P"): NO_BMP,
        encoded("BMP", mode="L"): NO_BMP,
        encoded("BMP"): "",
        declared_png(10_000, 10_000): "has 100 megapixels, and less than 100 are decoded",
        declared_png(2**31 - 1, 1): "has 2147 megapixels, and less than 100 are decoded",
        deep_png(): (
            "has 16 bits, and the model knows no range of their values: scale them to 8 bits"
        ),
        lying_png(png): "cannot be decoded: a PNG that is damaged or cut short",
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


def test_run_on_upper_8_bits_exports_them():
    """Exactly, as an intensity range, which `predict` reads from the card, too."""
    image = np.arange(2**16, dtype=np.uint16).reshape(256, 256, 1).repeat(3, -1)
    run = replace(LinearConfig(), sixteen_bit="full", augment="none")
    upper_bits = classifier.measured({}, run)["intensity_range"]
    np.testing.assert_array_equal(
        decode(tf.io.encode_png(image), intensity_range=upper_bits), image // 256
    )
    assert classifier.measured({}, replace(run, sixteen_bit="range"))["intensity_range"] is None
