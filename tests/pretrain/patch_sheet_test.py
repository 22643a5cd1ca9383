"""The sheet that a run leaves: drawn once, and never the end of the run."""

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from cpc_tf import augment
from cpc_tf.augment.config import AugmentConfig
from cpc_tf.augment.operations import OPERATIONS
from cpc_tf.data import catalog
from cpc_tf.pretrain import patch_sheet
from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.settings import replace
from tests.augment import samples

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
    return replace(PretrainConfig(), dataset=dataset, workdir=str(tmp_path / "run"), augment="none", **SMALL)


def test_a_run_leaves_its_sheet_once(config, tmp_path, monkeypatch):
    source = catalog.open_source(config.data, "train")
    patch_sheet.write_once(config, source)
    with Image.open(tmp_path / "run/patches.png") as sheet:
        assert sheet.size[0] > 5 * 16  # the 5 x 5 grid
    monkeypatch.setattr(patch_sheet, "draw", lambda *_: pytest.fail("drawn again"))
    patch_sheet.write_once(config, source)


@pytest.mark.parametrize("error", [OSError("disk full"), tf.errors.InvalidArgumentError(None, None, "no image")])
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
