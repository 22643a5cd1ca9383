"""Boxes, float32 [n, 4]: (ymin, xmin, ymax, xmax) in pixels from 0, half-open: sides are
differences.

The objects of annotations as boxes in their decoded images; warnings count what is left out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from cpc_tf.boxes.layout import Annotation, Format, warn
from cpc_tf.core.settings import ConfigError
from cpc_tf.data import check
from cpc_tf.data.source import NO_LABEL


def clipped(boxes: tf.Tensor, size: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Boxes cut off at the image's border.

    Args:
      boxes: float32 [n, 4].
      size: int32 [2] or [n, 2], (height, width) of the image or of each box's.

    Returns:
      The boxes, and whether each is sound, bool [n]: not NaN or infinite, with an area, and part of
      it within the image.
    """
    size = tf.cast(size, tf.float32)
    low, high = (tf.clip_by_value(corner, 0.0, size) for corner in (boxes[:, :2], boxes[:, 2:]))
    finite = tf.reduce_all(tf.math.is_finite(boxes), axis=1)
    return tf.concat([low, high], axis=1), finite & tf.reduce_all(high > low, axis=1)


def from_voc(boxes: tf.Tensor, size: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """VOC's boxes as ours, cut off at the image's border; as `clipped`.

    VOC counts pixels from 1 and the last one belongs to the box: its (1, 1, 2, 2) is our (0, 0, 2,
    2). A box that has no area in the file, ymin = ymax, is not sound.
    """
    ours, sound = clipped(tf.concat([boxes[:, :2] - 1, boxes[:, 2:]], axis=1), size)
    return ours, sound & tf.reduce_all(boxes[:, 2:] > boxes[:, :2], axis=1)


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

    # Up and down, left and right.
    flipped = tf.stack([among(3, 4, 6, 7), among(2, 3, 7, 8)], axis=1)
    swapped = among(5, 6, 7, 8)[:, None]  # of what is flipped, rows become columns
    size = tf.cast(size, tf.float32)
    low = boxes[:, :2]
    high = boxes[:, 2:]
    low, high = tf.where(flipped, size - high, low), tf.where(flipped, size - low, high)
    low, high = (tf.where(swapped, corner[:, ::-1], corner) for corner in (low, high))
    return tf.concat([low, high], axis=1)


def mirror(boxes: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
    """The boxes of an image of this width after left and right are exchanged."""
    ymin, xmin, ymax, xmax = tf.unstack(boxes, axis=1)
    return tf.stack([ymin, width - xmax, ymax, width - xmin], axis=1)


def choose(boxes: tf.Tensor, least_side: float, most: int) -> tf.Tensor:
    """Places of the boxes with no side below `least_side`; of more than `most` the largest. int64
    [k], ascending.
    """
    sides = boxes[:, 2:] - boxes[:, :2]
    places = tf.where(tf.reduce_all(sides >= least_side, axis=1))[:, 0]
    areas = tf.gather(tf.reduce_prod(sides, axis=1), places)
    largest = tf.argsort(areas, direction="DESCENDING", stable=True)[:most]
    return tf.gather(places, tf.sort(largest))


# What numbers may be wrong by since they were rounded: px, and part of a side.
_ROUNDING = 2
_ROUNDED_PART = 0.01
# part of a side that a box may reach beyond its image and still be meant for it, as if drawn
# loosely
OVERSHOOT = 0.05


def place(
    format: Format,
    flag: str,
    root: str,
    files: Sequence[str],
    annotations: Sequence[Annotation],
    class_names: Sequence[str],
    sizes: np.ndarray,
) -> tuple[dict[str, tf.RaggedTensor], np.ndarray]:
    """Returns the sound boxes of images, and the sizes of the images.

    Args:
      format: of the annotations.
      flag: the flag that names the folder, with its value, for messages.
      root: the folder.
      files: the images, relative to it.
      annotations: of each image.
      class_names: of the labels.
      sizes: of the images, see `check.usable`.

    Returns:
      `boxes`, `labels` and `difficult` of each image, ragged in the number of objects, see
      `DetectionSource`; and the height and width of each image, int32 [images, 2].

    Raises:
      ConfigError: boxes are in parts of the image instead of pixels, more than 1 % are left out or
        reach beyond their images, or more than 1 % of the images have another size than their
        annotations say.
    """
    owner, raw, labels, difficult = _objects(annotations, class_names)

    # Their places in the decoded images.
    numbered = np.isfinite(raw).all(1)
    if format.in_pixels and numbered.any() and raw[numbered].max() <= 1:
        problem = f"{format.name}'s boxes are in pixels, not fractions of the width and height"
        raise ConfigError(f"{root}: no number of a box is above 1; {problem}")
    boxes, sound, over, shown = _placed(format, flag, root, files, annotations, raw, owner, sizes)

    # What is wrong with some.
    sides = np.tile(shown, 2)[owner]
    beyond = (over > np.maximum(_ROUNDING, OVERSHOOT * sides)).any(1)
    slightly = (over > np.maximum(_ROUNDING, _ROUNDED_PART * sides)).any(1) & ~beyond
    message = (
        f"%d of %d boxes reach beyond their images by up to {100 * OVERSHOOT:g} %% and are cut off"
        " at the border: %s"
    )
    warn(root, message, [files[index] for index in owner[numbered & slightly]], len(raw))
    repair = f"repair or remove them; in {format.name}'s format {format.mistaken}"
    for bad, problem, remedy, done in (
        (~numbered, f"have {format.incomplete}", "repair or remove them", "are left out"),
        (
            numbered & beyond,
            f"reach beyond their images by more than {100 * OVERSHOOT:g} %",
            f"{repair}; or they were drawn on images of another size",
            "are cut off at the border",
        ),
        (numbered & ~sound, "have no area within the image", repair, "are left out"),
    ):
        names = list(dict.fromkeys(files[index] for index in owner[bad]))
        check.leave_out(
            flag, names, f"{len(raw)} boxes", problem, remedy, done, count=int(bad.sum())
        )

    # The sound ones.
    objects = {"boxes": boxes[sound], "labels": labels[sound], "difficult": difficult[sound]}
    counts = np.bincount(owner[sound], minlength=len(files))
    ragged = {}
    for name, values in objects.items():
        ragged[name] = tf.RaggedTensor.from_row_lengths(values, counts)
    return ragged, shown


def _objects(annotations, class_names):
    """Returns the objects of all images, [objects] each: their images, boxes [objects, 4], labels
    and marks.
    """
    counts = []
    names_of_objects = []
    boxes = []
    marks = []
    for annotation in annotations:
        counts.append(len(annotation.names))
        names_of_objects += annotation.names
        boxes += annotation.boxes
        marks += annotation.difficult
    label_of = {name: label for label, name in enumerate(class_names)}
    labels = [label_of.get(name, NO_LABEL) for name in names_of_objects]
    return (
        np.repeat(np.arange(len(annotations)), np.array(counts, np.int64)),
        np.array(boxes, np.float64).reshape(-1, 4),
        np.array(labels, np.int64),
        np.array(marks, bool),
    )


def _placed(format, flag, root, files, annotations, raw, owner, sizes):
    """Returns the boxes in the decoded images, whether each is sound, and by how many px its edges
    reach beyond.

    And the sizes of the images. `owner` is the image of each box.
    """

    stored = sizes[:, :2]
    tags = sizes[:, 2]
    shown = np.where(tags[:, None] >= 5, stored[:, ::-1], stored)
    annotated = np.array([annotation.size for annotation in annotations])
    has_size = (annotated > 0).all(1)
    as_shown = (annotated == shown).all(1)
    as_stored = (annotated == stored).all(1) & ~as_shown
    for chosen, message in (
        (
            tags > 1,
            "are rotated by their EXIF orientation; boxes are read as coordinates in"
            " the rotated image",
        ),
        (
            as_stored,
            "have annotations of the size in which they are stored; their boxes are"
            " rotated with them",
        ),
    ):
        warn(
            root,
            f"%d of %d images {message}: %s",
            [files[index] for index in np.flatnonzero(chosen)],
            len(files),
        )
    _check_sizes(flag, files, annotated, shown, np.flatnonzero(has_size & ~as_shown & ~as_stored))
    size = np.where(as_stored[:, None], stored, shown)[owner]
    boxes, sound = format.place(raw, size)
    boxes = turn(boxes, stored[owner], np.where(as_stored, tags, 1)[owner])
    sides = np.tile(size, 2)
    pixels = raw if format.in_pixels else raw * sides
    return boxes.numpy(), sound.numpy(), np.maximum(-pixels, pixels - sides), shown


def _check_sizes(flag, files, annotated, shown, differ):
    """Raises ConfigError if more than 1 % of the images differ from the sizes in their annotations,
    else warns of them.

    `annotated` and `shown` are heights and widths of all images, `differ` the indices of those that
    differ.
    """
    if not len(differ):
        return
    ratios = shown[differ] / annotated[differ]
    factor = float(np.median(ratios))
    remedy = (
        "take the images that the boxes were drawn on, or remove sizes that are wrong from the"
        " annotations"
    )
    if (np.abs(shown[differ] - factor * annotated[differ]) <= _ROUNDING).all():
        remedy = (
            f"all of these are {factor:.4g} times as large as in their annotations: they were"
            f" resized after their boxes were drawn; {remedy}, or multiply boxes and sizes by"
            f" {factor:.4g}"
        )
    pairs = zip(differ.tolist(), shown[differ].tolist(), annotated[differ].tolist())
    named = [
        f"{files[i]} ({h} x {w} px, annotated as {y:g} x {x:g})" for i, (h, w), (y, x) in pairs
    ]
    problem = "have another size than their annotations say"
    done = "keep their boxes as they are"
    check.leave_out(flag, named, f"{len(files)} images", problem, remedy, done)
