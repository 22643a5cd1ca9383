"""Which anchor or region stands for which object, and which of them the loss sees."""

from __future__ import annotations

import tensorflow as tf

POSITIVE, NEGATIVE, IGNORED = 1, 0, -1


def match(
    iou: tf.Tensor,
    learned: tf.Tensor,
    ignored: tf.Tensor,
    positive: float,
    negative: float,
    keep_best: bool = False,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Gives each candidate the object it overlaps most, and a label.

    Args:
      iou: [B, M, N] of M objects with N candidates.
      learned: [B, M], bool; false for padding and for objects not to be learned.
      ignored: [B, M], bool; candidates on these are no background either.
      positive: from this overlap on a candidate is positive.
      negative: below this one it is negative; between the two it is ignored.
      keep_best: the candidates that overlap an object most are positive, however little it is (Ren et al. 2015,
        Sec. 3.1.2). They keep the object that they themselves overlap most. An object that none overlaps has none.

    Returns:
      Indices of objects [B, N], int32 (0 if there is none), and labels [B, N], int32: POSITIVE, NEGATIVE or IGNORED.
    """
    quality = tf.where(learned[..., None], iou, -1.0)  # [B, M, N]
    matches = tf.argmax(quality, 1, tf.int32)  # [B, N]
    best = tf.reduce_max(quality, 1)
    labels = tf.where(best >= positive, POSITIVE, tf.where(best < negative, NEGATIVE, IGNORED))
    on_ignored = tf.reduce_max(tf.where(ignored[..., None], iou, -1.0), 1) >= negative
    labels = tf.where((labels == NEGATIVE) & on_ignored, IGNORED, labels)
    if keep_best:
        best_of_object = tf.reduce_max(quality, 2, keepdims=True)  # [B, M, 1]
        # A compiler may compute the overlaps twice, and round them differently: no test for equality.
        is_best = (best_of_object > 0) & (quality >= best_of_object * (1 - 1e-6))
        labels = tf.where(tf.reduce_any(is_best, 1), POSITIVE, labels)
    return matches, labels


def sample(labels: tf.Tensor, count: int, most_positive: int, seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Draws `count` candidates of each image at random, without replacement.

    Args:
      labels: [B, N]: POSITIVE, NEGATIVE or IGNORED.
      count: how many; N if that is less.
      most_positive: how many positive ones at most; negative ones fill up.
      seed: int32 [2].

    Returns:
      Indices [B, count], int32, and their labels [B, count]: the positive ones, the negative ones, and IGNORED where an
      image has too few of both.
    """
    count = min(count, labels.shape[1])
    most_positive = min(most_positive, count)
    # The same are drawn whether this is compiled or not, though XLA makes other fractions of the same random bits than
    # TensorFlow's kernel, and reads negative seeds differently.
    seed = tf.bitwise.bitwise_and(seed, tf.int32.max)
    noise = tf.random.stateless_uniform(tf.shape(labels), seed, None, None, tf.int32)
    noise = tf.bitwise.bitwise_and(noise, tf.int32.max)  # 0 or more
    positive = tf.math.top_k(tf.where(labels == POSITIVE, noise, -1), most_positive)
    negative = tf.math.top_k(tf.where(labels == NEGATIVE, noise, -1), count)
    drawn = tf.reduce_sum(tf.cast(positive.values >= 0, tf.int32), 1, keepdims=True)  # [B, 1]
    slots = tf.range(count)[None]  # [1, count]
    # Place i holds the i-th positive one while there are any, then the negative ones from the first on.
    source = tf.where(slots < drawn, slots, most_positive + slots - drawn)  # [B, count]
    indices = tf.gather(tf.concat([positive.indices, negative.indices], 1), source, batch_dims=1)
    scores = tf.gather(tf.concat([positive.values, negative.values], 1), source, batch_dims=1)
    return indices, tf.where(scores < 0, IGNORED, tf.where(slots < drawn, POSITIVE, NEGATIVE))
