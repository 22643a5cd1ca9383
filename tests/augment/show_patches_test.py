"""A pre-training's flags draw the sheet of its patches."""

import numpy as np
import pytest
from PIL import Image

from cpc_tf.core import cli
from cpc_tf.core.settings import ConfigError
from cpc_tf.pretrain import show
from tests.augment import samples

GEOMETRY = ["--resize=40", "--image_size=32", "--patch_size=16", "--patch_stride=4", "--draws=2"]


@pytest.mark.slow
def test_draws_a_sheet(tmp_path, capsys):
    (tmp_path / "pictures").mkdir()
    for i, picture in enumerate(samples.patches(48)[:3]):
        Image.fromarray(picture).save(tmp_path / "pictures" / f"{i}.jpg")

    def drawn(*flags):
        argv = [
            f"--dataset=folder:{tmp_path}/pictures",
            f"--output={tmp_path}/sheet.png",
            *GEOMETRY,
            *flags,
        ]
        show.show(cli.parse(show.ShowConfig, argv))
        return np.asarray(Image.open(tmp_path / "sheet.png"))

    sheets = [drawn(f"--augment={policy}") for policy in ("none", "full")]
    assert sheets[0].shape[1] < sheets[1].shape[1]  # without augmentation the grid stands alone
    assert f"done: {tmp_path}/sheet.png" in capsys.readouterr().out
    with pytest.raises(ConfigError, match="^--picture=3"):
        drawn("--picture=3")
