"""From pictures and a model to records, files and drawings; interrupted, it goes on where it was."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import sys
import time
from collections.abc import Callable, Iterator

from cpc_tf import pictures
from cpc_tf.files import NotWritten, reason, write_file, writing
from cpc_tf.pictures import Pictures
from cpc_tf.predict import coco_ids, drawing, formats, part
from cpc_tf.predict.config import COCO, STDOUT, PredictConfig
from cpc_tf.predict.models import Model, fingerprint, open_model
from cpc_tf.predict.records import Detected, Record
from cpc_tf.progress import Progress, duration
from cpc_tf.settings import ConfigError
from cpc_tf.texts import csv_lines, listed

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


def predict(config: PredictConfig, progress: Tell | None = None) -> list[Record]:
    """Predicts the pictures and writes what the settings ask for.

    Beside an output file that is not finished there is FILE.part with a line of JSON a picture: the same call goes on
    from there. In a bucket the output is written at the end. Only `output='-'` prints.

    Args:
      config: the settings; without any output, nothing is written.
      progress: gets lines on how far it is. None: nobody does.

    Returns:
      A `Prediction` or a `Detected` for each picture, in order, those with an error included.

    Raises:
      ConfigError: the model, the pictures or an output cannot be used.
      NotWritten: an output cannot be written.
    """
    tell = progress or (lambda line: None)
    if config.output not in ("", STDOUT) and part.is_finished(config.output):
        raise ConfigError(
            f"--output={config.output}: is finished (an unfinished one has a {part.SUFFIX} beside it); remove "
            "it or choose another name"
        )
    files = pictures.find(config.pictures)
    model = open_model(config.model, config.least_score)
    _check(config, model, files)
    ids = coco_ids.read(config.coco_ids, files.names, model) if config.format == COCO else None
    with _unfinished(config, files) as unfinished:
        records = [*unfinished.records] if unfinished else []
        if records:
            tell(f"{unfinished.path}: goes on after {len(records)} of {len(files)} pictures")
        if config.output == STDOUT:
            _print([formats.columns(model)])
        for new in _predicted(config, model, files, len(records), tell):
            records += new
            if unfinished:
                unfinished.append(new)
            elif config.output == STDOUT:
                _print([row for record in new for row in formats.rows(record, model)])
        if config.output not in ("", STDOUT):
            formats.write(config.output, config.format, records, model, ids)
        if config.sheet:
            write_file(config.sheet, _sheet(files, _drawn(records, config), model))
        if unfinished:
            with writing(unfinished.path):
                os.remove(unfinished.path)
    broken = [f"{record.file} ({record.error})" for record in records if record.error]
    if broken:
        tell(f"{len(broken)} of {len(files)} pictures could not be read: {listed(broken)}")
    return records


def _check(config: PredictConfig, model: Model, files: Pictures) -> None:
    """Raises ConfigError if the model cannot give what the settings ask for."""
    if not model.is_detector:
        if config.drawn:
            raise ConfigError(f"--drawn={config.drawn}: a classifier finds no boxes; --sheet draws its predictions")
        if config.output and config.format in (COCO, ""):
            raise ConfigError(
                f"--output={config.output}: a classifier finds no boxes; choose a file that ends with .csv or .jsonl"
            )
    if config.drawn or (config.output and not config.format):
        formats.check_places(files.names, "drawn" if config.drawn else "output")


@contextlib.contextmanager
def _unfinished(config: PredictConfig, files: Pictures) -> Iterator[part.Part | None]:
    """Yields the unfinished file of an --output; None without one, as in a bucket, where no file grows."""
    if config.output in ("", STDOUT) or "://" in config.output:
        yield None
        return
    names = hashlib.sha256(b"\0".join(files.paths)).hexdigest()
    about = {
        **{"--model": fingerprint(config.model), "--pictures": names, "--least_score": config.least_score},
        # Those that are done are not drawn again.
        **{"--drawn": config.drawn, "--drawn_score": config.drawn_score if config.drawn else None},
    }
    with part.opened(config.output, about) as found:
        yield found


def _predicted(config: PredictConfig, model: Model, files: Pictures, start: int, tell: Tell) -> Iterator[list[Record]]:
    """Yields the records of the pictures from `start` on; --drawn is written before a record is."""
    progress, told, deep = Progress(len(files), start), time.monotonic(), 0
    styles = drawing.styles(model.class_names)
    for batch, records, images in model.predict(files, config.batch_size or model.usual_batch, start):
        if config.drawn:
            for index, image in zip(batch.indices.tolist(), images):
                (record,) = _drawn([records[index - batch.start]], config)
                drawn = drawing.jpeg(drawing.boxes_on(image, record.boxes, styles))
                write_file(formats.place(config.drawn, record.file, ".jpg"), drawn)
        yield records
        deep += int(batch.deep.sum())
        progress.update(batch.stop)
        if progress.rate and time.monotonic() - told > _REPORT_EVERY:
            told = time.monotonic()
            tell(f"{progress}  {progress.rate:.1f} pictures/s")
    pictures.say_deep(deep, model.levels or files.levels)
    if len(files) > start:
        rate = f", {progress.rate:.1f} pictures/s" if progress.rate else ""
        tell(f"{len(files) - start} pictures in {duration(progress.seconds)}{rate}")


def _drawn(records: list[Record], config: PredictConfig) -> list[Record]:
    """Returns records with the boxes that drawings show."""
    return [record.above(config.drawn_score) if isinstance(record, Detected) else record for record in records]


def _sheet(files: Pictures, records: list[Record], model: Model) -> bytes:
    shown = drawing.chosen(records)
    tiles = pictures.thumbnails(files.take(shown), drawing.SIDE, model.levels)
    readable = sum(not record.error for record in records)
    return drawing.sheet([records[i] for i in shown], tiles, readable, model.class_names)


def _print(lines: list[list[str]]) -> None:
    try:
        sys.stdout.write(csv_lines(lines))
        sys.stdout.flush()
    except BrokenPipeError:  # its reader has enough
        raise
    except OSError as error:
        # What did not fit would be tried again as Python ends, with a traceback.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise NotWritten(f"--output=-: standard output cannot be written ({reason(error)})") from error
