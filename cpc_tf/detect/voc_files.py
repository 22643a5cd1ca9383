"""Detections as files that others' tools can score: VOC's result files, and JSON with the truth beside them."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Sequence

from cpc_tf.detect.scoring import Scene


def result_files(scenes: Sequence[Scene], class_names: Sequence[str], split: str) -> dict[str, str]:
    """VOC's result files of competition 4 (any training data), one for each class.

    A line is 'IMAGE SCORE XMIN YMIN XMAX YMAX', in pixels counted from 1, of which the last belongs to the box: our
    (0, 0, 2, 2) is 1 1 2 2.

    Returns:
      {file name: text}, e.g. 'comp4_det_test_car.txt'. In names, what is no letter, mark, digit, '-' or '.' becomes
      '_', and only the first 100 bytes are there.
    """
    lines = [[] for _ in class_names]
    for scene in scenes:
        for (y1, x1, y2, x2), score, label in zip(*scene.found):
            # The score as it is: ties that rounding made would change the average precision.
            lines[label].append(f"{scene.name} {score:.9g} {x1 + 1:.3f} {y1 + 1:.3f} {x2:.3f} {y2:.3f}\n")
    names = [f"comp4_det_{_plain(split)}_{_plain(name)}" for name in class_names]
    for index, name in enumerate(names):
        if names.index(name) < index:  # two classes whose names differ in such characters alone
            names[index] = f"{name}_{index}"
    return {f"{name}.txt": "".join(own) for name, own in zip(names, lines)}


def to_json(scenes: Sequence[Scene], class_names: Sequence[str], dataset: str, split: str) -> str:
    """Everything that a score depends on.

    Boxes are [ymin, xmin, ymax, xmax] in pixels of the image from 0, half-open: sides are differences. Labels index
    'class_names'. An image: {'name', 'boxes', 'scores', 'labels', 'truth': {'boxes', 'labels', 'difficult'}}.
    """
    images = [
        {
            "name": scene.name,
            "boxes": _rounded(scene.found.boxes),
            "scores": [float(f"{score:.9g}") for score in scene.found.scores],
            "labels": scene.found.labels.tolist(),
            "truth": {
                "boxes": _rounded(scene.truth.boxes),
                "labels": scene.truth.labels.tolist(),
                "difficult": scene.truth.difficult.tolist(),
            },
        }
        for scene in scenes
    ]
    head = json.dumps({"dataset": dataset, "split": split, "class_names": list(class_names)})
    # An image a line: a reader may stop, and so may a diff.
    return head[:-1] + ', "images": [\n' + ",\n".join(json.dumps(image) for image in images) + "\n]}\n"


def _plain(name: str) -> str:
    short = name.encode()[:100].decode(errors="ignore")  # a file's name has at most 255 bytes
    return "".join(letter if letter in "-." or unicodedata.category(letter)[0] in "LMN" else "_" for letter in short)


def _rounded(boxes) -> list[list[float]]:
    return [[round(float(x), 3) for x in box] for box in boxes]
