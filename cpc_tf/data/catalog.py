"""From the value of --dataset to a source, and what the start of a run says of its data."""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cpc_tf.core.settings import ConfigError
from cpc_tf.core.texts import escaped, listed, one_line
from cpc_tf.data import classes, folder, names, pool
from cpc_tf.data.config import DataConfig, PicturesConfig
from cpc_tf.data.source import Source, SplitError, SplitInfo, named_by
from cpc_tf.data.splits import read as read_folder

MOST_LINES = 20  # of a summary
# Opens images with boxes without these; by name, since such are read beside the core.
_OPEN_IMAGES = "cpc_tf.boxes.catalog:open_images"


def open_source(data: DataConfig, split: str, split_flag: str = "split") -> Source:
    """Opens the images of a dataset, which is prepared if needed.

    Args:
      data: its `dataset` is 'photos', 'photos/N' (N crops in its split `unlabelled`),
        'folder:PATH', 'voc:PATH', 'coco:PATH', 'yolo:PATH' or 'csv:PATH' (their images without
        labels), or the name of a TFDS builder. Its `labelled` and `unlabelled` are folders instead;
        with `unlabelled` there are no labels.
      split: TFDS syntax such as 'train[:10%]'; of folders with boxes a list or folder.
      split_flag: the flag that `split` came from.

    Raises:
      ConfigError: naming --dataset or the split's flag, if they lead nowhere.
    """
    of_folders = isinstance(data, PicturesConfig)
    has_table = of_folders and data.labels
    if has_table and not data.labelled and (data.folders or not data.ref.is_folder):
        raise ConfigError(
            f"--labels={data.labels}: needs --labelled=FOLDER, the folder of these images"
        )
    with named_by(split_flag):
        if of_folders and data.folders:
            return pool.open_pool(data, split)
        if data.ref.is_folder:
            return folder.open_folder(data, split, read_folder(data))
        if data.ref.has_boxes:
            return pkgutil.resolve_name(_OPEN_IMAGES)(data, split)
        # tensorflow_datasets, which folders do without.
        from cpc_tf.data import datasets, photos

        if data.dataset.partition("/")[0] == "photos":
            builder = datasets.embedded(
                data, photos.Photos, photos.config, "unlabelled crops", "photos/20000"
            )
        else:
            builder = datasets.find(data.dataset, data.data_dir)
        source = datasets.TfdsSource(builder, split, data.shuffle_window, data.sixteen_bit)
        source.shared = data.share_records
        return source


def open_probe(data: PicturesConfig, probe_split: str) -> Source | None:
    """Opens the images with labels on which pre-training is looked at; None if --unlabelled is all
    there is.

    Args:
      data: the settings of the run.
      probe_split: the value of --probe_split; empty: what --split names of --labelled.

    Raises:
      ConfigError: the split leads nowhere, or folders of --labelled may be no classes.
    """
    flag = "probe_split" if probe_split else "split"
    if not data.labelled:
        return None if data.folders else open_source(data, probe_split or data.split, flag)
    with named_by(flag):
        labelled = "+".join(part for part in data.split.split("+") if not pool.is_unlabelled(part))
        source = folder.open_folder(
            data, probe_split or labelled or "train", read_folder(data), labelled=True
        )
    # Images that the probe leaves out are trained on.
    source.about = source.about._replace(notes=(), bare="")
    return source


def open_labelled(data: DataConfig, split: str, split_flag: str) -> Source:
    """Opens a split with labels. Raises ConfigError if it has none, or leads nowhere."""
    return _open_together(data, {split_flag: split})[0]


class Pair(NamedTuple):
    """The training and test examples of a classifier, lines for the user about all, and those to
    select settings on.
    """

    source: Source
    test_source: Source
    summary: str
    validation: Source | None = None


def open_pair(data: DataConfig, test_split: str, validation_split: str = "") -> Pair:
    """Opens the splits `data.split`, `test_split` and, if it is named, `validation_split` with the
    same class index.

    Raises:
      ConfigError: a split has no labels or leads nowhere, or the test has a class that cannot be
        learned.
    """
    flags = {"split": data.split, "test_split": test_split}
    flags |= {"validation_split": validation_split} if validation_split else {}
    sources = _open_together(data, flags)
    used = [
        summary_of(flag, split, source) for (flag, split), source in zip(flags.items(), sources)
    ]
    for part, source in zip(used, sources):
        bare = part.images - sum(part.counts.values())
        if part.counts and bare > 0 and not source.multi_label:
            reason = (
                f"{bare} of {part.images} images have no label; a classifier needs a split in which"
                " all have one"
            )
            raise SplitError(part.split, reason, part.flag)
    if all(part.counts for part in used):
        lines = classes.compare(
            *(part.counts for part in used[:2]), data.split, test_split, "images"
        )
        with named_by("validation_split"):
            for part in used[2:]:
                classes.compare(used[0].counts, part.counts, data.split, part.split, "images")
    else:
        lines = [
            "not checked whether both splits have the same classes, since all records would"
            " have to be read"
        ]
    if all(isinstance(source, folder.FolderSource) for source in sources):
        lines = [*folder.in_both(*sources[:2]), *lines]
    return Pair(*sources[:2], summarized(data, used, lines), *sources[2:])


def open_unlabelled(data: PicturesConfig, source: Source) -> Source:
    """Returns the images that a classifier may learn from without their labels: of --split and of
    --unlabelled.

    Args:
      data: the settings of the run.
      source: the images of --split.

    Raises:
      ConfigError: --unlabelled leads nowhere.
    """
    if not data.folders:
        return source
    with named_by("split"):
        unlabelled = pool.open_pool(data, data.split)
    # The classifier sees all images alike.
    unlabelled.intensity_range = source.intensity_range or unlabelled.intensity_range
    return unlabelled


def _open_together(data: DataConfig, splits: Mapping[str, str]) -> list[Source]:
    """Opens splits with labels, {flag: split}; of a folder, their classes are numbered together."""
    table = read_folder(data) if data.ref.is_folder else None
    sources = []
    together = splits.values() if len(splits) > 1 else ()
    for flag, split in splits.items():
        with named_by(flag):
            if table:
                source = folder.open_folder(data, split, table, labelled=True, together=together)
            else:
                source = open_source(data, split, flag)
            if not source.class_names:
                why = f" ({source.about.unlabelled})" if source.about.unlabelled else ""
                raise SplitError(
                    split,
                    f"no labels in it, in {data.flag}{why}; a classifier needs one subfolder per"
                    " class, or a table given by --labels",
                )
        sources.append(source)
    return sources


class SplitSummary(NamedTuple):
    """A split of a run.

    Attributes:
      flag: the flag that names it.
      split: the value of that flag.
      about: information on it and on the dataset.
      images: how many it has.
      counts: {class: how many}; empty if it has no labels.
      unit: what `counts` counts.
      classes: how many classes it has, if counting them takes too long.
    """

    flag: str
    split: str
    about: SplitInfo
    images: int
    counts: Mapping[str, int] = {}
    unit: str = "images"
    classes: int = 0


def summary_of(flag: str, split: str, source: Source) -> SplitSummary:
    """Returns what the summary says about a split that a flag named."""
    counts = source.class_counts() if source.class_names else None
    counted = {} if counts is None else dict(zip(source.class_names, counts.tolist()))
    return SplitSummary(
        flag, split, source.about, source.num_examples, counted, classes=len(source.class_names)
    )


def summarized(data: DataConfig, used: Sequence[SplitSummary], lines: Sequence[str] = ()) -> str:
    """Returns what the start of a run says of its data, a text of at most 20 lines.

    Args:
      data: the settings of the dataset.
      used: the splits of the run.
      lines: more to say, on all splits together.
    """
    flags = [data.flag]
    lines = [*lines]
    if isinstance(data, PicturesConfig):
        more = {"labels": data.labels, "unlabelled": data.unlabelled if data.labelled else ""}
        flags += [f"--{name}={value}" for name, value in more.items() if value]
        if data.origin != data.dataset != PicturesConfig().dataset:
            flag = data.flag.partition("=")[0]
            lines.append(f"not used: --dataset={data.dataset}, since {flag} is given")
    notes = []
    for part in used:
        notes += part.about.notes
    notes += [f"left out: {part.about.bare}" for part in used if part.about.bare]
    text = [*map(_described, used), *dict.fromkeys(notes), *lines, *_unused(used)]
    if len(text) > MOST_LINES - 1:
        text[MOST_LINES - 2 :] = [f"and {len(text) - MOST_LINES + 2} more lines"]
    return "\n".join([one_line(" ".join(flags)), *(f"  {one_line(line)}" for line in text)])


def _described(part):
    alias = ""
    if part.about.split not in ("", part.split):
        alias = f" (found as {escaped(part.about.split)})"
    start = f"--{part.flag}={part.split}{alias}: {part.images} images"
    if part.counts:
        objects = f", {sum(part.counts.values())} {part.unit}" if part.unit != "images" else ""
        return f"{start}{objects} of {classes.described(part.counts)}"
    if part.classes:
        return (
            f"{start} of {part.classes} classes, not counted since all records would have to be"
            " read"
        )
    reason = f": {part.about.unlabelled}" if part.about.unlabelled else ""
    return f"{start} without labels{reason}"


def _unused(used):
    """Returns lines on the splits of the dataset that the run does not use."""
    used_names = set()
    for part in used:
        name = part.about.split or part.split
        # The parts of train[:10%]+test, too.
        used_names |= {name, *re.split(r"(?:\[[^\]]*\])?\s*(?:\+\s*|$)", name)}
    unused = {}
    for part in used:
        for name, count in part.about.splits.items():
            if name not in used_names:
                unused[name] = count

    others = []
    lines = []
    for name, count in unused.items():
        if names.is_unlabelled(name):
            lines.append(
                f"not used: {count} images without labels; pre-training takes them by"
                f" --split={name}"
            )
        else:
            others.append(f"{name} ({count} images)")
    if others:
        word = "splits" if len(others) > 1 else "split"
        lines.insert(0, f"not used: the {word} {listed(others)}")
    return lines
