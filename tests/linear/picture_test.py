import io

import numpy as np
import pytest
from PIL import Image

from cpc_tf.linear import picture

pytestmark = [pytest.mark.drawn, pytest.mark.slow]


def test_titles_stand_on_the_picture_as_a_whole():
    images, labels, order = (
        np.zeros([12, 8, 8, 3], np.uint8),
        np.arange(12) % 6,
        np.tile(np.arange(12), [12, 1]),
    )
    results = {
        title: {"top1": 0.5, "num_classes": 6, "identity": {"trained_by": by}}
        for title, by in (("encoder", "cpc"), ("random encoder", "untrained"))
    }
    shown = {
        title: picture.Neighbours(images, labels, images, labels, order, images.mean((1, 2)))
        for title in results
    }
    png = picture.draw(results, shown, [f"class {i}" for i in range(6)])
    gallery = np.asarray(Image.open(io.BytesIO(png)).convert("L"))[:, 450:]
    assert (gallery[0] == 255).all(), "nothing is cut off"
    assert (gallery[:20] < 128).any(), "titles above the images"
