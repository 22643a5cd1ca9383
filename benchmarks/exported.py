"""Measures the features of an exported module beside those of the network in process: python -m benchmarks.exported"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Sequence

import tensorflow as tf
import tensorflow_hub as hub
from absl import app

from cpc_tf.data.config import GeometryConfig
from cpc_tf.encoders.config import EncoderConfig, make_encoder
from cpc_tf.export.module import HubEncoder, save

BATCH, SIDE = 64, 64


def compare(encoders: Sequence[str], rounds: int) -> None:
    """Prints images/s of both and their ratio; they are called in turns."""
    print("| encoder | in process, images/s | exported, images/s | exported / in process |\n|---|---|---|---|")
    images = tf.random.stateless_uniform([BATCH, SIDE, SIDE, 3], [0, 1])
    for name in encoders:
        encoder = make_encoder(EncoderConfig(encoder=name))
        encoder(images)  # makes its variables
        with tempfile.TemporaryDirectory() as folder:
            geometry = GeometryConfig(resize=SIDE, image_size=SIDE, patch_size=16, patch_stride=12)
            save(HubEncoder(encoder, geometry), folder)
            layer = hub.KerasLayer(folder)
        inside, outside = (tf.function(call, autograph=False) for call in (encoder, layer))
        tf.debugging.assert_near(inside(images), outside(images), 1e-4, 1e-4)
        seconds = [(_seconds(inside, images), _seconds(outside, images)) for _ in range(rounds)]
        rates = [BATCH / statistics.median(each) for each in zip(*seconds)]
        ratio = statistics.median(one / other for one, other in seconds)
        print(f"| {name} | {rates[0]:.0f} | {rates[1]:.0f} | {ratio:.2f} |", flush=True)


def _seconds(function, images: tf.Tensor) -> float:
    start = time.perf_counter()
    function(images)
    return time.perf_counter() - start


if __name__ == "__main__":
    app.run(lambda argv: compare(["small", "medium"], rounds=30))
