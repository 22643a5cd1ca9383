"""The sheet that a run leaves: drawn once, and never the end of the run."""

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from cpc_tf import augment
from cpc_tf.augment.config import AugmentConfig
from cpc_tf.augment.operations import OPERATIONS
from cpc_tf.core.settings import replace
from cpc_tf.data import catalog
from cpc_tf.pretrain import patch_sheet
from cpc_tf.pretrain.config import PretrainConfig
from tests.augment import samples

pytestmark = [pytest.mark.drawn, pytest.mark.slow]

SMALL = {"resize": 40, "image_size": 32, "patch_size": 16, "patch_stride": 4}


def test_every_operation_is_shown_and_does_something():
    patches = np.stack([samples.patches(32)[0]] * 2)
    shown = patch_sheet.extremes(AugmentConfig(), 32)
    assert all(any(title.startswith(name) for title in shown) for name in OPERATIONS)
    for title, recipe in shown.items():
        assert (augment.apply(patches, recipe).numpy() != patches).any(), title


@pytest.fixture
def config(tmp_path):
    (tmp_path / "pictures").mkdir()
    Image.fromarray(samples.patches(48)[0]).save(tmp_path / "pictures/0.png")
    dataset = f"folder:{tmp_path}/pictures"
    return replace(
        PretrainConfig(), dataset=dataset, workdir=str(tmp_path / "run"), augment="none", **SMALL
    )


def test_a_run_leaves_its_sheet_once(config, tmp_path, monkeypatch):
    source = catalog.open_source(config.data, "train")
    patch_sheet.write_once(config, source)
    with Image.open(tmp_path / "run/patches.png") as sheet:
        assert sheet.size[0] > 5 * 16  # the 5 x 5 grid
    monkeypatch.setattr(patch_sheet, "draw", lambda *_: pytest.fail("drawn again"))
    patch_sheet.write_once(config, source)


@pytest.mark.parametrize(
    "error", [OSError("disk full"), tf.errors.InvalidArgumentError(None, None, "no image")]
)
def test_what_the_machine_fails_is_a_warning(config, tmp_path, monkeypatch, capsys, error):
    def fail(*_):
        raise error

    monkeypatch.setattr(patch_sheet, "draw", fail)
    patch_sheet.write_once(config, catalog.open_source(config.data, "train"))
    said = capsys.readouterr().err
    assert said.startswith("warning: ")
    assert "patches.png" in said
    assert not (tmp_path / "run/patches.png").exists()


def test_a_mistake_in_the_drawing_is_raised(config):
    with pytest.raises(AttributeError):
        patch_sheet.write_once(config, "no source")


def test_image_with_shapes_details_and_colours_is_chosen(config, tmp_path):
    """Not a plain one, nor one of noise, nor two plain halves: a crop of a sky or of grass shows no
    patches.
    """
    random = np.random.default_rng(0)
    halves = np.zeros([48, 48, 3], np.uint8)
    halves[:24] = 255
    coloured = random.integers(0, 60, [48, 48, 3], dtype=np.uint8)
    coloured[:24, ..., 0] += 150
    for name, image in {
        "1": np.full([48, 48, 3], 90, np.uint8),
        "2": halves,
        "3": coloured,
    }.items():
        Image.fromarray(image).save(tmp_path / f"pictures/{name}.png")
    noise = random.integers(0, 255, [48, 48, 1], dtype=np.uint8).repeat(3, 2)
    Image.fromarray(noise).save(tmp_path / "pictures/0.png")
    source = catalog.open_source(config.data, "train")
    chosen = patch_sheet.choose(config, source)
    np.testing.assert_array_equal(chosen, patch_sheet.whole_image(config, source, 3))
    assert chosen.shape == (40, 40, 3)
