"""Summarizes images and their labels or boxes before anything trains, and writes them as a table.

    cpc-tf data --labelled=my_pictures --labels=labels.csv --output=understood.csv
    cpc-tf data --boxes=my_boxes --encoder=imagenette_128px

Of boxes it also prints how large the objects are, and how a detector would be shown them. With an
encoder it looks for images of one split that are nearly those of another: a test on such says too
much.

The table has a line for each image: file, split, label, group, the file that it is a copy of, its
size as shown, and its bytes. It can be given back as --labels.
"""

from __future__ import annotations

import collections
import dataclasses
from typing import TYPE_CHECKING

from cpc_tf.core.settings import ConfigError, Settings, replace, setting
from cpc_tf.data.config import LEFT_OUT, PicturesConfig
from cpc_tf.data.reference import DataRef

if TYPE_CHECKING:
    import numpy as np

    from cpc_tf.boxes.layout import Annotated
    from cpc_tf.data.decode import IntensityRange
    from cpc_tf.data.table import Table

# cosine of centred features from which images are nearly the same, as of `cpc-tf embed
# --duplicates`
_NEAR = 0.95
# images that are encoded, and whose features are in memory, at a time
_BATCH = 64
_BLOCK = 4096
_WIDTH = 256  # of the features that are kept: a gigabyte for a million images


@dataclasses.dataclass(frozen=True)
class DataSummaryConfig(Settings):
    """Images, and where the table goes."""

    output: str = setting("", "CSV file to write, with a line for each image; empty: none")
    boxes: str = setting(
        "",
        "Folder of images and their boxes, instead of --dataset: VOC's, COCO's, YOLO's or a table"
        " is found",
    )
    encoder: str = setting(
        "",
        "Module whose features find images of one split that are nearly the same as those of"
        " another; empty: they are not looked for",
        path=True,
    )
    data: PicturesConfig = PicturesConfig()


def summarize(config: DataSummaryConfig) -> None:
    """Prints counts of each class and split, sizes, broken files, the range of values, copies,
    groups, and objects.

    Raises:
      ConfigError: as a training on these images; no folder is named; the table cannot be written.
    """
    # TensorFlow, which settings do without.
    import numpy as np

    from cpc_tf.core.files import write_file
    from cpc_tf.core.texts import csv_lines, listed, one_line
    from cpc_tf.data import check, draws

    data = config.data
    # Find the images, and say what they are before files are read, which may end with a refusal.
    if config.boxes:
        from cpc_tf.boxes import layout

        kind, why = layout.format_of(config.boxes)
        data = replace(data, dataset=str(DataRef(kind, config.boxes)), labelled="", unlabelled="")
    table, texts, lines = _labelled(data) if data.ref.is_folder else _boxes(data)
    if config.boxes:
        lines.insert(0, f"format: {kind.upper()}, from {why}")

    def say(line: str) -> None:
        print(f"  {one_line(line)}", flush=True)

    print(one_line(table.flag))
    for line in lines:
        say(line)

    # Read them: broken files, sizes, the range of values.
    present = np.flatnonzero(table.paths != "").tolist()
    rows, intensity_range, sizes = check.usable(table, present, data.sixteen_bit)
    if broken := sorted({*present} - {*rows}):
        be = f"{len(broken)} of {len(present)} images are broken or huge and will be left out"
        say(f"{be}: {listed(table.names[broken].tolist())}")
    split_of: dict[int, list[str]] = {row: [] for row in present}
    for split, own in table.splits.items():
        for row in own.tolist():
            split_of.get(row, []).append(split)
    sizes_shown = np.where(sizes[:, 2:] >= 5, sizes[:, 1::-1], sizes[:, :2])  # turned as EXIF says
    if len(rows):
        quantiles = np.quantile(sizes_shown, [0, 0.5, 1], axis=0)
        least, middle, most = (f"{height:g} x {width:g}" for height, width in quantiles)
        say(f"height x width: from {least} to {most} px, median {middle} px")
    if intensity_range:
        low, high = intensity_range
        say(f"images of more than 8 bits: values of {low:g} to {high:g} become 0 to 255")

    # What belongs together: copies, groups, near copies.
    copies = draws.same_images(table, rows)
    if again := [row for row, first in copies.items() if row != first]:
        pairs = [f"{table.names[row]} ({table.names[copies[row]]})" for row in again[:3]]
        be = "images are copies of others" if len(again) > 1 else "image is a copy of another"
        say(f"{len(again)} {be}, e.g. {', '.join(pairs)}")
    for line in draws.other_labels(table, {row: texts[row] for row in rows if texts[row]}):
        say(line)
    if groups := collections.Counter(table.group_of(rows).values()):
        many = "s" * (len(groups) > 1)
        say(f"{sum(groups.values())} images are in {len(groups)} group{many} of --labels")
    if config.encoder:
        in_splits = [row for row in rows if split_of[row]]
        say(_near_copies(config.encoder, table, in_splits, split_of, intensity_range))

    # The table.
    if config.output:
        lines = [("file", "split", "label", "group", "copy_of", "height", "width", "bytes")]
        for row, (height, width) in zip(rows, sizes_shown.tolist()):
            first = copies.get(row, row)
            copy_of = table.names[first] if first != row else ""
            split = ";".join(split_of[row])
            size = int(table.stats[row, 0])
            cells = (table.names[row], split, texts[row], table.groups[row], copy_of)
            lines.append((*cells, height, width, size))
        write_file(config.output, csv_lines(lines))
        print(f"done: {config.output} ({len(rows)} images)")


def _labelled(data: PicturesConfig) -> tuple[Table, np.ndarray, list[str]]:
    """Returns images in folders, the label of each as --labels has it, and lines on their splits
    and classes.
    """
    from cpc_tf.data import classes, pool

    table = pool.table_of(data)
    found_classes = classes.find_classes(table, [*table.splits], data.ambiguous_folders)
    texts = _texts(table, data.ambiguous_folders)
    if table.labels is None:
        labels_of = [(text,) if text else () for text in texts]
    else:
        labels_of = [labels or () for labels in table.labels]
    lines = []
    for split, rows in table.splits.items():
        counts = collections.Counter(name for row in rows for name in labels_of[row])
        line = f"{split}: {len(rows)} images"
        if counts:
            line += f" of {classes.described(dict(sorted(counts.items())))}"
        if bare := sum(not texts[row] for row in rows):
            line += f"; {bare} without a label"
        lines.append(line)
    lines += [*table.notes, *found_classes.lines]
    if found_classes.trouble:
        lines.append(f"nothing to classify: {found_classes.trouble}")
    if found_classes.doubtful:
        lines.append(
            f"possibly not classes: {', '.join(found_classes.doubtful)}; see --ambiguous_folders"
        )
    if found_classes.names:
        lines += _uses(data)
    return table, texts, lines


def _texts(table: Table, ambiguous_folders: str) -> list[str]:
    """Returns the label of each image as --labels has it; '' of one without a label."""
    from cpc_tf.data import classes, names
    from cpc_tf.data.labels import NO_CLASS

    if table.labels is not None:
        return ["" if labels is None else ";".join(labels) or NO_CLASS for labels in table.labels]
    texts = classes.strata(
        table, [split for split in table.splits if not names.is_unlabelled(split)]
    )
    if ambiguous_folders == LEFT_OUT:
        return ["" if names.is_doubtful(text) else text for text in texts]
    return texts.tolist()


def _uses(data: PicturesConfig) -> list[str]:
    """Returns lines on what the commands that train a classifier will learn from and test on."""
    from cpc_tf.data import splits
    from cpc_tf.data.source import SplitError, named_by

    if data.unlabelled and not data.labelled:
        return []

    def counted(table: Table, split: str) -> tuple[int, str, int]:
        """Returns how many images of a split have a label, the split's name, and how many have
        none.
        """
        texts = _texts(table, data.ambiguous_folders)
        pieces = splits.select(table, split, data.split_seed)
        rows = [row for piece in pieces for row in piece.rows.tolist()]
        labelled = sum(bool(texts[row]) for row in rows)
        return labelled, "+".join(piece.text for piece in pieces), len(rows) - labelled

    # The same folder as the commands see it: classify needs no test.
    whole = splits.find(data)
    divided = splits.divided(whole, data)
    lines = []
    try:
        # classify.
        count, name, bare = counted(whole, data.split)
        more = f"; {bare} images without a label are for self-training" if bare else ""
        lines.append(
            f"cpc-tf classify: all {count} labels of {name}, tested by cross-validation{more}"
        )

        # linear and efficient.
        count, name, bare = counted(divided, data.split)
        with named_by("test_split"):
            tested, test, _ = counted(divided, "test")
        more = f"; {bare} images without a label are left out" if bare else ""
        lines.append(
            f"cpc-tf linear, efficient: {count} labels of {name}, tested on {tested} of"
            f" {test}{more}"
        )
    except SplitError as error:
        lines.append(f"cpc-tf linear, efficient: {error}")
    return lines


def _boxes(data: PicturesConfig) -> tuple[Table, list[str], list[str]]:
    """Returns images with boxes, the classes of each, and lines on their splits and objects."""
    from cpc_tf.boxes import catalog as boxes
    from cpc_tf.data import classes

    if not data.ref.has_boxes:
        raise ConfigError(
            f"{data.flag}: does not name your own images; name them by --labelled=FOLDER,"
            " --unlabelled=FOLDER or --dataset=folder:PATH, voc:PATH, coco:PATH, yolo:PATH or"
            " csv:PATH"
        )
    folder = boxes.read(data)
    table = boxes.table_of(data, folder, [data.split, "test"])
    objects = [[] if isinstance(each, str) else each.names for each in table.annotations]
    lines = []
    for split, rows in table.splits.items():
        counts = collections.Counter(name for row in rows for name in objects[row])
        absent = sum(isinstance(table.annotations[row], str) for row in rows)
        without = f"; {absent} without a readable annotation" if absent else ""
        described = classes.described(dict(sorted(counts.items())))
        lines.append(
            f"{split}: {len(rows)} images, {sum(counts.values())} boxes of {described}{without}"
        )
    return (
        table,
        [";".join(sorted({*each})) for each in objects],
        [*lines, *table.notes, _objects(data, folder)],
    )


def _objects(data: PicturesConfig, folder: Annotated) -> str:
    """Returns a line on the sizes of the objects to learn, in the images and as `cpc-tf detect`
    would show them.
    """
    import numpy as np

    from cpc_tf.boxes import catalog as boxes
    from cpc_tf.detect import inputs
    from cpc_tf.detect.config import DetectConfig

    try:
        asked = ["trainval", "test"]
        table = boxes.table_of(data, folder, asked)
        sizes = boxes.open_boxes(data, folder, table, "trainval", asked).sizes()
    except ConfigError as error:
        return f"a detector cannot learn from them: {error}"
    sides = np.sqrt(sizes.boxes.prod(1))
    least, middle, most = (f"{side:.0f}" for side in np.quantile(sides, [0, 0.5, 1]))
    _, shown = inputs.fit_to_images(DetectConfig(), sizes)
    return f"objects to learn: sides of {least} to {most} px, median {middle} px; {shown}"


def _near_copies(
    encoder: str,
    table: Table,
    rows: list[int],
    split_of: dict[int, list[str]],
    intensity_range: IntensityRange | None,
) -> str:
    """Returns a line on the images that are nearly those of another split, by their features."""
    import numpy as np

    from cpc_tf.data.table import is_test
    from cpc_tf.encoders import feature_cache
    from cpc_tf.encoders.features import Encoder
    from cpc_tf.evaluation.neighbours import normalized, repeats

    # each is compared with those before it
    rows = sorted(rows, key=lambda row: any(map(is_test, split_of[row])))
    kinds = list(dict.fromkeys(frozenset(split_of[row]) for row in rows))
    if len(kinds) < 2:
        return "there is only one split, so nothing is compared"
    files = table.names[rows].tolist()
    opened = Encoder(encoder)
    values_range = opened.intensity_range or intensity_range
    cached = feature_cache.encoded(opened, table.root, table.paths[rows], values_range, _BATCH)
    places = cached.sound
    if not places:
        return "none of the images can be read"
    kept = [
        _projected(cached.features[cached.rows[start : start + _BLOCK]])
        for start in range(0, len(places), _BLOCK)
    ]
    apart = np.array([[one.isdisjoint(other) for other in kinds] for one in kinds])
    kind_of = np.array([kinds.index(frozenset(split_of[rows[place]])) for place in places])
    pairs = repeats(normalized(np.concatenate(kept)), _NEAR, kind_of, apart)
    if not pairs:
        return (
            "no image is nearly the same as one of another split (cosine of their"
            f" features below {_NEAR:g})"
        )
    some = [f"{files[places[i]]} ({files[places[j]]}, {cosine:.2f})" for i, j, cosine in pairs[:3]]
    be = (
        "images are nearly the same as ones"
        if len(pairs) > 1
        else "image is nearly the same as one"
    )
    return (
        f"{len(pairs)} {be} of another split (cosine of their features at least {_NEAR:g}), e.g."
        f" {', '.join(some)}"
    )


def _projected(features: np.ndarray) -> np.ndarray:
    """Returns features [n, D] of at most _WIDTH dimensions, by a fixed random projection, which
    keeps angles nearly.
    """
    import numpy as np

    if features.shape[1] <= _WIDTH:
        return features
    return features @ np.random.default_rng(0).standard_normal(
        [features.shape[1], _WIDTH], np.float32
    )
