"""The region proposal network (Ren et al. 2015): which anchors hold an object, and where exactly."""

from __future__ import annotations

import tensorflow as tf

from cpc_tf.detect.boxes import ANCHOR_WEIGHTS, centres, clip, decode
from cpc_tf.detect.nms import non_max_suppression
from cpc_tf.keras import keras


class RegionProposalNetwork(keras.layers.Layer):
    """A 3x3 convolution, and from it a logit and four differences for each anchor.

    Args:
      width: channels of the convolution.
      anchors: per cell.
      dtype: of the convolution; the outputs are float32.
    """

    def __init__(self, width: int, anchors: int, dtype: str = "float32", name: str = "rpn"):
        super().__init__(dtype=dtype, name=name)

        def conv(channels: int, kernel: int, **kwargs) -> keras.layers.Layer:
            initializer = keras.initializers.RandomNormal(stddev=0.01)  # Girshick 2015
            return keras.layers.Conv2D(channels, kernel, padding="same", kernel_initializer=initializer, **kwargs)

        self.conv = conv(width, 3, activation="relu", dtype=dtype, name="conv")
        self.objectness = conv(anchors, 1, dtype="float32", name="objectness")
        self.deltas = conv(4 * anchors, 1, dtype="float32", name="deltas")

    def call(self, features: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Features [B, H, W, C] -> logits [B, N] and differences [B, N, 4], float32, in the order of `anchor_grid`."""
        x = tf.cast(self.conv(features), tf.float32)
        count = x.shape[1] * x.shape[2] * self.objectness.filters  # N = H*W*A
        objectness = tf.reshape(self.objectness(x), [-1, count])
        return objectness, tf.reshape(self.deltas(x), [-1, count, 4])


def inside(anchors: tf.Tensor, sizes: tf.Tensor) -> tf.Tensor:
    """[B, N], bool: whether the centres of anchors [N, 4] lie in the images, `sizes` [B, 2], and not in the padding."""
    return tf.reduce_all(centres(anchors)[None] < tf.cast(sizes, tf.float32)[:, None], -1)


def propose(
    objectness: tf.Tensor,
    deltas: tf.Tensor,
    anchors: tf.Tensor,
    sizes: tf.Tensor,
    candidates: int,
    count: int,
    iou_threshold: float,
) -> tuple[tf.Tensor, tf.Tensor]:
    """The boxes that may hold an object.

    Args:
      objectness, deltas: of the network, [B, N] and [B, N, 4].
      anchors: [N, 4].
      sizes: heights and widths of the images, [B, 2].
      candidates, count, iou_threshold: of `non_max_suppression`.

    Returns:
      Boxes [B, count, 4], within their images, best first, 0 beyond the last; which are valid [B, count], bool. No
      gradient.
    """
    boxes = clip(decode(tf.stop_gradient(deltas), anchors, ANCHOR_WEIGHTS), sizes)
    scores = tf.where(inside(anchors, sizes), objectness, float("-inf"))
    taken, valid = non_max_suppression(boxes, scores, candidates, count, iou_threshold)
    return tf.where(valid[..., None], tf.gather(boxes, taken, batch_dims=1), 0.0), valid
