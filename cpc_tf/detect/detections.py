"""From what the head says about the proposals to the detections of an image."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from cpc_tf.detect.boxes import REGION_WEIGHTS, clip, decode
from cpc_tf.detect.config import InferenceConfig
from cpc_tf.detect.nms import non_max_suppression


class Detections(NamedTuple):
    """N detections of each image, best first; the places beyond `count` hold boxes and scores of 0 and labels of -1."""

    boxes: tf.Tensor  # [B, N, 4], float32, in pixels
    scores: tf.Tensor  # [B, N], float32, probabilities
    labels: tf.Tensor  # [B, N], int32
    count: tf.Tensor  # [B], int32


def detect(
    logits: tf.Tensor,
    deltas: tf.Tensor,
    proposals: tf.Tensor,
    valid: tf.Tensor,
    sizes: tf.Tensor,
    config: InferenceConfig,
    least_score: tf.Tensor | None = None,
) -> Detections:
    """Suppresses within each class, then takes the best of all classes.

    Args:
      logits, deltas: of the head, [B, K, C + 1] and [B, K, C, 4].
      proposals, valid: [B, K, 4] and [B, K], bool.
      sizes: heights and widths of the images, [B, 2].
      config: thresholds and how many.
      least_score: instead of the one of `config`.
    """
    count, classes = proposals.shape[1], deltas.shape[2]
    scores = tf.nn.softmax(logits)[..., :classes]  # [B, K, C]
    least_score = config.detection_score if least_score is None else least_score
    scores = tf.where(valid[..., None] & (scores > least_score), scores, float("-inf"))
    boxes = decode(deltas, proposals[:, :, None], REGION_WEIGHTS)
    boxes = clip(tf.reshape(boxes, [-1, count * classes, 4]), sizes)  # [B, K*C, 4]
    # Each class of each image on its own: [B*C, K, 4] and [B*C, K].
    boxes = tf.reshape(tf.transpose(tf.reshape(boxes, [-1, count, classes, 4]), [0, 2, 1, 3]), [-1, count, 4])
    scores = tf.reshape(tf.transpose(scores, [0, 2, 1]), [-1, count])
    # Of a class no more can come out in the end than of all.
    kept = min(config.detections, count)
    taken, kept_valid = non_max_suppression(boxes, scores, count, kept, config.detection_nms_iou)
    boxes = tf.reshape(tf.gather(boxes, taken, batch_dims=1), [-1, classes * kept, 4])  # [B, C*kept, 4]
    scores = tf.where(kept_valid, tf.gather(scores, taken, batch_dims=1), 0.0)
    return _best(boxes, tf.reshape(scores, [-1, classes * kept]), kept, config.detections)


def _best(boxes: tf.Tensor, scores: tf.Tensor, per_class: int, count: int) -> Detections:
    """The `count` best of boxes [B, C*per_class, 4], of which those with a score of 0 are none."""
    missing = max(0, count - scores.shape[1])
    boxes, scores = tf.pad(boxes, [[0, 0], [0, missing], [0, 0]]), tf.pad(scores, [[0, 0], [0, missing]])
    scores, order = tf.math.top_k(scores, count)
    valid = scores > 0
    return Detections(
        tf.where(valid[..., None], tf.gather(boxes, order, batch_dims=1), 0.0),
        scores,
        tf.where(valid, order // per_class, -1),
        tf.reduce_sum(tf.cast(valid, tf.int32), 1),
    )
