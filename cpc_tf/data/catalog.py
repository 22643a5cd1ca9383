"""From the value of --dataset to a source: all datasets are opened here."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import NamedTuple

from cpc_tf.data.config import DataConfig
from cpc_tf.data.sources import (
    classes,
    collages,
    folder,
    folder_tree,
    photos,
    summary,
    tfds_source,
    voc_folder,
    voc_tfds,
)
from cpc_tf.data.sources.source import DetectionSource, Source, SplitError
from cpc_tf.settings import ConfigError


def open_source(
    dataset: str,
    data_dir: str = "",
    split: str = "train",
    window: int = 16384,
    *,
    split_flag: str = "split",
    max_megapixels: float = DataConfig.max_megapixels,
    top_folders: str = DataConfig.top_folders,
    sixteen_bit: str = DataConfig.sixteen_bit,
) -> Source:
    """Opens a dataset by its name, preparing it if needed.

    Args:
      dataset: 'photos', 'photos/N' (N crops in its split `unlabelled`), 'folder:PATH', 'voc:PATH' (its images without
        labels), or the name of a TFDS builder.
      data_dir: where TFDS keeps its data; empty: its own default.
      split: part of the dataset; TFDS syntax such as 'train[:10%]', except for folders; of 'voc:PATH' a list or folder.
      window: examples shuffled together; folders are always shuffled whole.
      split_flag: the flag that `split` came from.
      max_megapixels: of images in folders; what is prepared by TFDS is taken as it is.
      top_folders: what the folders at the top of 'folder:PATH' and 'voc:PATH' are, as of `folder_tree.read`.
      sixteen_bit: how pictures of more than 8 bits are decoded: 'range' or 'full', see `levels`.

    Raises:
      ConfigError: naming --dataset or the split's flag, if they lead nowhere.
    """
    kind, colon, rest = dataset.partition(":")
    name, _, count = dataset.partition("/")
    with _naming(split_flag):
        if kind == "folder":
            return folder.open_folder(rest, split, data_dir, max_megapixels, sixteen_bit, top_folders=top_folders)
        if kind == "voc" and colon:
            return voc_folder.open_voc_images(rest, split, data_dir, max_megapixels, sixteen_bit, top_folders)
        if name == "photos":
            config = photos.config(_number(dataset, count, "unlabelled crops", "photos/20000") or photos.UNLABELLED)
            builder = _embedded(photos.Photos, config, data_dir)
        else:
            builder = tfds_source.find(dataset, data_dir)
        return tfds_source.TfdsSource(builder, split, window, sixteen_bit)


def source_of(data: DataConfig, split: str, split_flag: str = "split") -> Source:
    """Opens a split of a run's dataset as all its settings say; see `open_source`."""
    return open_source(
        data.dataset,
        data.data_dir,
        split,
        data.shuffle_window,
        split_flag=split_flag,
        max_megapixels=data.max_megapixels,
        top_folders=data.top_folders,
        sixteen_bit=data.sixteen_bit,
    )


def open_detection_source(
    dataset: str,
    data_dir: str = "",
    split: str = "train",
    window: int = 16384,
    *,
    split_flag: str = "split",
    max_megapixels: float = DataConfig.max_megapixels,
    sixteen_bit: str = DataConfig.sixteen_bit,
    top_folders: str = DataConfig.top_folders,
    negatives_without_xml: bool = False,
) -> DetectionSource:
    """Opens a dataset with boxes by its name, preparing it if needed.

    Args:
      dataset: 'collages', 'collages/N' (N images in its split `train`), TFDS' 'voc/2007' or 'voc/2012', or 'voc:PATH'.
      data_dir, window, split_flag, max_megapixels, sixteen_bit, top_folders: as of `open_source`.
      split: part of the dataset; TFDS syntax such as 'train+validation'; of 'voc:PATH' the name of a list or a folder.
      negatives_without_xml: take images of 'voc:PATH' without an annotation for images without objects.

    Raises:
      ConfigError: naming --dataset or the split's flag, if they lead nowhere.
    """
    kind, colon, rest = dataset.partition(":")
    name, _, count = dataset.partition("/")
    with _naming(split_flag):
        if kind == "voc" and colon:
            rules = data_dir, max_megapixels, sixteen_bit, top_folders
            return voc_folder.open_voc_folder(rest, split, *rules, negatives_without_xml)
        if name == "collages":
            config = collages.config(_number(dataset, count, "images to train on", "collages/1000") or collages.TRAIN)
            builder = _embedded(collages.Collages, config, data_dir)
        elif name == "voc":
            builder = tfds_source.find(dataset, data_dir)
        else:
            raise ConfigError(
                f"--dataset={dataset}: has no boxes that are known here; try collages, voc/2007 or voc:PATH"
            )
        return voc_tfds.VocRecords(builder, split, window)


def open_labelled(data: DataConfig, split: str, split_flag: str) -> Source:
    """A split of `data`'s dataset with labels. Raises ConfigError if it has none, or leads nowhere."""
    return _open_together(data, {split_flag: split})[0]


class Pair(NamedTuple):
    """What a classifier learns from and is tested on, and lines for the user about both."""

    source: Source
    test_source: Source
    summary: str


def open_pair(data: DataConfig, test_split: str) -> Pair:
    """The splits `data.split` and `test_split` with labels, numbered alike.

    Raises:
      ConfigError: a split has no labels or leads nowhere, or the test has a class that cannot be learned.
    """
    flags = {"split": data.split, "test_split": test_split}
    sources = _open_together(data, flags)
    used = [used_of(flag, split, source) for (flag, split), source in zip(flags.items(), sources)]
    if all(part.counts for part in used):
        lines = classes.compare(*(part.counts for part in used), *flags.values(), "pictures")
    else:
        lines = ["whether both splits have the same classes is not known: all records would have to be read"]
    return Pair(*sources, summary.summary(data.dataset, used, lines))


def used_of(flag: str, split: str, source: Source) -> summary.Used:
    """What the summary says of a split that a flag named."""
    counts = source.class_counts() if source.class_names else None
    counted = {} if counts is None else dict(zip(source.class_names, counts.tolist()))
    return summary.Used(flag, split, source.about, source.num_examples, counted, classes=len(source.class_names))


def _open_together(data: DataConfig, splits: Mapping[str, str]) -> list[Source]:
    """Splits with labels, {flag: split}; of a folder, their classes together are numbered."""
    kind, _, path = data.dataset.partition(":")
    tree = folder_tree.read(path, data.top_folders) if kind == "folder" else None
    sources, chosen = [], splits.values() if len(splits) > 1 else ()
    for flag, split in splits.items():
        with _naming(flag):
            if tree:
                rules = data.data_dir, data.max_megapixels, data.sixteen_bit
                source = folder.open_split(tree, split, *rules, labelled=True, together=chosen)
            else:
                source = source_of(data, split, flag)
            if not source.class_names:
                why = f" ({source.about.unlabelled})" if source.about.unlabelled else ""
                reason = f"no labels there in --dataset={data.dataset}{why}; a classifier needs them, in a folder of "
                raise SplitError(split, f"{reason}pictures one subfolder per class")
        sources.append(source)
    return sources


@contextlib.contextmanager
def _naming(split_flag):
    """Names the flag that the split came from if it cannot be opened."""
    try:
        yield
    except SplitError as error:
        raise SplitError(error.split, error.reason, split_flag) from error


def _number(dataset, count, what, example):
    """The number after the slash, 0 if there is none."""
    if count and not (count.isdecimal() and int(count)):
        raise ConfigError(f"--dataset={dataset}: after the slash stands the number of {what}, e.g. {example}")
    return int(count or 0)


def _embedded(builder, config, data_dir):
    """A prepared builder of ours."""
    with tfds_source.quiet():
        made = builder(config=config, data_dir=data_dir or None)
    return tfds_source.prepare(made, progress=False)
