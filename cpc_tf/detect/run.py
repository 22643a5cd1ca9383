"""A detection run: fine-tunes Faster R-CNN on an encoder (Sec. 4.3) and scores it by the rules of PASCAL VOC."""

from __future__ import annotations

import copy
import json
import math
import os
from typing import Any

import numpy as np
import tensorflow as tf

from cpc_tf.augment.config import warn_of_colour
from cpc_tf.boxes.catalog import BoxesFolder, open_detection_sources
from cpc_tf.boxes.config import CanvasConfig
from cpc_tf.boxes.source import DetectionSource, Sizes
from cpc_tf.data import catalog, classes
from cpc_tf.data.pipeline import fetching
from cpc_tf.detect import pictures, scoring
from cpc_tf.detect.config import DetectConfig
from cpc_tf.detect.phases import Lengths, Parts, Phases, Tested, best_length, divided, lengths
from cpc_tf.detect.trainee import CATEGORY_IDS, CLASS_NAMES, build_detector
from cpc_tf.files import read_text, to_json
from cpc_tf.settings import ConfigError, open_settings, replace
from cpc_tf.training.config import UsualTraining
from cpc_tf.training.kept_data import keep_data
from cpc_tf.training.phases import FINE_TUNED, FROZEN
from cpc_tf.training.workdir import Workdir, open_run

# As bccd/detect_128px, a few hundred pictures.
USUAL = UsualTraining(batch=8, epochs=20, least_steps=400)

# How large pictures and objects are shown to a detector follows from their sizes, unless it is set.
_USUAL_SIZES = (5, 95)  # percentiles of the sizes of objects
_STEP = 2.0  # largest factor between two sizes of anchors, that of the C4 recipe
_LEAST_ANCHOR = 4  # px; smaller objects are beyond the features
_FITS = 2.0  # factor between an object and the nearest anchor up to which the anchor fits
_MOST_UNFIT = 0.05  # of the objects


def detect(config: DetectConfig) -> dict[str, Any]:
    """Trains, tests and prints the table; returns the result, which is also in result.json.

    A finished run is not tested again: its result and its table are read.

    Raises:
      ConfigError, loop.Stopped, loop.Diverged.
    """
    with open_run(config, "detect") as (workdir, strategy):
        data = open_pair(config)
        keep_data(workdir, strategy, {"split": data[0], "test_split": data[1]})
        result = workdir.result(lambda saved: "map11" in saved and tf.io.gfile.exists(workdir.file("table.txt")))
        if result is None:
            result = _run(workdir, strategy, *data)
        else:
            print(f"{workdir.path}: already finished", flush=True)
        table = read_text(workdir.file("table.txt")) if workdir.chief else ""
        print(f"\n{table}\nresults and pictures: {workdir.path}", flush=True)
    return result


def _run(
    workdir: Workdir,
    strategy: tf.distribute.Strategy,
    source: DetectionSource,
    test_source: DetectionSource,
    objects: int,
    test_objects: int,
    lines: str,
) -> dict[str, Any]:
    """Trains, tests and writes what a run leaves; returns the content of result.json."""
    workdir.config, line = fitted(workdir.config, source.sizes())
    print(f"{lines}\n  {line}", flush=True)
    config = workdir.usual(USUAL, source.num_examples, strategy)
    training, names = config.training, source.class_names
    length, held_out = lengths(config, source.num_examples), config.phases.held_out
    parts = divided(source, held_out, training.seed) if length.first and held_out else None
    phases = Phases(config, build_detector(config, len(names), strategy), strategy, LeftOut())
    encoder = phases.model.backbone
    warn_of_colour(encoder.text, encoder.learned.augment, encoder.learned.augment_changes)
    workdir.write(CLASS_NAMES, json.dumps(list(names)) + "\n")
    if source.category_ids:
        workdir.write(CATEGORY_IDS, to_json(dict(source.category_ids)))
    with fetching(source, test_source):
        tested, told = _train(phases, workdir, source, test_source, length, parts)
        if workdir.chief:
            _write_detections(workdir, config, tested.scenes, tested.scores, test_source)
    return workdir.finish(
        {
            "encoder": config.detector.backbone.encoder,
            "identity": encoder.identity.to_json(),
            "backbone": config.detector.backbone.backbone,
            "dataset": config.data.dataset,
            "split": config.data.split,
            "test_split": config.scoring.test_split,
            "num_classes": len(names),
            "class_names": list(names),
            "seed": training.seed,
            **tested.scores.result(names),
            "iou": config.scoring.detection_iou,
            "images": source.num_examples,
            "levels": source.intensity_range,
            "boxes": objects,
            "test_images": test_source.num_examples,
            "test_boxes": test_objects,
            **told,
            "wall_seconds": phases.seconds + tested.seconds,
        }
    )


def _train(
    phases: Phases,
    workdir: Workdir,
    source: DetectionSource,
    test_source: DetectionSource,
    length: Lengths,
    parts: Parts | None,
) -> tuple[Tested, dict[str, Any]]:
    """Trains on all images; returns the test of the last phase, and what the result says of the phases."""
    if not length.first:
        steps = phases.whole(workdir, source, length.second)
        return phases.test(test_source), {"steps": steps}
    workdir.begin(0)
    search, steps = [], length.second
    if parts:
        search = best_length(phases, parts, length)
        steps = next(record["steps"] for record in search if record["chosen"])
        held_out = f"{parts.held_out.num_examples} held-out images"
        print(f"{FINE_TUNED}: {steps} of {length.second} steps are best on {held_out}", flush=True)
    phases.first(source, length.first)
    tested = phases.test(test_source)
    results = {FROZEN: {**tested.scores.means, "steps": length.first}}
    if steps:
        phases.second(source, length, steps)
        tested = phases.test(test_source)
    results[FINE_TUNED] = {**tested.scores.means, "steps": steps}
    for phase, scores in results.items():
        count = test_source.num_examples
        print(f"{phase:12} mAP {100 * scores['map11']:.1f} % over 11 points ({count} pictures)", flush=True)
    of_all = {"steps": length.first + steps, "most_steps": length.first + length.second}
    return tested, {"phases": results, "search": search, **of_all}


class LeftOut:
    """Warns once if training ignores half an object of an image or more. Called with each record of a training."""

    def __init__(self):
        self.warned = False

    def __call__(self, step: int, record: dict[str, float]) -> str | None:
        if self.warned or record["left_out"] < 0.5:
            return None
        self.warned = True
        return (
            f"step {step}: {record['left_out']:.1f} objects of an image are not learned from, smaller than "
            "smallest_box or beyond --max_boxes; a larger --area_scale shows them larger"
        )


def _write_detections(workdir, config, scenes, scores, source):
    """Writes the detections as text and as figures."""
    names, split, iou = source.class_names, config.scoring.test_split, config.scoring.detection_iou
    for name, text in scoring.result_files(scenes, names, split).items():
        workdir.write(os.path.join("detections", name), text)
    workdir.write("detections.json", scoring.to_json(scenes, names, config.data.dataset, split))
    workdir.write("table.txt", scoring.table(scores, names, len(scenes)) + "\n")
    workdir.write("curves.png", pictures.draw_curves(scores, names))
    worst = pictures.worst(scenes, iou)
    images = pictures.images_at(source, worst)
    workdir.write("sheet.png", pictures.draw_sheet([scenes[index] for index in worst], images, names, iou))


def open_pair(config: DetectConfig) -> tuple[DetectionSource, DetectionSource, int, int, str]:
    """Opens --split and --test_split and gives them the same classes.

    Returns:
      Both sources, the number of objects in each without difficult ones, and lines for the user about them.

    Raises:
      ConfigError: a split does not exist or has no objects, or the test has a class that cannot be learned.
    """
    data = config.data
    splits = {"split": data.split, "test_split": config.scoring.test_split}
    sources = open_detection_sources(data, splits, config.negatives_without_xml)
    counts = [scoring.objects_of_classes(source) for source in sources]  # [2, classes] each
    for (flag, split), count in zip(splits.items(), counts):
        if not count[0].any():
            raise ConfigError(flag, split, f"no object there in --dataset={data.dataset} but difficult ones")
    both = _in_both(*sources)
    sources, counts, lines = _with_the_same_classes(config, sources, counts)
    (easy, difficult), (test_easy, _) = counts
    # Difficult objects are learned from, but need not be found.
    of_class = [dict(zip(sources[0].class_names, count.tolist())) for count in (easy + difficult, test_easy)]
    lines += both + classes.compare(*of_class, *splits.values(), "objects")
    used = [
        catalog.Used(flag, split, source.about, source.num_examples, objects, "objects")
        for (flag, split), source, objects in zip(splits.items(), sources, of_class)
    ]
    return *sources, int(easy.sum()), int(test_easy.sum()), catalog.summarized(data, used, lines)


def _in_both(source, test_source):
    """Returns a line on images of folders that are learned as well as tested."""
    if not (isinstance(source, BoxesFolder) and isinstance(test_source, BoxesFolder)):
        return []
    both = {*source.objects.names} & {*test_source.objects.names}
    return [f"{len(both)} test images are learned, too: the average precision on them says little"] if both else []


def _with_the_same_classes(config, sources, counts):
    """Merges classes that the two splits spell differently; returns sources, counts, and lines about it."""
    names = sources[0].class_names
    splits = (config.data.split, config.scoring.test_split)
    matched = classes.match(
        {split: [name for name, n in zip(names, count.sum(0)) if n] for split, count in zip(splits, counts)}
    )
    if matched.trouble:
        raise ConfigError("dataset", config.data.dataset, matched.trouble)
    if not matched.lines:
        return sources, counts, []
    new = (*matched.class_names, *(name for name in names if name not in matched.number_of))
    number_of = {**{name: number for number, name in enumerate(new)}, **matched.number_of}
    numbers = np.array([number_of[name] for name in names])  # new ones by old ones
    merged = numbers[:, None] == np.arange(len(new))  # [old, new]
    return (
        [_renamed(source, numbers, new) for source in sources],
        [count @ merged for count in counts],
        [*matched.lines],
    )


def _renamed(source, numbers, class_names):
    """Returns the source with other names and numbers of its classes; `numbers` are the new ones by the old ones."""

    def renumber(example):
        return {**example, "labels": tf.gather(tf.constant(numbers, tf.int64), example["labels"])}

    renamed = copy.copy(source)
    renamed.class_names = class_names
    renamed.stream = lambda *args, **kwargs: source.stream(*args, **kwargs).map(renumber)
    renamed.ordered = lambda: source.ordered().map(renumber)
    renamed.objects = source.objects._replace(labels=numbers[source.objects.labels])
    return renamed


def fitted(config: DetectConfig, sizes: Sizes) -> tuple[DetectConfig, str]:
    """Returns the settings with --area_scale and --anchor_sizes that fit the training images, where they are not set.

    Args:
      config: of the run.
      sizes: of the training images and their objects.

    Returns:
      The settings, and a line for the user on the sizes of objects as shown.
    """
    derived = not {"area_scale", "anchor_sizes"}.isdisjoint(open_settings(config))
    if not config.canvas.area_scale:
        config = replace(config, area_scale=area_scale(config.canvas, sizes.images))
    objects = object_sizes(config.canvas, sizes)
    if not config.detector.anchors.anchor_sizes:
        config = replace(config, anchor_sizes=",".join(map(str, anchor_sizes(config.canvas, objects))))
    return config, described(config, objects, derived)


def area_scale(canvas: CanvasConfig, images: np.ndarray) -> float:
    """Returns the largest scale at which half of the images, heights and widths [N, 2], fit on the canvas whole."""
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
    """Returns sizes at most a factor of two apart, from the small to the large objects of training images, px."""
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
    low, median, high = (f"{side:.0f}" for side in np.percentile(objects, [_USUAL_SIZES[0], 50, _USUAL_SIZES[1]]))
    scale, anchors = config.canvas.area_scale, config.detector.anchors
    line = f"objects as shown: {low} to {high} px (nine of ten), median {median}"
    line += f"; --area_scale={scale:g} --anchor_sizes={anchors.anchor_sizes}"
    if derived:
        return f"{line} follow from the sizes of pictures and objects"
    nearest = np.abs(np.log(objects[:, None] / np.array(anchors.numbers("anchor_sizes")))).min(1)
    unfit = np.mean(nearest > math.log(_FITS))
    if unfit > _MOST_UNFIT:
        line += f"; {100 * unfit:.0f} % have no anchor of half to twice their size: an empty --anchor_sizes= fits them"
    return line
