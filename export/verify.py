"""On every export: the written module, met by a stranger, must do what the checkpoint does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import tensorflow as tf

from cpc_tf.config import GeometryConfig
from cpc_tf.models.resnet import Encoder
from cpc_tf.settings import RunEnded

STRANGER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stranger.py")


class NotVerified(RunEnded):
    """The module is not what it should be; one line."""

    status = 3


def verify(module: str, encoder: Encoder, geometry: GeometryConfig) -> dict[str, float]:
    """Compares the module with the encoder it was made of, in a fresh process without our code.

    Args:
      module: path of the SavedModel.
      encoder: the Keras encoder. Statistics of its batch norm, if any, move.
      geometry: of the run.

    Returns:
      'difference': the largest one of any output, relative to its scale; 'variables': how many can be trained.

    Raises:
      NotVerified.
    """
    with tempfile.TemporaryDirectory(prefix="cpc_tf_export") as scratch:
        path = os.path.join(scratch, "reference.npz")
        np.savez(path, **reference(encoder, geometry))
        # On the CPU, as in this process: a GPU rounds differently, and may be taken.
        environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
        # Not with `python -I`, which would hide a TensorFlow installed with `pip install --user`.
        done = subprocess.run([sys.executable, STRANGER, module, path], env=environment, capture_output=True, text=True)
    if done.returncode < 0:
        raise NotVerified(f"the check was killed by signal {-done.returncode}; is there enough memory?")
    if done.returncode:
        raise NotVerified((done.stderr.strip().splitlines() or ["the check failed without a word"])[-1])
    return json.loads(done.stdout.splitlines()[-1])


def reference(encoder: Encoder, geometry: GeometryConfig) -> dict[str, np.ndarray]:
    """Random images and what the encoder makes of them, as the Keras model computes it.

    Few and small, for the large encoders: several sizes for the whole images, one grid of patches, one gradient.
    """
    draw = np.random.default_rng(0)

    def images(*shape: int) -> np.ndarray:
        return draw.uniform(size=[*shape, 3]).astype(np.float32)

    patch, stride, side = geometry.patch_size, geometry.patch_stride, geometry.image_size
    values = {}
    for i, batch in enumerate([images(2, patch, patch), images(1, patch + 13, 31), images(1, 32, 2 * patch + 1)]):
        values[f"whole{i}/images"] = batch
        values.update({f"whole{i}/{name}": x.numpy() for name, x in encoder.endpoints(tf.constant(batch)).items()})

    values["patched/images"] = images(1, side, side - stride)
    patches = _patches(values["patched/images"][0], patch, stride)  # [R, C, P, P, 3]
    latents = encoder(tf.constant(patches.reshape(-1, patch, patch, 3))).numpy()
    values["patched/latents"] = latents.reshape(1, *patches.shape[:2], encoder.feature_dim)

    # Large enough for the last feature map not to be a point, where batch norm has nothing to normalize.
    values["gradient/images"] = images(2, max(patch, 64), max(patch, 64))
    values["gradient/projection"] = draw.normal(size=[2, encoder.feature_dim]).astype(np.float32)
    values["gradient/norms"] = _gradient_norms(encoder, values["gradient/images"], values["gradient/projection"])
    return values


def _patches(image: np.ndarray, patch: int, stride: int) -> np.ndarray:
    """The grid of patches, by a road of its own: [H, W, 3] -> [R, C, P, P, 3]."""
    windows = np.lib.stride_tricks.sliding_window_view(image, (patch, patch), axis=(0, 1))  # [H', W', 3, P, P]
    return np.ascontiguousarray(windows[::stride, ::stride].transpose(0, 1, 3, 4, 2))


def _gradient_norms(encoder: Encoder, images: np.ndarray, projection: np.ndarray) -> np.ndarray:
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(encoder(tf.constant(images), training=True) * projection)
    return np.array([float(tf.norm(g)) for g in tape.gradient(loss, encoder.trainable_variables)])
