"""Greedy non-maximum suppression with static shapes, for a batch, on what XLA and TPUs can run."""

from __future__ import annotations

import tensorflow as tf

from cpc_tf.detect.boxes import area

TILE = 512


def non_max_suppression(
    boxes: tf.Tensor, scores: tf.Tensor, candidates: int, count: int, iou_threshold: float
) -> tuple[tf.Tensor, tf.Tensor]:
    """Takes boxes by score, best first, unless they overlap one taken before by `iou_threshold` or more.

    Args:
      boxes: [B, N, 4], cut at the borders of the image: nothing is below 0.
      scores: [B, N], float32; -inf for boxes not to be taken. Those without area are not, either.
      candidates: only the best so many are looked at.
      count: of boxes to take at most.

    Returns:
      Indices [B, count], int32, and which of them are valid [B, count], bool: these come first. No gradient.
    """
    candidates = min(candidates, scores.shape[1])
    scores, order = tf.math.top_k(tf.stop_gradient(scores), candidates)
    boxes = tf.gather(tf.stop_gradient(boxes), order, batch_dims=1)  # [B, candidates, 4]
    proper = (scores > float("-inf")) & (area(boxes) > 0)
    boxes = tf.where(proper[..., None], boxes, 0.0)  # zeros are padding to the op
    taken, valid_count = tf.image.non_max_suppression_padded(
        boxes,
        scores,
        min(count, candidates),
        iou_threshold,
        pad_to_max_output_size=True,
        sorted_input=True,
        canonicalized_coordinates=True,
        tile_size=min(TILE, candidates),
    )
    taken = tf.pad(taken, [[0, 0], [0, count - min(count, candidates)]])  # [B, count]
    valid = tf.range(count)[None] < valid_count[:, None]
    return tf.gather(order, tf.where(valid, taken, 0), batch_dims=1), valid
