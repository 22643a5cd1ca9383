"""The objects of annotations as boxes in their decoded images; warnings count what is left out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from cpc_tf.data import boxes as box
from cpc_tf.data.decoding.decode import header, orientation, shown_size
from cpc_tf.data.sources.annotation import Annotation, Format
from cpc_tf.data.sources.boxes_layout import warn
from cpc_tf.data.sources.source import NO_LABEL, read_once
from cpc_tf.files import reason
from cpc_tf.settings import ConfigError


def place(
    format: Format, root: str, files: Sequence[str], annotations: Sequence[Annotation], class_names: Sequence[str]
) -> dict[str, tf.RaggedTensor]:
    """Returns the sound boxes of images.

    Args:
      format: of the annotations.
      root: the folder.
      files: the images, relative to it.
      annotations: of each image.
      class_names: of the labels.

    Returns:
      `boxes`, `labels` and `difficult` of each image, ragged in the number of objects; see `DetectionSource`.

    Raises:
      ConfigError: boxes are in parts of the image instead of pixels, or an image has changed meanwhile.
    """
    counts = np.array([len(a.names) for a in annotations], np.int64)
    owner = np.repeat(np.arange(len(files)), counts)  # [objects], the image of each
    raw = np.array([b for a in annotations for b in a.boxes], np.float64).reshape(-1, 4)
    numbers = {name: label for label, name in enumerate(class_names)}
    labels = np.array([numbers.get(name, NO_LABEL) for a in annotations for name in a.names], np.int64)
    difficult = np.array([d for a in annotations for d in a.difficult], bool)

    numbered = np.isfinite(raw).all(1)
    if format.in_pixels and numbered.any() and raw[numbered].max() <= 1:
        problem = f"{format.name}'s boxes are in pixels, not in parts of the image"
        raise ConfigError(f"{root}: no number of a box is above 1; {problem}")
    boxes, sound = _placed(format, root, files, annotations, raw, owner)
    for bad, what in (
        (~numbered, format.incomplete),
        (numbered & ~sound, "no area within the image"),
    ):
        names = [files[index] for index in owner[bad]]
        warn(root, f"%d of %d boxes have {what} and are left out: %s", names, len(raw))
    found = {"boxes": boxes[sound], "labels": labels[sound], "difficult": difficult[sound]}
    counts = np.bincount(owner[sound], minlength=len(files))
    return {name: tf.RaggedTensor.from_row_lengths(values, counts) for name, values in found.items()}


def _placed(format, root, files, annotations, raw, owner):
    """Returns the boxes in the decoded images, and whether each is sound; `owner` is the image of each."""

    def geometry(name):
        encoded = tf.io.read_file(tf.strings.join([root, name], "/"))
        stored, tag = header(encoded).size, orientation(encoded)
        return shown_size(stored, tag), stored, tag

    images = tf.data.Dataset.from_tensor_slices(files)
    images = images.map(geometry, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    try:
        # (height, width) as decoded and as stored, int32 [images, 2], and EXIF's orientation, int32 [images].
        shown, stored, tags = (np.stack(values) for values in zip(*read_once(images).as_numpy_iterator()))
    except tf.errors.OpError as error:
        raise ConfigError(f"{root}: changed while it was read: {reason(error)}") from error
    given = np.array([a.size for a in annotations])
    known, as_shown, as_stored = (given > 0).all(1), (given == shown).all(1), (given == stored).all(1)
    as_stored &= ~as_shown
    for chosen, what in (
        (tags > 1, "are turned as their EXIF orientation says; boxes are places in the turned image"),
        (as_stored, "have annotations of the size they are stored in; their boxes are turned with them"),
        (known & ~as_shown & ~as_stored, "have another size than their annotations say"),
    ):
        warn(root, f"%d of %d images {what}: %s", [files[index] for index in np.flatnonzero(chosen)], len(files))
    boxes, sound = format.place(raw, np.where(as_stored[:, None], stored, shown)[owner])
    boxes = box.turn(boxes, stored[owner], np.where(as_stored, tags, 1)[owner])
    return boxes.numpy(), sound.numpy()
