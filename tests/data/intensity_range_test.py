"""Images of more than 8 bits: scaled by the range of the data set, or by all 16 bits."""

import io

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds
import tifffile
from PIL import Image

from cpc_tf.data import check, decode, pipeline
from cpc_tf.data.config import GeometryConfig
from cpc_tf.data.datasets import TfdsSource
from cpc_tf.data.source import restricted
from cpc_tf.data.table import Table
from tests import samples
from tests.boxes.samples import open_voc_folder, open_voc_images
from tests.data.samples import encode, open_folder, write_files

pytestmark = pytest.mark.slow

RANDOM = np.random.default_rng(0)
GREY = RANDOM.integers(1000, 1401, [9, 7], dtype=np.uint16)
COLOUR = RANDOM.integers(1000, 1401, [9, 7, 3], dtype=np.uint16)
TEXT = [tf.TensorSpec([], tf.string)]
DECODE = tf.function(lambda x: decode.decode(x, 0, (1000.0, 1400.0)), input_signature=TEXT)
DECODE_FULL = tf.function(decode.decode, input_signature=TEXT)


def tiff(pixels, **options):
    stream = io.BytesIO()
    tifffile.imwrite(stream, pixels, **options)
    return stream.getvalue()


def png(pixels):
    return tf.io.encode_png(pixels if pixels.ndim == 3 else pixels[..., None]).numpy()


def with_alpha(pixels):
    return np.concatenate([pixels, RANDOM.integers(0, 65536, [9, 7, 1], dtype=np.uint16)], -1)


def scaled(pixels, low=1000, high=1400):
    """uint8 [H, W, 3]."""
    found = np.clip(
        np.round((pixels.astype(np.float64) - low) * 255 / (high - low)), 0, 255
    ).astype(np.uint8)
    return found if found.ndim == 3 else np.stack([found] * 3, -1)


RGB = {"photometric": "rgb"}
DEEP = [
    *((png(pixels), pixels) for pixels in (GREY, COLOUR)),
    (png(with_alpha(COLOUR)), COLOUR),
    (png(with_alpha(GREY[..., None])), GREY),
    (encode(GREY), GREY),
    (encode(GREY, "TIFF", compression="tiff_lzw"), GREY),
    *(
        (tiff(GREY, **options), GREY)
        for options in ({}, {"byteorder": ">"}, {"tile": (16, 16), "compression": "zlib"})
    ),
    (tiff(GREY, photometric="miniswhite"), 65535 - GREY),
    *(
        (tiff(COLOUR, **RGB, **options), COLOUR)
        for options in ({}, {"byteorder": ">", "compression": "zlib"})
    ),
    (tiff(with_alpha(COLOUR), **RGB, extrasamples=["unassalpha"]), COLOUR),
    *(
        (tiff(pixels), pixels)
        for pixels in (GREY.astype(np.int16), -GREY.astype(np.int16), GREY.astype(np.int32))
    ),
    (tiff(GREY.astype(np.float32) + 0.25), GREY + 0.25),
    (tiff(np.stack([GREY, GREY[::-1]])), GREY),  # pages
]


@pytest.mark.parametrize(("encoded", "pixels"), DEEP)
def test_values_are_scaled(encoded, pixels):
    np.testing.assert_array_equal(DECODE(encoded), scaled(pixels))
    upper = np.clip(np.floor(pixels / 256), 0, 255).astype(np.uint8)
    np.testing.assert_array_equal(
        DECODE_FULL(encoded), upper if upper.ndim == 3 else np.stack([upper] * 3, -1)
    )
    about = decode.header(tf.constant(encoded))
    assert (about.size.numpy().tolist(), int(about.pixels), int(about.bits) > 8) == (
        [9, 7],
        63,
        True,
    )


def test_images_of_8_bits_are_not_scaled():
    pixels = RANDOM.integers(0, 256, [9, 7, 3], dtype=np.uint8)
    for kind in ("PNG", "TIFF", "WEBP", "BMP"):
        np.testing.assert_array_equal(DECODE(encode(pixels, kind, lossless=True)), pixels)


@pytest.mark.parametrize(
    "encoded",
    [
        tiff(COLOUR, photometric="rgb", planarconfig="separate"),
        tiff(with_alpha(COLOUR), photometric="separated"),
    ],
)
def test_what_pillow_halves_is_refused(encoded):
    for function in (DECODE, DECODE_FULL):
        with pytest.raises(tf.errors.InvalidArgumentError):
            function(encoded)


def write_tomography(root):
    """20 images a class, of values from 1000 in train and 1100 in val to 1400."""
    random = np.random.default_rng(1)
    for split, low in (("train", 1000), ("val", 1100)):
        for name in (f"{split}/{folder}/{i}.png" for folder in "ab" for i in range(20)):
            write_files(root, {name: png(random.integers(low, 1401, [20, 20], dtype=np.uint16))})
    return str(root)


def test_all_splits_share_the_range_of_the_folder(tmp_path, warnings, monkeypatch):
    root, cache = write_tomography(tmp_path / "ct"), str(tmp_path / "cache")
    fault = np.where(np.arange(400) < 3, 65535, 1200).astype(np.uint16).reshape(20, 20)
    flat = encode(np.zeros([5, 5], np.uint8))
    write_files(tmp_path / "ct", {"train/a/8bit.png": flat, "val/a/fault.png": png(fault)})
    train, val = (open_folder(root, split, cache).intensity_range for split in ("train", "val"))
    assert train == val
    assert abs(train[0] - 1000) <= 2
    assert abs(train[1] - 1400) <= 2
    assert warnings == [
        f"--dataset=folder:{root}: 81 of 82 images have more than 8 bits; values {train[0]:g} to"
        f" {train[1]:g} are scaled to 0 to 255 (--sixteen_bit=range)"
    ]
    monkeypatch.setattr(check, "measured", None)  # remembered
    assert open_folder(root, "val", cache).intensity_range == val
    assert open_folder(root, "val", cache, sixteen_bit="full").intensity_range is None
    assert warnings[1:] == [
        f"--dataset=folder:{root}: 41 of 41 images have more than 8 bits; their upper 8 bits are"
        " used (--sixteen_bit=full)"
    ]


def test_huge_images_of_16_bits_have_no_levels(tmp_path, refused):
    write_files(
        tmp_path, {f"x/{i:03}.png": encode(np.full([2, 2, 3], i, np.uint8)) for i in range(120)}
    )
    write_files(tmp_path, {"x/huge.png": png(np.zeros([9, 9], np.uint16))})
    source = open_folder(tmp_path / "x", "train", str(tmp_path / "cache"), max_megapixels=50e-6)
    assert (source.num_examples, source.intensity_range) == (120, None)


def test_unreadable_file_is_an_error_not_skipped(tmp_path, refused):
    write_files(tmp_path, {"x/1.png": png(GREY), "x/2.png": b"no image", "x/3.png": encode(GREY)})
    names = np.array(["1.png", "2.png", "3.png"], object)
    table = Table(f"{tmp_path}/x", names, {}, {}, cache_dir=str(tmp_path / "cache"))
    (tmp_path / "x/3.png").rename(tmp_path / "3.png")
    assert "x/3.png: cannot be read (" in refused(check._range_of, table, "range", 1, 3)
    (tmp_path / "3.png").rename(tmp_path / "x/3.png")
    low, high = check._range_of(table, "range", 1, 3)
    assert 1000 <= low < high <= 1400


def test_training_and_evaluation_see_the_scaled_images(tmp_path):
    source = open_folder(write_tomography(tmp_path / "ct"), "train", str(tmp_path / "cache"))
    geometry = GeometryConfig(resize=20, image_size=20, patch_size=20, patch_stride=20)
    for part in (source, restricted(source, np.arange(3))):
        (batch,) = pipeline.plain_images(part, geometry, 3).take(1)
        assert batch["image"].numpy().min() < 5
        assert batch["image"].numpy().max() > 250


def test_images_with_boxes_are_scaled_alike(tmp_path):
    root = samples.write_boxes(tmp_path / "voc")
    for path in (tmp_path / "voc/JPEGImages").iterdir():
        path.write_bytes(png(1000 + np.asarray(Image.open(path)).astype(np.uint16)))
    for opened in (open_voc_folder, open_voc_images):
        assert opened(root, "train", str(tmp_path / "cache")).intensity_range == (1000, 1255)


class Deep(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    """Records of 16 bits."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        image = tfds.features.Image(shape=(9, 7, 1), dtype=np.uint16, encoding_format="png")
        return self.dataset_info_from_configs(features=tfds.features.FeaturesDict({"image": image}))

    def _split_generators(self, dl_manager):
        return {"train": self._generate_examples(), "test": self._generate_examples()}

    def _generate_examples(self):
        yield from ((i, {"image": GREY[..., None]}) for i in range(3))


@pytest.mark.parametrize("rule", ["range", "full"])
def test_records_of_16_bits(tmp_path, rule, warnings):
    builder = Deep(data_dir=str(tmp_path))
    builder.download_and_prepare()
    source = TfdsSource(builder, "train", 10, rule)
    assert (source.intensity_range is None) == (rule == "full")
    assert warnings[0].startswith("deep: 3 of 3 images have more than 8 bits; ")
    if source.intensity_range:
        np.testing.assert_allclose(source.intensity_range, np.percentile(GREY, [0.1, 99.9]), atol=2)
