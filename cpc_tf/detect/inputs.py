"""What a detector learns from and is tested on: the images and their classes, and how large they
are shown.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from cpc_tf.boxes import layout
from cpc_tf.boxes.catalog import BoxesFolder, open_detection_sources
from cpc_tf.boxes.config import CanvasConfig
from cpc_tf.boxes.source import DetectionSource, Sizes
from cpc_tf.core.settings import ConfigError, flatten, open_settings, replace
from cpc_tf.core.texts import escaped
from cpc_tf.data import catalog, classes
from cpc_tf.data.folder import in_both
from cpc_tf.detect import scoring
from cpc_tf.detect.config import DetectConfig
from cpc_tf.training.config import UsualTraining

# As bccd/detect_128px, a few hundred images.
USUAL = UsualTraining(batch=8, epochs=20, least_steps=400)

# How large images and objects are shown to a detector follows from their sizes, unless it is set.
_USUAL_SIZES = (5, 95)  # percentiles of the sizes of objects
_STEP = 2.0  # largest factor between two sizes of anchors, that of the C4 recipe
_LEAST_ANCHOR = 4  # px; smaller objects are beyond the features
_FITS = 2.0  # factor between an object and the nearest anchor up to which the anchor fits
_MOST_UNFIT = 0.05  # of the objects
# Sides, in the test, of the middle and of the small objects on a canvas that follows from them, px:
# six and two cells of the usual stride. The larger demand counts, up to the paper's canvas.
_MIDDLE_OBJECT = 96
_SMALL_OBJECT = 32
_LARGEST_CANVAS = 800 * 800  # px
_CANVAS_STEP = 32  # px, a multiple of usual strides
_LEAST_STEPS = 4  # that a side has


class DetectionData(NamedTuple):
    """What a run learns from and is tested on."""

    source: DetectionSource
    test_source: DetectionSource
    objects: int  # in `source`, without difficult ones
    test_objects: int
    summary: str  # lines for the user


class Origin(NamedTuple):
    """Where a setting comes from that was derived."""

    name: str
    value: str
    source: str


def find_dataset(config: DetectConfig) -> tuple[DetectConfig, list[Origin]]:
    """Returns the settings with the --dataset that --boxes stands for, if it is given, and what
    that follows from.

    Raises:
      ConfigError: no such folder, or no annotations of one format in it.
    """
    if not config.boxes:
        return config, []
    kind, why = layout.format_of(config.boxes)
    dataset = f"{kind}:{config.boxes}"
    return replace(config, dataset=dataset), [Origin("dataset", dataset, why)]


def open_data(config: DetectConfig) -> DetectionData:
    """Opens --split and --test_split and gives them the same classes.

    Raises:
      ConfigError: a split does not exist or has no objects, or the test has a class that cannot be
        learned.
    """
    data = config.data
    splits = {"split": data.split, "test_split": config.scoring.test_split}
    sources = open_detection_sources(data, splits, config.negatives_without_xml)
    counts = [scoring.objects_of_classes(source) for source in sources]  # [2, classes] each
    for (flag, split), count in zip(splits.items(), counts):
        if not count[0].any():
            raise ConfigError(
                flag, split, f"has only objects marked as difficult, in --dataset={data.dataset}"
            )
    overlap = []
    if all(isinstance(source, BoxesFolder) for source in sources):
        overlap = in_both(*sources)
    sources, counts, lines = _with_the_same_classes(config, sources, counts)
    (easy, difficult), (test_easy, _) = counts
    # Difficult objects are learned from, but need not be found.
    class_names = sources[0].class_names
    counts_by_class = [
        dict(zip(class_names, (easy + difficult).tolist())),
        dict(zip(class_names, test_easy.tolist())),
    ]
    lines += overlap + classes.compare(*counts_by_class, *splits.values(), "objects")

    used = []
    for (flag, split), source, objects in zip(splits.items(), sources, counts_by_class):
        used.append(
            catalog.SplitSummary(flag, split, source.about, source.num_examples, objects, "objects")
        )
    summary = catalog.summarized(data, used, lines)
    return DetectionData(*sources, int(easy.sum()), int(test_easy.sum()), summary)


def _with_the_same_classes(
    config: DetectConfig, sources: Sequence[DetectionSource], counts: Sequence[np.ndarray]
) -> tuple[Sequence[DetectionSource], Sequence[np.ndarray], list[str]]:
    """Merges classes that the two splits spell differently; returns sources, counts, and lines
    about it.
    """
    old = sources[0].class_names
    splits = (config.data.split, config.scoring.test_split)
    spellings = {}
    for split, count in zip(splits, counts):
        spellings[split] = [name for name, n in zip(old, count.sum(0)) if n]
    try:
        class_names, number_of, lines = classes.match(spellings)
    except ValueError as error:
        raise ConfigError("dataset", config.data.dataset, str(error)) from error
    if not lines:
        return sources, counts, []
    new = (*class_names, *(name for name in old if name not in number_of))
    number_of = {**{name: number for number, name in enumerate(new)}, **number_of}
    numbers = np.array([number_of[name] for name in old])  # new ones by old ones
    merged = numbers[:, None] == np.arange(len(new))  # [old, new]

    def renumber(example: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        return {**example, "labels": tf.gather(tf.constant(numbers, tf.int64), example["labels"])}

    def renamed(source: DetectionSource) -> DetectionSource:
        other = copy.copy(source)
        other.class_names = new
        other.stream = lambda *args, **kwargs: source.stream(*args, **kwargs).map(renumber)
        other.ordered = lambda: source.ordered().map(renumber)
        other.objects = source.objects._replace(labels=numbers[source.objects.labels])
        return other

    return [*map(renamed, sources)], [count @ merged for count in counts], [*lines]


def fit_to_images(config: DetectConfig, sizes: Sizes) -> tuple[DetectConfig, str]:
    """Returns the settings with a canvas, --area_scale and --anchor_sizes that fit the images,
    where they are not set.

    Args:
      config: of the run.
      sizes: of the training images and their objects.

    Returns:
      The settings, and a line for the user on the sizes of objects as shown.
    """
    derived = not {"area_scale", "anchor_sizes"}.isdisjoint(open_settings(config))
    config = replace(config, **canvas_sides(config.canvas, sizes))
    if not config.canvas.area_scale:
        config = replace(config, area_scale=area_scale(config.canvas, sizes.images))
    objects = object_sizes(config.canvas, sizes)
    if not config.detector.anchors.anchor_sizes:
        config = replace(
            config, anchor_sizes=",".join(map(str, anchor_sizes(config.canvas, objects)))
        )
    return config, described(config, objects, derived)


def canvas_sides(canvas: CanvasConfig, sizes: Sizes) -> dict[str, int]:
    """Returns the sides of a canvas on which the objects are as large as they should be, as
    settings.

    With an --area_scale the canvas is for this scale. A side that is set stays.
    """
    relative = relative_sizes(sizes)
    rounded = np.ceil
    # px of the largest image as shown
    area = max(canvas.largest_area, canvas.test_area) * canvas.area_scale
    if not area:
        rounded = np.round
        wanted = max(
            _MIDDLE_OBJECT / np.median(relative),
            _SMALL_OBJECT / np.percentile(relative, _USUAL_SIZES[0]),
        )
        area = wanted**2 * max(canvas.largest_area / canvas.test_area, 1)
    # Of images of area 1. Upright and lying ones both fit, if there are many of both.
    shapes = np.percentile(sizes.images / np.sqrt(sizes.images.prod(1, keepdims=True)), 75, axis=0)
    factor = math.sqrt(min(area, _LARGEST_CANVAS / shapes.prod()))
    steps = np.maximum(rounded(shapes * factor / _CANVAS_STEP), _LEAST_STEPS).astype(int)
    height, width = (_CANVAS_STEP * steps).tolist()
    return {
        "canvas_height": canvas.canvas_height or height,
        "canvas_width": canvas.canvas_width or width,
    }


def relative_sizes(sizes: Sizes) -> np.ndarray:
    """Returns the square roots of the areas of all objects as parts of those of their images: [M],
    0 to 1.
    """
    return np.sqrt(sizes.boxes.prod(1) / sizes.images.prod(1)[sizes.owner])


def area_scale(canvas: CanvasConfig, images: np.ndarray) -> float:
    """Returns the largest scale at which half of the images, heights and widths [N, 2], fit on the
    canvas whole.
    """
    factor = (np.array([canvas.canvas_height, canvas.canvas_width]) / images).min(1)
    area = np.median(images.prod(1) * factor**2)
    scale = area / max(canvas.largest_area, canvas.test_area)
    digits = 2 - math.floor(math.log10(scale))
    return max(math.floor(scale * 10**digits) / 10**digits, 1e-4)


def object_sizes(canvas: CanvasConfig, sizes: Sizes) -> np.ndarray:
    """Returns the square roots of the areas of all objects as the test shows them, px."""
    area = canvas.test_area * canvas.area_scale
    factor = np.minimum(
        np.sqrt(area / sizes.images.prod(1)),
        (np.array([canvas.canvas_height, canvas.canvas_width]) / sizes.images).min(1),
    )
    return np.sqrt(sizes.boxes.prod(1)) * factor[sizes.owner]


def anchor_sizes(canvas: CanvasConfig, objects: np.ndarray) -> list[int]:
    """Returns sizes at most a factor of two apart, from the small to the large objects of training
    images, px.
    """
    low, high = np.percentile(objects, _USUAL_SIZES)
    low = max(low * math.sqrt(canvas.smallest_area / canvas.test_area), _LEAST_ANCHOR)
    high = max(high * math.sqrt(canvas.largest_area / canvas.test_area), low)
    count = 1 + math.ceil(math.log(high / low, _STEP))
    return sorted({round(side) for side in np.geomspace(low, high, count)})


def described(config: DetectConfig, objects: np.ndarray, derived: bool) -> str:
    """Returns a line on the sizes of objects as shown, and whether the anchors fit them.

    Args:
      config: its scale and anchors are those of the run.
      objects: what `object_sizes` returns.
      derived: whether they follow from the data.
    """
    sides = np.percentile(objects, [_USUAL_SIZES[0], 50, _USUAL_SIZES[1]])
    low, median, high = (f"{side:.0f}" for side in sides)
    scale = config.canvas.area_scale
    anchors = config.detector.anchors
    line = f"objects as shown: {low} to {high} px (nine of ten), median {median}"
    line += f", on a canvas of {config.canvas.canvas_height} x {config.canvas.canvas_width} px"
    line += f"; --area_scale={scale:g} --anchor_sizes={anchors.anchor_sizes}"
    if derived:
        return f"{line} follow from the sizes of images and objects"
    nearest = np.abs(np.log(objects[:, None] / np.array(anchors.numbers("anchor_sizes")))).min(1)
    unfit = np.mean(nearest > math.log(_FITS))
    if unfit > _MOST_UNFIT:
        line += (
            f"; {100 * unfit:.0f} % have no anchor of half to twice their size: an empty"
            " --anchor_sizes= fits them"
        )
    return line


def origins(
    given: DetectConfig, config: DetectConfig, data: DetectionData, sizes: Sizes
) -> list[Origin]:
    """Returns what a new run found or derived, and what from.

    Args:
      given: the settings before anything was derived.
      config: those of the run.
      data: what it learns from and is tested on.
      sizes: of the training images and their objects.
    """
    rows = [
        Origin(
            flag, source.about.split or asked, f"{source.num_examples} images, {objects} objects"
        )
        for flag, asked, source, objects in (
            ("split", config.data.split, data.source, data.objects),
            ("test_split", config.scoring.test_split, data.test_source, data.test_objects),
        )
    ]
    if drawn := [note for note in data.test_source.about.notes if "drawn" in note]:
        rows[1] = rows[1]._replace(source=f"{rows[1].source}; {drawn[0]}")
    shown = config.canvas.test_area * config.canvas.area_scale
    pictures = f"{data.source.num_examples} images"
    side = 100 * np.median(relative_sizes(sizes))
    sources = {
        **dict.fromkeys(
            ("canvas_height", "canvas_width"),
            f"shapes of the images; the middle object has {side:.0f} % of the side of its image",
        ),
        "area_scale": (
            f"so that an image is shown with about {shown:,.0f} px, height times width: the most"
            " with which half of the images fit on the canvas"
        ),
        "anchor_sizes": (
            "objects as shown, from the 5th to the 95th percentile, by factors of two at most"
        ),
        "batch_size": pictures,
        "train_epochs": (
            f"{pictures}: at least {USUAL.epochs} epochs and {USUAL.least_steps} steps"
        ),
    }
    values = flatten(config)
    for name in open_settings(given):
        value = values[name]
        if value and name in sources:
            text = f"{value:g}" if isinstance(value, float) else str(value)
            rows.append(Origin(name, text, sources[name]))
    return rows


def table(rows: Sequence[Origin]) -> str:
    """Returns settings, values and what they were derived from as the lines of a table."""
    cells = [("setting", "value", "from")]
    cells += [(f"--{name}", value, source) for name, value, source in rows]
    first = max(len(name) for name, _, _ in cells)
    second = max(len(value) for _, value, _ in cells)
    lines = [
        f"{name:{first}}  {value:{second}}  {escaped(source)}" for name, value, source in cells
    ]
    return "\n".join(lines)
