"""Classifies images, or detects objects in them, with an exported model.

    cpc-tf predict --model=runs/photos/small/classifier --pictures=my_pictures \\
      --output=predictions.csv
    cpc-tf predict --model=runs/bccd/imagenette_128px/detector --pictures=my_pictures \\
      --output=boxes.json --drawn=drawn
    find my_pictures -name '*.jpg' | cpc-tf predict --model=runs/photos/small/classifier \\
      --pictures=- --output=-

An image that cannot be read is a row with its reason. Until all are done, rows are in
predictions.csv.part.
"""

from __future__ import annotations

import dataclasses
import os

from cpc_tf.core.settings import ConfigError, Settings, count, setting
from cpc_tf.core.texts import PICTURES, STDOUT

CSV = ".csv"
JSON_LINES = ".jsonl"
COCO = ".json"
# What a folder as --output holds.
VOC = "voc"
YOLO = "yolo"
YOLO_SCORES = "yolo_scores"
RECOMMENDED = -1.0  # stands for the score that a detector recommends


@dataclasses.dataclass(frozen=True)
class PredictConfig(Settings):
    """A model, images, and what to write."""

    model: str = setting(
        "",
        "Directory of a classifier or a detector that cpc-tf export wrote",
        needed="an exported classifier or detector, e.g. --model=runs/first/classifier",
    )
    pictures: str = setting(
        "", f"Images to predict: {PICTURES} for such a list on standard input", needed=PICTURES
    )
    output: str = setting(
        "",
        "File to write: .csv, .jsonl (JSON lines), '-' for CSV on standard output; of a"
        " detector also .json (COCO) or a folder (one file per image, see --boxes_format);"
        " empty: none",
    )
    sheet: str = setting(
        "", "PNG to draw with at most 60 images and what was predicted, the least sure first"
    )
    drawn: str = setting("", "Folder for all images with their boxes drawn, of a detector")
    least_score: float = setting(
        RECOMMENDED,
        "Least score of a detector's boxes; -1: the one with the best F1 in its test, as its"
        " detector.json says",
        minimum=-1,
        maximum=1,
    )
    drawn_score: float = setting(
        RECOMMENDED,
        "Least score of the boxes that --drawn and --sheet show; -1: as for --least_score",
        minimum=-1,
        maximum=1,
    )
    coco_ids: str = setting(
        "",
        "COCO JSON file of the images, whose ids of images and categories --output=FILE.json takes,"
        " for loadRes",
    )
    boxes_format: str = setting(
        VOC,
        "What a folder as --output gets: 'voc' (XML), 'yolo' (labels/*.txt with lines CLASS X Y"
        " WIDTH HEIGHT, classes.txt and data.yaml), 'yolo_scores' (each line with its score behind"
        " the box)",
        choices=(VOC, YOLO, YOLO_SCORES),
    )
    batch_size: int = count(
        0,
        "Images predicted at a time; 0: 32 by a classifier, 8 by a detector",
        unit="images",
        minimum=0,
        maximum=10_000,
    )

    def check(self):
        if self.output and self.format not in (CSV, JSON_LINES, COCO, STDOUT, ""):
            raise ConfigError(
                "output",
                self.output,
                f"must end with {CSV}, {JSON_LINES} or {COCO}, or be a folder or -",
            )
        if self.boxes_format != VOC and (self.format or not self.output):
            raise ConfigError(
                "boxes_format", self.boxes_format, f"goes with a folder, not --output={self.output}"
            )
        if self.coco_ids and self.format != COCO:
            raise ConfigError(
                "coco_ids",
                self.coco_ids,
                f"goes with --output=FILE{COCO}, not --output={self.output}",
            )

    def check_complete(self):
        super().check_complete()
        if not (self.output or self.sheet or self.drawn):
            raise ConfigError(
                "--output= is empty: name a file, or - for standard output; or draw, with --sheet"
                " or --drawn"
            )

    @property
    def format(self) -> str:
        """CSV, JSON_LINES, COCO, STDOUT; '' for a folder."""
        return (
            STDOUT
            if self.output == STDOUT
            else os.path.splitext(self.output.rstrip("/"))[1].lower()
        )
