"""Patches and recipes that the tests of this folder share."""

import numpy as np
import tensorflow as tf
from skimage import data

from cpc_tf import augment
from cpc_tf.augment.operations import OPERATIONS


def patches(size: int) -> np.ndarray:
    """Twelve uint8 patches: photographed ones, noise, dark, narrow, and constant ones."""
    rng = np.random.default_rng(size)
    photo = data.astronaut()
    corners = rng.integers(0, 512 - size, (6, 2))
    found = [photo[y : y + size, x : x + size] for y, x in corners]
    noise = rng.integers(0, 256, (3, size, size, 3))
    noise[1] //= 9
    noise[2] = 100 + noise[2] // 64
    flat = np.ones((3, size, size, 3), int) * np.array([0, 255, 128])[:, None, None, None]
    flat[2, 0, 0] = 7, 8, 9
    return np.concatenate([found, noise, flat]).astype(np.uint8)


def recipe_of(name: str, magnitude: np.ndarray, size: int) -> augment.Recipe:
    """A recipe of one AutoAugment primitive and nothing else."""
    count = len(magnitude)
    number = OPERATIONS[name].number
    return augment.idle(count, size)._replace(
        op=tf.fill([count, 1], number), magnitude=magnitude[:, None]
    )
