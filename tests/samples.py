"""Tiny data that tests of several packages make."""

import pathlib

import numpy as np
import tensorflow as tf

# Flags of a pre-training of some seconds on crops of 64 px.
PRETRAIN = """
    --dataset=photos/40 --split=unlabelled --resize=64 --image_size=64 --patch_size=16 --patch_stride=16
    --steps_to_ignore=0 --steps_to_predict=1 --encoder=small --context_blocks=1 --context_dim=8 --batch_size=4
    --steps_per_loop=2 --checkpoint_every=4 --learning_rate=0.001
""".split()


def write_pictures(root, counts, names=("red", "green", "blue"), side=16):
    """A folder of pictures, each of its class's colour with noise: ROOT/SPLIT/CLASS/NUMBER.png.

    Args:
      root: the folder; made.
      counts: split -> pictures of each class.
      names: of the classes, three at most.
      side: of the pictures, px.

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
    """A folder in VOC's layout: grey pictures with a white 'square' or a black 'bar' on each; returns it as text."""
    for folder in ("JPEGImages", "Annotations"):
        pathlib.Path(root, folder).mkdir(parents=True)
    for number in range(count):
        pixels = np.full([side, side, 3], 128, np.uint8)
        name, height, level = (("square", side // 2, 255), ("bar", side // 4, 0))[number % 2]
        pixels[2 : 2 + height, 4 : 4 + side // 2] = level
        pathlib.Path(root, f"JPEGImages/{number}.png").write_bytes(tf.io.encode_png(pixels).numpy())
        corners = f"<xmin>5</xmin><ymin>3</ymin><xmax>{4 + side // 2}</xmax><ymax>{2 + height}</ymax>"
        box = f"<object><name>{name}</name><difficult>0</difficult><bndbox>{corners}</bndbox></object>"
        text = f"<annotation><size><width>{side}</width><height>{side}</height></size>{box}</annotation>"
        pathlib.Path(root, f"Annotations/{number}.xml").write_text(text)
    return str(root)
