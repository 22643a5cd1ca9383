"""What is predicted of a picture: classes, or boxes, or why there is nothing; as one line of JSON."""

from __future__ import annotations

import json
from typing import NamedTuple, Union


class Prediction(NamedTuple):
    """The classes of a picture.

    Attributes:
      file: its name.
      labels: names of the most probable classes, best first; of a model with several labels a picture all those with a
        probability above 0.5, which may be none.
      probabilities: one for each of the labels, in [0, 1].
      error: why the picture could not be read, else ''.
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
    """An object: its class, a score in [0, 1], and its corners in pixels of the picture as it is shown, from 0."""

    label: str
    score: float
    ymin: float
    xmin: float
    ymax: float
    xmax: float


class Detected(NamedTuple):
    """The objects in a picture, best first.

    Attributes:
      file: its name.
      height, width: of the picture as it is shown, px; 0 if it could not be read.
      boxes: the objects.
      error: why the picture could not be read, else ''.
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


def to_line(record: Record) -> str:
    """Returns a record as a line of JSON."""
    values = record._asdict()
    if isinstance(record, Detected):
        values["boxes"] = [box._asdict() for box in record.boxes]
    return json.dumps(values, ensure_ascii=False) + "\n"


def from_line(line: str) -> Record:
    """Inverse of `to_line`. Raises ValueError, KeyError or TypeError if it is something else."""
    values = json.loads(line)
    if "boxes" in values:
        return Detected(**{**values, "boxes": tuple(Box(**box) for box in values["boxes"])})
    return Prediction(**{**values, "labels": (*values["labels"],), "probabilities": (*values["probabilities"],)})
