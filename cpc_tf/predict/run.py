"""From pictures and a model to records, files and drawings."""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Callable, Iterator

from cpc_tf import pictures
from cpc_tf.files import write_file
from cpc_tf.pictures import Images, Pictures
from cpc_tf.predict import drawing, formats
from cpc_tf.predict.config import COCO, STDOUT, PredictConfig
from cpc_tf.predict.model import Detected, Model, Record
from cpc_tf.progress import Progress, duration
from cpc_tf.texts import listed

_REPORT_EVERY = 5  # seconds
Tell = Callable[[str], None]


def main(config: PredictConfig) -> None:
    """The command `cpc-tf predict`."""
    try:
        records = predict(config, functools.partial(print, file=sys.stderr, flush=True))
    except BrokenPipeError:  # as in `... --output=- | head`; nothing is left to be written at the exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return
    if config.output != STDOUT:
        print(f"done: {config.output or len(records)}")


def predict(
    config: PredictConfig, progress: Tell | None = None, model: Model | None = None, images: Images | None = None
) -> list[Record]:
    """Predicts pictures and writes what the settings ask for. Only `output='-'` prints.

    Args:
      config: the settings; without any output, nothing is written.
      progress: gets lines on how far it is. None: nobody does.
      model: one that is open; None: that of the settings.
      images: pictures; None: those of the settings.

    Returns:
      A `Prediction` or a `Detected` for each picture, in order, those with an error included.

    Raises:
      ConfigError: the model, the pictures or an output cannot be used.
      NotWritten: an output cannot be written.
    """
    tell = progress or (lambda line: None)
    formats.check_new(config.output)
    files = pictures.find(config.pictures if images is None else images)
    model = model or Model(config.model, config.least_score)
    formats.check(config, model, files.names)
    ids = formats.read_ids(config.coco_ids, files.names, model) if config.format == COCO else None
    records = []
    with formats.opened(config, model, ids) as write:
        for new in _predicted(config, model, files, tell):
            records += new
            write(new)
        if config.sheet:
            write_file(config.sheet, _sheet(files, _drawn(records, config), model))
    broken = [f"{record.file} ({record.error})" for record in records if record.error]
    if broken:
        tell(f"{len(broken)} of {len(files)} pictures could not be read: {listed(broken)}")
    return records


def _predicted(config: PredictConfig, model: Model, files: Pictures, tell: Tell) -> Iterator[list[Record]]:
    """Yields the records of the next pictures; --drawn is written before."""
    progress, told, done = Progress(len(files)), time.monotonic(), 0
    styles = drawing.styles(model.class_names)
    for records, images in model.steps(files, config.batch_size, config.least_score):
        if config.drawn:
            for record, image in zip(_drawn(records, config), images):
                if not record.error:
                    drawn = drawing.jpeg(drawing.boxes_on(image, record.boxes, styles))
                    write_file(formats.place(config.drawn, record.file, ".jpg"), drawn)
        yield records
        done += len(records)
        progress.update(done)
        if progress.rate and time.monotonic() - told > _REPORT_EVERY:
            told = time.monotonic()
            tell(f"{progress}  {progress.rate:.1f} pictures/s")
    rate = f", {progress.rate:.1f} pictures/s" if progress.rate else ""
    tell(f"{len(files)} pictures in {duration(progress.seconds)}{rate}")


def _drawn(records: list[Record], config: PredictConfig) -> list[Record]:
    """Returns records with the boxes that drawings show."""
    return [record.above(config.drawn_score) if isinstance(record, Detected) else record for record in records]


def _sheet(files: Pictures, records: list[Record], model: Model) -> bytes:
    shown = drawing.chosen(records)
    tiles = pictures.thumbnails(files.take(shown), drawing.SIDE, model.levels)
    readable = sum(not record.error for record in records)
    return drawing.sheet([records[i] for i in shown], tiles, readable, model.class_names)
