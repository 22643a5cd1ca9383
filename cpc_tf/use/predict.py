"""`cpc-tf predict`: from images and a model to records, files and drawings."""

from __future__ import annotations

import collections
import functools
import io
import itertools
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.font_manager import FontProperties, findfont
from PIL import Image, ImageDraw, ImageFont

from cpc_tf.core.files import write_file
from cpc_tf.core.progress import Progress, duration
from cpc_tf.core.settings import replace
from cpc_tf.core.texts import STDOUT, listed
from cpc_tf.data import pictures
from cpc_tf.data.pictures import Images, Pictures
from cpc_tf.drawing import plots
from cpc_tf.use import formats
from cpc_tf.use.model import Box, Detected, Model, Record
from cpc_tf.use.predict_config import COCO, PredictConfig

MOST = 60  # images on a sheet
SIDE = 160  # px of each
# the last is the height of letters, px
_COLUMNS = 10
_GAP = 8
_TEXT = 13
_REPORT_EVERY = 5  # seconds
Tell = Callable[[str], None]


def main(config: PredictConfig) -> None:
    """The command `cpc-tf predict`."""
    try:
        records = predict(config, functools.partial(print, file=sys.stderr, flush=True))
    # as in `... --output=- | head`; nothing is left to be written at the exit
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return
    if config.output != STDOUT:
        print(f"done: {config.output or len(records)}")


def predict(
    config: PredictConfig,
    progress: Tell | None = None,
    model: Model | None = None,
    images: Images | None = None,
) -> list[Record]:
    """Predicts images and writes what the settings ask for. Only `output='-'` prints.

    Args:
      config: the settings; without any output, nothing is written.
      progress: gets lines on how far it is; None: no one does.
      model: an open model; None: that of the settings.
      images: images; None: those of the settings.

    Returns:
      A `Prediction` or a `Detected` for each image, in order, those with an error included.

    Raises:
      ConfigError: the model, the images or an output cannot be used.
      NotWritten: an output cannot be written.
    """
    tell = progress or (lambda line: None)
    formats.check_new(config.output)
    files = pictures.find(config.pictures if images is None else images)
    model = model or Model(config.model)
    config = _with_scores(config, model)
    formats.check(config, model, files.names)
    ids = formats.read_ids(config.coco_ids, files.names, model) if config.format == COCO else None
    records = []
    with formats.opened(config, model, ids) as write:
        for new in _predicted(config, model, files, tell):
            records += new
            write(new)
        if config.sheet:
            drawn = _to_draw(records, config)
            indices = on_sheet(drawn)
            readable = sum(not record.error for record in records)
            tiles = pictures.thumbnails(files.take(indices), SIDE, model.intensity_range)
            write_file(
                config.sheet, sheet([drawn[i] for i in indices], tiles, readable, model.class_names)
            )
    broken = [f"{record.file} ({record.error})" for record in records if record.error]
    if broken:
        tell(f"{len(broken)} of {len(files)} images could not be read: {listed(broken)}")
    return records


def _with_scores(config: PredictConfig, model: Model) -> PredictConfig:
    """Returns the settings with scores for those that the model recommends."""
    scores = {name: getattr(config, name) for name in ("least_score", "drawn_score")}
    return replace(
        config, **{name: model.recommended_score if x < 0 else x for name, x in scores.items()}
    )


def _predicted(
    config: PredictConfig, model: Model, files: Pictures, tell: Tell
) -> Iterator[list[Record]]:
    """Yields the records of the next images, whose --drawn are written before."""
    progress = Progress(len(files))
    last_told = time.monotonic()
    done = 0
    style_of = styles(model.class_names)
    for records, images in model.steps(files, config.batch_size, config.least_score):
        if config.drawn:
            for record, image in zip(_to_draw(records, config), images):
                if not record.error:
                    jpeg = _encoded(
                        Image.fromarray(boxes_on(image, record.boxes, style_of)), "JPEG", quality=90
                    )
                    write_file(formats.place(config.drawn, record.file, ".jpg"), jpeg)
        yield records
        done += len(records)
        progress.update(done)
        if progress.rate and time.monotonic() - last_told > _REPORT_EVERY:
            last_told = time.monotonic()
            tell(f"{progress}  {progress.rate:.1f} images/s")
    rate = f", {progress.rate:.1f} images/s" if progress.rate else ""
    tell(f"{len(files)} images in {duration(progress.seconds)}{rate}")


def _to_draw(records: list[Record], config: PredictConfig) -> list[Record]:
    """Returns records with the boxes that drawings show."""
    return [
        record.above(config.drawn_score) if isinstance(record, Detected) else record
        for record in records
    ]


class Style(NamedTuple):
    """How a class is drawn: its name, or 'class 3' if no font has its letters, and the colour of
    its boxes.
    """

    name: str
    color: str


def styles(class_names: Sequence[str]) -> dict[str, Style]:
    """Returns how each class of a model is drawn."""
    names = plots.drawable(tuple(class_names), "class")
    return {
        label: Style(name, plots.THEME.color(i))
        for i, (label, name) in enumerate(zip(class_names, names))
    }


def boxes_on(
    image: np.ndarray, boxes: Sequence[Box], styles: Mapping[str, Style], named: bool = True
) -> np.ndarray:
    """Returns an image, uint8 [H, W, 3], with boxes in the colours of their classes; `named`: with
    names and scores.
    """
    picture = Image.fromarray(image)
    pen = ImageDraw.Draw(picture)
    letters = max(10, min(picture.size) // 30)
    width = max(1 + named, min(picture.size) // 200)
    font = _font([styles[box.label].name for box in boxes], letters)
    for box in reversed(boxes):  # the best last: on top
        name, color = styles[box.label]
        # The last pixel belongs to the box; a box of less than a pixel, as on a tile, is one.
        right = max(box.xmin, box.xmax - 1)
        below = max(box.ymin, box.ymax - 1)
        pen.rectangle((box.xmin, box.ymin, right, below), outline=color, width=width)
        if not named:
            continue
        text = f"{name} {box.score:.2f}"
        corner = (box.xmin, max(0, box.ymin - letters * 1.2))
        pen.rectangle(pen.textbbox(corner, text, font), fill=color)
        pen.text(corner, text, "white", font)
    return np.asarray(picture)


def on_thumbnail(record: Detected) -> list[Box]:
    """Returns the boxes of an image in pixels of its thumbnail, see `pictures.thumbnails`."""
    longest = max(record.height, record.width)
    scale = SIDE / longest
    top, left = ((SIDE - side * SIDE // longest) // 2 for side in (record.height, record.width))
    return [
        Box(
            label,
            score,
            ymin * scale + top,
            xmin * scale + left,
            ymax * scale + top,
            xmax * scale + left,
        )
        for label, score, ymin, xmin, ymax, xmax in record.boxes
    ]


def on_sheet(records: Sequence[Record]) -> list[int]:
    """Returns the indices of the images of a sheet, the least sure first.

    Half of them are the least sure of all, the others are evenly spaced among the rest, with the
    surest as the last.
    """
    order = sorted(
        (i for i, record in enumerate(records) if not record.error),
        key=lambda i: records[i].confidence,
    )
    if len(order) <= MOST:
        return order
    rest = order[MOST // 2 :]
    places = np.linspace(0, len(rest) - 1, MOST - MOST // 2).round().astype(int)
    return [*order[: MOST // 2], *(rest[i] for i in places)]


def sheet(
    records: Sequence[Record], tiles: np.ndarray, total: int, class_names: Sequence[str]
) -> bytes:
    """Returns a PNG of images with what was predicted of them.

    Args:
      records: of these images, the least sure first.
      tiles: the images as `pictures.thumbnails` makes them, uint8 [N, SIDE, SIDE, 3].
      total: how many images could be read.
      class_names: of the model.
    """
    style_of = styles(class_names)
    columns = min(_COLUMNS, max(len(records), 4))
    lines = -(-len(records) // columns)
    step_x = SIDE + _GAP
    step_y = SIDE + 2 * _TEXT + _GAP + 6
    top = 2 * _TEXT + _GAP
    size = (_GAP + columns * step_x, top + lines * step_y)
    inks = plots.THEME.named
    canvas = Image.new("RGB", size, inks["page"])
    pen = ImageDraw.Draw(canvas)
    files = plots.drawable(tuple(record.file.rpartition("/")[2] for record in records), "image")
    captions = [(_caption(record, style_of), file) for record, file in zip(records, files)]
    heading = "the least sure first"
    if total > len(records):
        heading += (
            f"; {len(records)} of {total:,}: the {MOST // 2} least sure, and others evenly spaced"
            " up to the surest"
        )
    font = _font([heading, *itertools.chain(*captions)], _TEXT)
    pen.text((_GAP, _TEXT // 2), heading, inks["ink"], font)
    x = _GAP + pen.textlength(heading, font)
    present = set()
    for record in records:
        if isinstance(record, Detected):
            present |= {box.label for box in record.boxes}
    for name in sorted(present):  # as many as there is room for
        text, color = style_of[name]
        pen.text((x + 2 * _GAP, _TEXT // 2), text, color, font)
        x += 2 * _GAP + pen.textlength(text, font)
    for number, (tile, record, (first, second)) in enumerate(zip(tiles, records, captions)):
        x = _GAP + number % columns * step_x
        y = top + number // columns * step_y
        if isinstance(record, Detected):
            tile = boxes_on(tile, on_thumbnail(record), style_of, named=False)
        canvas.paste(Image.fromarray(tile), (x, y))
        pen.text((x, y + SIDE + 1), _cut(pen, first, font), inks["ink"], font)
        pen.text((x, y + SIDE + _TEXT + 4), _cut(pen, second, font), inks["muted"], font)
    return _encoded(canvas, "PNG")


def _caption(record: Record, styles: Mapping[str, Style]) -> str:
    """Returns what was predicted."""
    if isinstance(record, Detected):
        counts = collections.Counter(box.label for box in record.boxes)
        objects = ", ".join(f"{count} {styles[label].name}" for label, count in counts.items())
        return f"{record.confidence:.2f} {objects}" if objects else "nothing found"
    return f"{record.confidence:.2f} {styles[record.label].name}" if record.label else "no label"


def _cut(pen: ImageDraw.ImageDraw, text: str, font: ImageFont.FreeTypeFont) -> str:
    """Returns a text that is not wider than an image."""
    if pen.textlength(text, font) <= SIDE:
        return text
    while text and pen.textlength(f"{text}…", font) > SIDE:
        text = text[:-1]
    return f"{text}…"


def _font(texts: Sequence[str], height: int) -> ImageFont.FreeTypeFont:
    """Returns a font that has the letters of these texts, if one is installed."""
    family = next(iter(plots.families(["".join(texts)])), "DejaVu Sans")
    return ImageFont.truetype(findfont(FontProperties(family=family)), height)


def _encoded(picture: Image.Image, form: str, **options: int) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, form, **options)
    return buffer.getvalue()
