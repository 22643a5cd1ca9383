"""Boxes, float32 [n, 4]: (ymin, xmin, ymax, xmax) in pixels from 0, half-open: sides are differences."""

from __future__ import annotations

import tensorflow as tf


def clipped(boxes: tf.Tensor, size: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Boxes cut off at the image's border.

    Args:
      boxes: float32 [n, 4].
      size: int32 [2] or [n, 2], (height, width) of the image or of each box's.

    Returns:
      The boxes, and whether each is sound, bool [n]: not NaN or infinite, with an area, and part of it within the
      image.
    """
    size = tf.cast(size, tf.float32)
    low, high = (tf.clip_by_value(corner, 0.0, size) for corner in (boxes[:, :2], boxes[:, 2:]))
    finite = tf.reduce_all(tf.math.is_finite(boxes), axis=1)
    return tf.concat([low, high], axis=1), finite & tf.reduce_all(high > low, axis=1)


def from_voc(boxes: tf.Tensor, size: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """VOC's boxes as ours, cut off at the image's border; as `clipped`.

    VOC counts pixels from 1 and the last one belongs to the box: its (1, 1, 2, 2) is our (0, 0, 2, 2). A box that has
    no area in the file, ymin = ymax, is not sound.
    """
    found, sound = clipped(tf.concat([boxes[:, :2] - 1, boxes[:, 2:]], axis=1), size)
    return found, sound & tf.reduce_all(boxes[:, 2:] > boxes[:, :2], axis=1)


def turn(boxes: tf.Tensor, size: tf.Tensor, orientation: tf.Tensor) -> tf.Tensor:
    """The boxes of stored images, in the images as they are shown.

    Args:
      boxes: float32 [n, 4].
      size: int32 [n, 2], (height, width) of the stored image of each.
      orientation: int32 [n], 1 to 8: EXIF's tag of each. 1: shown as stored.
    """

    orientation = tf.convert_to_tensor(orientation)

    def among(*tags):
        return tf.reduce_any(orientation[:, None] == tf.constant(tags, orientation.dtype), axis=1)

    flipped = tf.stack([among(3, 4, 6, 7), among(2, 3, 7, 8)], axis=1)  # up and down, left and right
    swapped = among(5, 6, 7, 8)[:, None]  # of what is flipped, rows become columns
    size, low, high = tf.cast(size, tf.float32), boxes[:, :2], boxes[:, 2:]
    low, high = tf.where(flipped, size - high, low), tf.where(flipped, size - low, high)
    low, high = (tf.where(swapped, corner[:, ::-1], corner) for corner in (low, high))
    return tf.concat([low, high], axis=1)


def mirror(boxes: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
    """The boxes of an image of this width after left and right are exchanged."""
    ymin, xmin, ymax, xmax = tf.unstack(boxes, axis=1)
    return tf.stack([ymin, width - xmax, ymax, width - xmin], axis=1)


def choose(boxes: tf.Tensor, least_side: float, most: int) -> tf.Tensor:
    """Places of the boxes with no side below `least_side`; of more than `most` the largest. int64 [k], ascending."""
    sides = boxes[:, 2:] - boxes[:, :2]
    places = tf.where(tf.reduce_all(sides >= least_side, axis=1))[:, 0]
    areas = tf.gather(tf.reduce_prod(sides, axis=1), places)
    largest = tf.argsort(areas, direction="DESCENDING", stable=True)[:most]
    return tf.gather(places, tf.sort(largest))
