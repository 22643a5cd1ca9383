"""Tiny data that tests of several packages make."""

import pathlib

import numpy as np
import tensorflow as tf

from cpc_tf.data.catalog import Pair
from cpc_tf.data.source import IndexedSource

# Flags of a pre-training of some seconds on crops of 64 px.
PRETRAIN = """
    --dataset=photos/40 --split=unlabelled --resize=64 --image_size=64 --patch_size=16
    --patch_stride=16 --steps_to_ignore=0 --steps_to_predict=1 --encoder=small --context_blocks=1
    --context_dim=8 --batch_size=4 --steps_per_loop=2 --checkpoint_every=4 --learning_rate=0.001
""".split()

# One of seconds, on crops of 24 px by an encoder of one block: a grid of 3x3 patches.
PRETRAIN_SMALLEST = [
    *PRETRAIN,
    *"--resize=24 --image_size=24 --patch_size=8 --patch_stride=8 --directions=1".split(),
    *"--encoder=tiny --output_stack=1 --steps_per_loop=1".split(),
]

# Settings with which tiny data and networks are enough: objective -> {field: value}.
OF_OBJECTIVE = {
    "amdim": {"amdim_dim": 8},
    "byol": {"byol_hidden": 8, "byol_dim": 4},
    "cmc": {"cmc_negatives": 3, "cmc_temperature": 1.0},
    "deep_cluster": {"deep_cluster_clusters": 3},
    "exemplar": {"exemplar_dim": 8},
    "instance_bank": {"instance_bank_negatives": 3, "instance_bank_temperature": 1.0},
    "local_aggregation": {"local_aggregation_background": 4, "local_aggregation_clusters": 2},
    "moco": {"moco_queue_length": 6},
    "pirl": {"pirl_negatives": 3},
    "vicreg": {"vicreg_dim": 8},
}


def write_pictures(root, counts, names=("red", "green", "blue"), side=16):
    """A folder of images, each of its class's colour with noise: ROOT/SPLIT/CLASS/NUMBER.png.

    Args:
      root: the folder; made.
      counts: split -> images of each class.
      names: of the classes, three at most.
      side: of the images, px.

    Returns:
      The folder as text.
    """
    random = np.random.default_rng(0)
    for split, count in counts.items():
        for channel, name in enumerate(names):
            folder = pathlib.Path(root, split, name)
            folder.mkdir(parents=True)
            for number in range(count):
                pixels = random.integers(0, 100, [side, side, 3], dtype=np.uint8)
                pixels[..., channel] += 120
                (folder / f"{number}.png").write_bytes(tf.io.encode_png(pixels).numpy())
    return str(root)


def write_boxes(root, count=4, side=32):
    """A folder in VOC's layout: grey images with a white 'square' or a black 'bar' on each; returns
    it as text.
    """
    for folder in ("JPEGImages", "Annotations"):
        pathlib.Path(root, folder).mkdir(parents=True)
    for number in range(count):
        pixels = np.full([side, side, 3], 128, np.uint8)
        name, height, level = (("square", side // 2, 255), ("bar", side // 4, 0))[number % 2]
        pixels[2 : 2 + height, 4 : 4 + side // 2] = level
        pixels[-1, -1] = 129 + number  # no image is a copy of another
        pathlib.Path(root, f"JPEGImages/{number}.png").write_bytes(tf.io.encode_png(pixels).numpy())
        corners = (
            f"<xmin>5</xmin><ymin>3</ymin><xmax>{4 + side // 2}</xmax><ymax>{2 + height}</ymax>"
        )
        box = f"<object><name>{name}</name><difficult>0</difficult>"
        box += f"<bndbox>{corners}</bndbox></object>"
        size = f"<size><width>{side}</width><height>{side}</height></size>"
        text = f"<annotation>{size}{box}</annotation>"
        pathlib.Path(root, f"Annotations/{number}.xml").write_text(text)
    return str(root)


class MultiLabel(IndexedSource):
    """Images of noise in memory: whichever of red, green and blue are bright are the labels of
    each.
    """

    class_names, multi_label = ("red", "green", "blue"), True

    def __init__(self, count, seed=0, side=16):
        random = np.random.default_rng(seed)
        self.num_examples, self._labels = (
            count,
            random.integers(0, 2, [count, 3]).astype(np.float32),
        )
        pixels = random.integers(0, 100, [count, side, side, 3]) + 120 * self._labels[
            :, None, None
        ].astype(int)
        self._encoded = tf.constant(
            [tf.io.encode_png(image.astype(np.uint8)).numpy() for image in pixels]
        )

    def read(self, index):
        return {"encoded": self._encoded[index], "label": tf.constant(self._labels)[index]}

    @classmethod
    def pair(cls, *_):
        """What `catalog.open_pair` returns: 40 images to learn from, 12 to test on."""
        return Pair(cls(40), cls(12, seed=1), "several labels")
