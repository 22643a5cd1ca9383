"""On every export: checks that the written module, loaded without our code, does what the checkpoint does."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import tensorflow as tf
from PIL import ExifTags, Image

from cpc_tf.data.config import CanvasConfig, GeometryConfig
from cpc_tf.data.decoding.decode import decode
from cpc_tf.data.views import canvas
from cpc_tf.detect.faster_rcnn import FasterRCNN
from cpc_tf.encoders.network import Network
from cpc_tf.export.classifier_module import Classifying
from cpc_tf.settings import RunEnded

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "check_module.py")


class NotVerified(RunEnded):
    """The module is not what it should be; one line."""

    status = 3


def verify(kind: str, module: str, values: dict[str, np.ndarray]) -> dict[str, float]:
    """Compares a module with what it was made of, in a fresh process without our code.

    Args:
      kind: 'encoder', 'classifier' or 'detector'.
      module: path of the SavedModel.
      values: what it should compute: `encoder_reference`, `classifier_reference` or `detector_reference`.

    Returns:
      Encoder: 'difference', the largest of any output relative to its scale, and 'variables', how many can be trained.
      Classifier: 'difference', likewise.
      Detector: 'detections', how many were compared, and 'same', the part that is the same (rounding may change some).

    Raises:
      NotVerified: the module does something else, or cannot be used.
    """
    with tempfile.TemporaryDirectory(prefix="cpc_tf_export") as scratch:
        path = os.path.join(scratch, "reference.npz")
        np.savez(path, **values)
        return json.loads(run_script(SCRIPT, kind, module, path).splitlines()[-1])


def run_script(script: str, *arguments: str) -> str:
    """Runs a script that checks something, in a fresh process; returns what it prints. Raises NotVerified if it fails.

    On the CPU, as in this process: a GPU rounds differently, and may be taken.
    """
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    # Not with `python -I`, which would hide a TensorFlow installed with `pip install --user`.
    done = subprocess.run([sys.executable, script, *arguments], env=environment, capture_output=True, text=True)
    if done.returncode < 0:
        raise NotVerified(f"the check was killed by signal {-done.returncode}; is there enough memory?")
    if done.returncode:
        raise NotVerified((done.stderr.strip().splitlines() or ["the check failed without a message"])[-1])
    return done.stdout


def encoder_reference(encoder: Network, geometry: GeometryConfig) -> dict[str, np.ndarray]:
    """Random images and what the encoder, as a Keras model, computes from them.

    Few and small, because of the large encoders: several sizes of whole images, one grid of patches, one gradient. The
    gradient is that of training, which moves the statistics of batch norm.
    """
    draw = np.random.default_rng(0)

    def images(*shape: int) -> np.ndarray:
        return draw.uniform(size=[*shape, 3]).astype(np.float32)

    patch, stride, side = geometry.patch_size, geometry.patch_stride, geometry.image_size
    values = {}
    for i, batch in enumerate([images(2, patch, patch), images(1, patch + 13, 31), images(1, 32, 2 * patch + 1)]):
        values[f"whole{i}/images"] = batch
        values.update({f"whole{i}/{name}": x.numpy() for name, x in encoder.endpoints(tf.constant(batch)).items()})

    # A column less than the geometry's grid has, unless that is the only one.
    values["patched/images"] = images(1, side, max(side - stride, patch))
    # Computed in another way than by the module: [H, W, 3] -> [H', W', 3, P, P] -> [R, C, P, P, 3].
    windows = np.lib.stride_tricks.sliding_window_view(values["patched/images"][0], (patch, patch), axis=(0, 1))
    patches = np.ascontiguousarray(windows[::stride, ::stride].transpose(0, 1, 3, 4, 2))
    latents = encoder(tf.constant(patches.reshape(-1, patch, patch, 3))).numpy()
    values["patched/latents"] = latents.reshape(1, *patches.shape[:2], encoder.feature_dim)

    # Large enough for the last feature map not to be a point, where batch norm has nothing to normalize.
    values["gradient/images"] = images(2, max(patch, 64), max(patch, 64))
    values["gradient/projection"] = draw.normal(size=[2, encoder.feature_dim]).astype(np.float32)
    with tf.GradientTape() as tape:
        features = encoder(tf.constant(values["gradient/images"]), training=True)
        loss = tf.reduce_sum(features * values["gradient/projection"])
    values["gradient/norms"] = np.array([float(tf.norm(g)) for g in tape.gradient(loss, encoder.trainable_variables)])
    return values


def classifier_reference(model: Classifying) -> dict[str, np.ndarray]:
    """Random images, and files of them, and what the run's own network makes of them."""
    draw, side = np.random.default_rng(0), model.geometry.resize
    squares = [draw.integers(0, 256, [count, 8, 6, 3], np.uint8) for count in (2, 1, 1)]  # noise would become grey
    shapes = [(side + 27, side), (side // 2 + 1, 2 * side + 3), (side, side)]
    images = [np.stack([_enlarged(x, shape) for x in batch]) for batch, shape in zip(squares, shapes)]
    values = {"class_names": np.array(model.class_names), "temperature": np.float32(model.temperature)}
    values["several_labels"] = np.array(model.several_labels)
    for i, batch in enumerate(images):
        prepared = tf.stack([model.prepared(tf.constant(image)) for image in batch])
        values.update({f"case{i}/images": batch, f"case{i}/logits": model.logits(prepared).numpy()})
    for i, (kind, orientation) in enumerate([("JPEG", 6), ("PNG", 3), ("BMP", 1), ("GIF", 1)]):
        stream, exif = io.BytesIO(), Image.Exif()
        exif[ExifTags.Base.Orientation] = orientation
        Image.fromarray(images[0][0]).save(stream, kind, **({} if orientation == 1 else {"exif": exif}))
        image = decode(tf.constant(stream.getvalue()), model.geometry.resize, model.levels)
        values[f"file{i}/bytes"] = np.frombuffer(stream.getvalue(), np.uint8)
        values[f"file{i}/logits"] = model.logits(model.prepared(image)[None]).numpy()
    return values


def _enlarged(image: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Returns an image [h, w, 3] at another size: of squares, so that no detail is lost."""
    rows, columns = (np.arange(after) * before // after for before, after in zip(image.shape, shape))
    return image[rows][:, columns]


def detector_reference(model: FasterRCNN, config: CanvasConfig, class_names: list[str]) -> dict[str, np.ndarray]:
    """Random images and what the detector, as a Keras model, finds on them at any score."""
    draw = np.random.default_rng(0)
    values = {"class_names": np.array(class_names), "least_score": np.float32(model.config.inference.detection_score)}
    view = canvas.plain(config)
    for i, (count, *shape) in enumerate([(2, 90, 120), (1, 113, 57)]):
        # Squares of 10 px: noise would be grey on the canvas.
        images = draw.integers(0, 256, [count, *(-(-side // 10) for side in shape), 3], np.uint8)
        images = images.repeat(10, 1).repeat(10, 2)[:, : shape[0], : shape[1]]
        size = canvas.fitted(tf.constant(shape), view.area, config)
        shown = tf.stack([canvas.show(tf.constant(image), size, view, config) for image in images])
        found = model(tf.cast(shown, tf.float32) / 255.0, tf.stack([size] * count), least_score=tf.constant(0.0))
        values[f"case{i}/images"] = images
        values[f"case{i}/boxes"] = found.boxes.numpy() * np.tile(shape / size.numpy(), 2)
        values.update({f"case{i}/{name}": getattr(found, name).numpy() for name in ("scores", "labels", "count")})
    return values
