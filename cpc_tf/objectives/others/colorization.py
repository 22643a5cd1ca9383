"""Colorization: which colour has each place of a grey image? Zhang et al. 2016
(arXiv:1603.08511).
"""

from __future__ import annotations

import functools
from typing import ClassVar

import numpy as np
import tensorflow as tf

from cpc_tf.core.keras import keras
from cpc_tf.data.views import WholeImage
from cpc_tf.encoders.network import Network
from cpc_tf.encoders.networks.lab import to_lab
from cpc_tf.objectives.base import SPREAD, Figure, Objective, Output, area_means
from cpc_tf.objectives.others import memory
from cpc_tf.objectives.others.colorization_config import ColorizationConfig

# of a bin; bins that share a colour, by a Gaussian of this deviation
WIDTH = 10
NEAREST = 5
DEVIATION = 5.0


@functools.cache
def colour_bins() -> np.ndarray:
    """Returns the centres (a, b) of the bins, float32 [313, 2], in order.

    As many as Zhang et al. have, who do not say how they counted: the corners of the squares of
    width 10 that overlap the convex hull of (a, b) of all colours of sRGB.
    """
    from scipy.spatial import ConvexHull

    rgb = np.stack(np.meshgrid(*[np.linspace(0, 1, 33)] * 3), -1)
    # normal and offset, below 0 inside
    sides = ConvexHull(to_lab(rgb).numpy().reshape(-1, 3)[:, 1:]).equations
    places = np.arange(-120, 120, 0.5) + 0.25
    points = np.stack(np.meshgrid(places, places), -1).reshape(-1, 2)
    inside = points[(points @ sides[:, :2].T + sides[:, 2] <= 0).all(1)]
    squares = np.unique(np.floor(inside / WIDTH), axis=0)
    corners = [squares + corner for corner in ((0, 0), (0, 1), (1, 0), (1, 1))]
    return (WIDTH * np.unique(np.concatenate(corners), axis=0)).astype(np.float32)


def soft_bins(colours: tf.Tensor) -> tf.Tensor:
    """Colours (a, b) [..., 2] -> weights of the bins, [..., 313], of sum 1: of the 5 nearest, by a
    Gaussian.
    """
    bins = colour_bins()
    distance = tf.reduce_sum(tf.square(colours[..., None, :] - bins), -1)  # [..., 313], squared
    near, which = tf.math.top_k(-distance, NEAREST)
    weights = tf.nn.softmax(near / (2.0 * DEVIATION**2))  # [..., 5]
    return tf.reduce_sum(tf.one_hot(which, len(bins)) * weights[..., None], -2)


class Colorization(Objective):
    """A 1x1 convolution on the feature map, which predicts for each place the colours of its cell
    of the image.

    The encoder is given RGB and sees grey, here and wherever it is used after
    (`encoders.networks.lab`). Rare colours count more, by frequencies in the images of all steps so
    far; Zhang et al. take those of ImageNet.
    """

    NAME = "colorization"
    SUMMARY = "colorization of grey images (Zhang et al., ECCV 2016)"
    VIEW = WholeImage()
    FIGURES: ClassVar = {
        "loss": Figure("cross-entropy of the colours, rare ones weighted (nats)", "{:.3f}"),
        "accuracy": Figure("accuracy among the colours", "{:.3f}"),
        **SPREAD,
    }
    metric_names = ("accuracy",)
    OF_WHOLE_BATCH = ""

    def __init__(self, encoder: Network, settings: ColorizationConfig, precision: str = "float32"):
        super().__init__(encoder, settings, precision)
        count = len(colour_bins())
        self.head = keras.layers.Dense(count, dtype="float32", name="head")  # a 1x1 convolution
        self.frequency = memory.variable(tf.fill([count], 1.0 / count), "frequency")

    def call(self, view: tf.Tensor, training: bool = False, first: tf.Tensor | int = 0) -> Output:
        """Computes the mean loss of the places of B images, [B, S, S, 3] in RGB."""
        maps = self.endpoints(view, training)["feature_map"]  # [B, h, w, D]
        colours = to_lab(tf.image.convert_image_dtype(view, tf.float32))[..., 1:]  # [B, S, S, 2]
        wanted = soft_bins(area_means(colours, *maps.shape[1:3]))  # [B, h, w, Q]
        logits = self.head(maps)
        nearest = tf.argmax(wanted, -1, output_type=tf.int32)  # [B, h, w]
        uniform = self.settings.colorization_uniform
        rarity = 1.0 / ((1.0 - uniform) * self.frequency + uniform / logits.shape[-1])  # [Q]
        rarity /= tf.reduce_sum(self.frequency * rarity)  # of mean 1 (their eq. 4)
        loss = tf.reduce_mean(
            tf.gather(rarity, nearest) * tf.nn.softmax_cross_entropy_with_logits(wanted, logits)
        )
        is_right = tf.equal(tf.argmax(logits, -1, output_type=tf.int32), nearest)
        accuracy = tf.reduce_mean(tf.cast(is_right, tf.float32))
        kept = {"colours": tf.reduce_mean(wanted, [1, 2])}
        return Output(loss, {"accuracy": accuracy}, tf.reduce_mean(maps, [1, 2]), kept)

    def after_step(self, kept: dict[str, tf.Tensor], step: tf.Tensor) -> None:
        seen = tf.reduce_mean(kept["colours"], 0)
        self.frequency.assign_add((seen - self.frequency) / tf.cast(step + 1, tf.float32))
