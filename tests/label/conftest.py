"""Images of three colours whose features are their mean colours."""

import numpy as np
import pytest

from cpc_tf.core.settings import ConfigError
from cpc_tf.data.config import SQUASH, ImageConfig
from cpc_tf.encoders.features import Encoder
from cpc_tf.label import gallery
from cpc_tf.label.config import LabelConfig
from tests.samples import write_pictures


class MeanColours(Encoder):
    """3 features, and as many calls as it is allowed."""

    geometry = ImageConfig(resize=8, image_size=8, resize_mode=SQUASH)
    intensity_range, digest, what = None, "mean colours", "mean colours"

    def __init__(self, calls=99):
        self.calls, self.encoded = calls, 0

    def encode_batch(self, images):
        if not self.calls:
            raise ConfigError("killed")
        self.calls, self.encoded = self.calls - 1, self.encoded + len(images)
        return np.asarray(images, np.float32).mean((1, 2)) / 255


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """48 images: FOLDER/CLASS/NUMBER.png."""
    monkeypatch.setenv("CPC_TF_CACHE", str(tmp_path / "cache"))
    write_pictures(tmp_path / "mine", {"": 16})
    return tmp_path / "mine"


@pytest.fixture
def opened(folder):
    """The gallery of these."""
    return gallery.open_gallery(MeanColours(), str(folder), 8, lambda line: None)


@pytest.fixture
def config(folder):
    """Settings of a session in this folder."""
    return LabelConfig(pictures=str(folder), labels=str(folder.parent / "labels.csv"))
