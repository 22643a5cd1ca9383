"""A classifier and a detector that know what is right, as `cpc-tf export` writes them."""

import json
import pathlib

import tensorflow as tf

from cpc_tf.data.config import ImageConfig
from cpc_tf.export.classifier import Classifying, HubClassifier, save

NAMES = ["red", "green", "blue"]
_IMAGES = tf.TensorSpec([None, None, None, 3], tf.uint8)


class Extremes(tf.Module):
    """A detector of what is white (a 'square', score 0.9) and of what is black (a 'bar', 0.4), one
    each at most.
    """

    @tf.function(input_signature=[_IMAGES, tf.TensorSpec([], tf.float32)])
    def detect(self, images, least_score):
        def one(image):
            boxes, found = [], []
            for color in (255, 0):
                where = tf.where(tf.reduce_all(image == color, -1))  # [n, 2]
                found.append(tf.size(where) > 0)
                low, high = tf.reduce_min(where, 0), tf.reduce_max(where, 0) + 1
                boxes.append(tf.cast(tf.concat([low, high], 0), tf.float32))
            scores = tf.constant([0.9, 0.4])
            kept = tf.where(tf.stack(found) & (scores > least_score))[:, 0]
            count, room = tf.size(kept), [[0, 2 - tf.size(kept)]]
            return (
                tf.reshape(tf.pad(tf.gather(tf.stack(boxes), kept), [*room, [0, 0]]), [2, 4]),
                tf.reshape(tf.pad(tf.gather(scores, kept), room), [2]),
                tf.reshape(tf.pad(tf.cast(kept, tf.int32), room, constant_values=-1), [2]),
                count,
            )

        kinds = (
            tf.TensorSpec([2, 4]),
            tf.TensorSpec([2]),
            tf.TensorSpec([2], tf.int32),
            tf.TensorSpec([], tf.int32),
        )
        found = tf.map_fn(one, images, fn_output_signature=kinds)
        return dict(zip(("boxes", "scores", "labels", "count"), found))

    @tf.function(input_signature=[])
    def class_names(self):
        return tf.constant(["square", "bar"])


def write_classifier(path, several=False, levels=None):
    """Writes a classifier by the mean colour; a multi-label one names each channel above 128.
    Returns the path.
    """
    model = Classifying(
        logits=lambda images: (tf.reduce_mean(tf.cast(images, tf.float32), [1, 2]) - 128) / 20,
        held=[],
        geometry=ImageConfig(resize=8, image_size=8),
        class_names=NAMES,
        multi_label=several,
        intensity_range=levels,
    )
    save(HubClassifier(model), str(path))
    card = {
        "class_names": NAMES,
        "resize": 8,
        "image_size": 8,
        "multi_label": several,
        "levels": levels,
    }
    pathlib.Path(path, "classifier.json").write_text(json.dumps(card))
    return str(path)


def write_detector(path, levels=None):
    """Writes `Extremes` with its card; returns the path as text."""
    tf.saved_model.save(Extremes(), str(path))
    pathlib.Path(path, "detector.json").write_text(json.dumps({"levels": levels}))
    return str(path)
