"""A pre-training's flags draw the sheet of its patches."""

import numpy as np
import pytest
from PIL import Image

from cpc_tf import cli, show_patches
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
