"""The sheet of patches: what stands on it, and that a pre-training's flags draw it."""

import numpy as np
import pytest
from PIL import Image

from cpc_tf import augment, cli, show_patches
from cpc_tf.config import AugmentConfig
from cpc_tf.settings import ConfigError
from tests.augment import samples

GEOMETRY = ["--resize=40", "--image_size=32", "--patch_size=16", "--patch_stride=4", "--draws=2"]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "pictures").mkdir()
    for i, picture in enumerate(samples.patches(48)[:3]):
        Image.fromarray(picture).save(tmp_path / "pictures" / f"{i}.jpg")
    return tmp_path


def _show(folder, *flags):
    argv = [f"--dataset=folder:{folder}/pictures", f"--output={folder}/sheet.png", *GEOMETRY, *flags]
    show_patches.main(cli.parse(show_patches.ShowConfig, argv))
    return np.asarray(Image.open(folder / "sheet.png"))


@pytest.mark.parametrize("policy", ["none", "v1", "full"])
def test_draws_a_sheet(folder, policy, capsys):
    sheet = _show(folder, f"--augment={policy}")
    assert sheet.shape[2] == 3
    assert "done" in capsys.readouterr().out


def test_a_picture_that_is_not_there(folder):
    with pytest.raises(ConfigError, match="--picture=3"):
        _show(folder, "--picture=3")


def test_every_primitive_is_shown_and_does_something():
    patches = np.stack([samples.patches(32)[0]] * 2)
    shown = show_patches.extremes(AugmentConfig(), 32)
    assert all(any(title.startswith(name) for title in shown) for name in augment.PRIMITIVES)
    for title, recipe in shown.items():
        assert (augment.apply(patches, recipe).numpy() != patches).any(), title
