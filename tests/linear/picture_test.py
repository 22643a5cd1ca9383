import io

import numpy as np
from PIL import Image

from cpc_tf.evaluation.features import Features
from cpc_tf.linear import picture


def test_titles_stand_on_the_picture_as_a_whole():
    random = np.random.default_rng(0)

    def part(count):
        latents = random.normal(size=[count, 1, 1, 4]).astype(np.float32)
        return np.zeros([count, 8, 8, 3], np.uint8), Features(latents, np.arange(count) % 6)

    results = {
        title: {"top1": 0.5, "num_classes": 6, "identity": {"trained_by": by}}
        for title, by in (("encoder", "cpc"), ("random encoder", "untrained"))
    }
    shown = {title: picture.Neighbours(*part(6), *part(12)) for title in results}
    png = picture.draw(results, shown, [f"class {i}" for i in range(6)])
    gallery = np.asarray(Image.open(io.BytesIO(png)).convert("L"))[:, 450:]
    assert (gallery[0] == 255).all(), "nothing is cut off"
    assert (gallery[:20] < 128).any(), "titles above the images"
