"""The models that predict: a classifier or a detector of `cpc-tf export`, from its directory."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Iterator, Sequence
from typing import Any, Union

import numpy as np
import tensorflow as tf

from cpc_tf import pictures
from cpc_tf.data.decoding.decode import IntensityRange
from cpc_tf.files import read_json, reason
from cpc_tf.pictures import Batch, Pictures
from cpc_tf.predict.records import Box, Detected, Prediction, Record
from cpc_tf.settings import ConfigError
from cpc_tf.texts import shown

BEST = 3  # classes of a picture that a classifier names
_SEVERAL_ABOVE = 0.5  # probability of a class of a model with several labels

# The next pictures, their records, and the images of the sound ones.
Step = tuple[Batch, list[Record], Sequence[np.ndarray]]


class Classifier:
    """A classifier's module with its card, classifier.json."""

    is_detector, usual_batch = False, 32

    def __init__(self, module: Any, card: dict[str, Any]):
        self._module, self._least_side = module, card["resize"]
        self.several_labels: bool = card["several_labels"]
        self.levels = _levels(card)
        self.class_names = [name.decode() for name in module.class_names().numpy()]

    def prepare(self, image: tf.Tensor) -> tf.Tensor:
        """Image uint8 [H, W, 3] -> uint8 [S, S, 3], as the module shows it to its network."""
        return self._module.prepared(image[None])[0]

    def classify(self, images: np.ndarray) -> np.ndarray:
        """Prepared images uint8 [N, S, S, 3] -> probabilities float32 [N, C]."""
        return self._module.classify(tf.constant(images))["probabilities"].numpy()

    def predict(self, files: Pictures, batch_size: int, start: int = 0) -> Iterator[Step]:
        """Yields what is predicted of the pictures from `start` on, in order."""
        options = {"least_side": self._least_side, "levels": self.levels, "start": start}
        for batch in pictures.batches(files, self.prepare, batch_size, **options):
            records = {i: Prediction(files.names[i], error=why) for i, why in batch.broken.items()}
            if len(batch.indices):
                for index, row in zip(batch.indices.tolist(), self.classify(batch.images)):
                    order = np.argsort(-row, kind="stable")
                    chosen = order[row[order] > _SEVERAL_ABOVE] if self.several_labels else order[:BEST]
                    names = tuple(self.class_names[i] for i in chosen)
                    records[index] = Prediction(files.names[index], names, tuple(row[chosen].tolist()))
            yield batch, [records[i] for i in range(batch.start, batch.stop)], batch.images


class Detector:
    """A detector's module with its card, detector.json.

    Args:
      module: as loaded.
      card: the content of detector.json.
      least_score: of the boxes.
    """

    is_detector, usual_batch, several_labels = True, 8, False

    def __init__(self, module: Any, card: dict[str, Any], least_score: float):
        self.levels = _levels(card)
        self._module, self._least_score = module, tf.constant(least_score, tf.float32)
        self.class_names = [name.decode() for name in module.class_names().numpy()]
        self.category_ids: dict[str, int] = card.get("category_ids") or {}  # of the COCO JSON it learned from

    def predict(self, files: Pictures, batch_size: int, start: int = 0) -> Iterator[Step]:
        """Yields what is found in the pictures from `start` on, in order; those of one size are a batch."""
        waiting: list[Batch] = []
        for batch in pictures.batches(files, tf.identity, 1, levels=self.levels, start=start):
            sizes = {one.images.shape for one in (*waiting, batch) if len(one.indices)}
            if waiting and (len(sizes) > 1 or len(waiting) == batch_size):
                yield self._step(files, waiting)
                waiting = []
            waiting.append(batch)
        if waiting:
            yield self._step(files, waiting)

    def _step(self, files: Pictures, waiting: Sequence[Batch]) -> Step:
        sound = [batch for batch in waiting if len(batch.indices)]
        indices = np.array([batch.indices[0] for batch in sound], np.int64)
        images = [batch.images[0] for batch in sound]
        broken = {i: why for batch in waiting for i, why in batch.broken.items()}
        records = {i: Detected(files.names[i], error=why) for i, why in broken.items()}
        if sound:
            found = self._module.detect(tf.constant(np.stack(images)), self._least_score)
            found = {name: x.numpy() for name, x in found.items()}
            for row, (index, image) in enumerate(zip(indices.tolist(), images)):
                boxes = tuple(
                    Box(self.class_names[found["labels"][row, k]], float(found["scores"][row, k]), *box.tolist())
                    for k, box in enumerate(found["boxes"][row, : found["count"][row]])
                )
                records[index] = Detected(files.names[index], *image.shape[:2], boxes)
        deep = np.array([batch.deep[0] for batch in sound], bool)
        start, stop = waiting[0].start, waiting[-1].stop
        step = Batch(start, stop, indices, np.zeros([0], np.uint8), deep, broken)
        return step, [records[i] for i in range(start, stop)], images


Model = Union[Classifier, Detector]


def open_model(directory: str, least_score: float = 0.5) -> Model:
    """Returns the model in a directory that `cpc-tf export` wrote.

    Raises:
      ConfigError: there is none, or it cannot be loaded.
    """
    where = f"--model={shown(directory)}"
    if not directory:
        raise ConfigError("--model= is empty: name the directory of an exported model, e.g. runs/mine/base/classifier")
    if not tf.io.gfile.isdir(directory):
        raise ConfigError(f"{where}: there is no such directory")
    kind = next((kind for kind in ("classifier", "detector", "encoder") if _has(directory, f"{kind}.json")), None)
    if kind == "encoder":
        raise ConfigError(
            f"{where}: holds an encoder, which has no classes; cpc-tf embed gives its features, and a run of "
            "cpc-tf linear or efficient on it a classifier to export"
        )
    if kind is None:
        raise ConfigError(f"{where}: has no classifier.json or detector.json; export a run with cpc-tf export")
    log = logging.getLogger("absl")
    level = log.level
    try:
        log.setLevel(logging.ERROR)  # it would warn of gradients, which nobody asks for here
        module, card = tf.saved_model.load(directory), read_json(os.path.join(directory, f"{kind}.json"))
        return Detector(module, card, least_score) if kind == "detector" else Classifier(module, card)
    except (OSError, tf.errors.OpError, AttributeError, KeyError) as error:
        raise ConfigError(f"{where}: cannot be loaded ({reason(error)}); export it again") from error
    finally:
        log.setLevel(level)


def fingerprint(directory: str) -> str:
    """Returns a text that is another one for another model."""
    digest = hashlib.sha256()
    for name in ("classifier.json", "detector.json", "fingerprint.pb", "variables/variables.index"):
        if _has(directory, name):
            with tf.io.gfile.GFile(os.path.join(directory, name), "rb") as file:
                digest.update(file.read())
    return digest.hexdigest()


def _levels(card: dict[str, Any]) -> IntensityRange | None:
    """Returns the values that are black and white in pictures of more than 8 bits; see `decode.decode`."""
    return tuple(card["levels"]) if card.get("levels") else None


def _has(directory: str, name: str) -> bool:
    return tf.io.gfile.exists(os.path.join(directory, name))
