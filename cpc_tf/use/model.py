"""A classifier or a detector of `cpc-tf export`: opened from its directory, and its predictions of
images.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Union

import numpy as np
import tensorflow as tf

from cpc_tf.core.files import read_json, reason
from cpc_tf.core.settings import ConfigError
from cpc_tf.core.texts import shown
from cpc_tf.data import pictures
from cpc_tf.data.decode import IntensityRange
from cpc_tf.data.pictures import Batch, Images, Pictures
from cpc_tf.encoders import saved_model
from cpc_tf.evaluation.label_kinds import is_multi_label

BEST = 3  # classes of an image that a classifier names
_USUAL_SCORE = 0.5  # of the boxes of a detector that recommends none
_LEAST_PROBABILITY = 0.5  # of a class that a multi-label classifier names


class Prediction(NamedTuple):
    """The classes of an image.

    Attributes:
      file: its name.
      labels: names of the most probable classes, best first; of a multi-label classifier all those
        with a probability above 0.5, which may be none.
      probabilities: one for each of the labels, in [0, 1].
      error: why the image could not be read, else ''.
    """

    file: str
    labels: tuple[str, ...] = ()
    probabilities: tuple[float, ...] = ()
    error: str = ""

    @property
    def label(self) -> str:
        """The most probable class, '' if there is none."""
        return self.labels[0] if self.labels else ""

    @property
    def confidence(self) -> float:
        """The probability of `label`; 0 without one."""
        return self.probabilities[0] if self.labels else 0.0


class Box(NamedTuple):
    """An object: its class, a score in [0, 1], and its corners in pixels of the image as displayed,
    from 0.
    """

    label: str
    score: float
    ymin: float
    xmin: float
    ymax: float
    xmax: float


class Detected(NamedTuple):
    """The objects in an image, best first.

    Attributes:
      file: its name.
      height, width: of the image as displayed (turned as its EXIF says), px; 0 if it could not be
        read.
      boxes: the objects.
      error: why the image could not be read, else ''.
    """

    file: str
    height: int = 0
    width: int = 0
    boxes: tuple[Box, ...] = ()
    error: str = ""

    def above(self, least_score: float) -> Detected:
        """The same without the boxes of a lower score."""
        return self._replace(boxes=tuple(box for box in self.boxes if box.score >= least_score))

    @property
    def confidence(self) -> float:
        """The score of the best box; 0 without one."""
        return self.boxes[0].score if self.boxes else 0.0


Record = Union[Prediction, Detected]

# Records of the next images, and beside each its image, uint8 [H, W, 3]; None for a broken one.
Step = tuple[list[Record], list[Union[np.ndarray, None]]]


class Model:
    """A classifier or a detector that `classify` or `cpc-tf export` wrote.

    Args:
      path: its directory.
      least_score: of the boxes of a detector; None: its recommended one.

    Attributes:
      path: the directory.
      recommended_score: the least score of boxes that had the best F1 in the test of a detector;
        0.5 if it says none.
      least_score: as given, or the recommended one.
      class_names: in the order of the probabilities.
      is_detector: whether it finds boxes.
      multi_label: whether an image may have several classes.
      intensity_range: the values that are black and white in images of more than 8 bits, see
        `decode.decode`; None if the model does not say.
      category_ids: of the COCO JSON that a detector learned from, by name of the class.

    Raises:
      ConfigError: there is no such model, or it cannot be loaded.
    """

    def __init__(self, path: str | os.PathLike[str], least_score: float | None = None):
        self.path = os.path.expanduser(os.fspath(path))
        kind = self._kind()
        self.is_detector = kind == "detector"
        log = logging.getLogger("absl")
        level = log.level
        try:
            log.setLevel(logging.ERROR)  # no warning of missing gradients
            saved_model.check(self.path, f"--model={shown(self.path)}")
            self._module = tf.saved_model.load(self.path)
            card = read_json(os.path.join(self.path, f"{kind}.json"))
            self._resizes: list[int] = []
            if not self.is_detector:
                self._resizes = [each["resize"] for each in card.get("encoders", [card])]
            self._columns = np.cumsum([each["image_size"] for each in card.get("encoders", [])])
            self.multi_label: bool = not self.is_detector and is_multi_label(card)
            self.class_names: list[str] = [
                name.decode() for name in self._module.class_names().numpy()
            ]
        except (OSError, tf.errors.OpError, AttributeError, KeyError) as error:
            raise ConfigError(
                f"--model={shown(self.path)}: cannot be loaded ({reason(error)}); export it again"
            ) from error
        finally:
            log.setLevel(level)
        self.intensity_range: IntensityRange | None = (
            tuple(card["levels"]) if card.get("levels") else None
        )
        self.recommended_score: float = card.get("recommended_score") or _USUAL_SCORE
        self.least_score = self.recommended_score if least_score is None else least_score
        self.category_ids: dict[str, int] = card.get("category_ids") or {}

    def _kind(self) -> str:
        """Returns 'classifier' or 'detector'. Raises ConfigError if the directory holds neither."""
        where = f"--model={shown(self.path)}"
        if not self.path:
            raise ConfigError(
                "--model= is empty: name the directory of an exported model, e.g."
                " runs/mine/base/classifier"
            )
        if not tf.io.gfile.isdir(self.path):
            raise ConfigError(f"{where}: there is no such directory")
        kinds = ("classifier", "detector", "encoder")
        kind = next(
            (kind for kind in kinds if tf.io.gfile.exists(os.path.join(self.path, f"{kind}.json"))),
            None,
        )
        if kind is None:
            inside = [
                os.path.join(self.path, kind)
                for kind in ("classifier", "detector")
                if tf.io.gfile.exists(os.path.join(self.path, kind, f"{kind}.json"))
            ]
            hint = "export a run with cpc-tf export"
            if inside:
                hint = f"name the module in it: --model={shown(inside[0])}"
            raise ConfigError(f"{where}: has no classifier.json or detector.json; {hint}")
        if kind == "encoder":
            raise ConfigError(
                f"{where}: holds an encoder, which has no classes; cpc-tf embed gives its features,"
                " and a run of cpc-tf linear or efficient on it a classifier to export"
            )
        return kind

    def __repr__(self) -> str:
        return f"Model({self.path!r}): {', '.join(self.class_names)}"

    def predict(self, images: Images) -> list[Record]:
        """Returns the predictions of images; see `cpc_tf.predict`."""
        return [record for records, _ in self.steps(pictures.find(images)) for record in records]

    def steps(
        self, files: Pictures, batch_size: int = 0, least_score: float | None = None
    ) -> Iterator[Step]:
        """Yields the predictions of images, in order.

        Args:
          files: the images.
          batch_size: images predicted at a time; 0: 32 by a classifier, 8 by a detector.
          least_score: of the boxes of a detector; None: that of the model.
        """
        if self.is_detector:
            return self._detected(
                files, batch_size or 8, self.least_score if least_score is None else least_score
            )
        return self._classified(files, batch_size or 32)

    def classify(self, images: np.ndarray) -> np.ndarray:
        """A classifier's prepared images uint8 [N, S, S, 3] -> probabilities float32 [N, C]."""
        return self._module.classify(tf.constant(images))["probabilities"].numpy()

    def _classified(self, files: Pictures, batch_size: int) -> Iterator[Step]:
        options = {"least_side": self._resizes, "intensity_range": self.intensity_range}
        for batch in pictures.batches(files, self._prepare, batch_size, **options):
            images = dict(zip(batch.indices.tolist(), batch.images))
            records = {i: Prediction(files.names[i], error=why) for i, why in batch.broken.items()}
            for index, row in zip(images, self.classify(batch.images) if images else ()):
                order = np.argsort(-row, kind="stable")
                chosen = (
                    order[row[order] > _LEAST_PROBABILITY] if self.multi_label else order[:BEST]
                )
                names = tuple(self.class_names[i] for i in chosen)
                records[index] = Prediction(files.names[index], names, tuple(row[chosen].tolist()))
            indices = range(batch.start, batch.stop)
            yield [records[i] for i in indices], [images.get(i) for i in indices]

    def _prepare(self, *images: tf.Tensor) -> tf.Tensor:
        """Prepares an image, which is decoded for each of the encoders: uint8 [H, W, 3] -> uint8
        [S, S, 3].
        """
        prepared = [self._module.prepared(image[None])[0] for image in images]
        if len(images) == 1:
            return prepared[0]
        starts = [0, *self._columns]
        parts = zip(prepared, starts, self._columns)
        return tf.concat([canvas[:, start:stop] for canvas, start, stop in parts], 1)

    def _detected(self, files: Pictures, batch_size: int, least_score: float) -> Iterator[Step]:
        """Images of one size are a batch."""
        waiting: list[Batch] = []
        for batch in pictures.batches(files, tf.identity, 1, intensity_range=self.intensity_range):
            sizes = {one.images.shape for one in (*waiting, batch) if len(one.indices)}
            if waiting and (len(sizes) > 1 or len(waiting) == batch_size):
                yield self._boxes(files, waiting, least_score)
                waiting = []
            waiting.append(batch)
        if waiting:
            yield self._boxes(files, waiting, least_score)

    def _boxes(self, files: Pictures, waiting: Sequence[Batch], least_score: float) -> Step:
        images = {int(batch.indices[0]): batch.images[0] for batch in waiting if len(batch.indices)}
        records = {}
        for batch in waiting:
            for i, why in batch.broken.items():
                records[i] = Detected(files.names[i], error=why)
        if images:
            outputs = self._module.detect(
                tf.constant(np.stack([*images.values()])), tf.constant(least_score, tf.float32)
            )
            outputs = {name: x.numpy() for name, x in outputs.items()}
            for row, (index, image) in enumerate(images.items()):
                boxes = tuple(
                    Box(
                        self.class_names[outputs["labels"][row, k]],
                        float(outputs["scores"][row, k]),
                        *box.tolist(),
                    )
                    for k, box in enumerate(outputs["boxes"][row, : outputs["count"][row]])
                )
                records[index] = Detected(files.names[index], *image.shape[:2], boxes)
        indices = range(waiting[0].start, waiting[-1].stop)
        return [records[i] for i in indices], [images.get(i) for i in indices]
