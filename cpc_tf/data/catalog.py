"""From the value of --dataset to a source: all datasets are opened here."""

from __future__ import annotations

import contextlib

from cpc_tf.data import collages, folder, photos, tfds_source, voc_folder, voc_tfds
from cpc_tf.data.config import DataConfig
from cpc_tf.data.source import DetectionSource, Source, SplitError
from cpc_tf.settings import ConfigError


def open_source(
    dataset: str,
    data_dir: str = "",
    split: str = "train",
    window: int = 16384,
    *,
    split_flag: str = "split",
    max_megapixels: float = DataConfig.max_megapixels,
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

    Raises:
      ConfigError: naming --dataset or the split's flag, if they lead nowhere.
    """
    kind, colon, rest = dataset.partition(":")
    name, _, count = dataset.partition("/")
    with _naming(split_flag):
        if kind == "folder":
            return folder.open_folder(rest, split, data_dir, max_megapixels)
        if kind == "voc" and colon:
            return voc_folder.open_voc_images(rest, split, data_dir, max_megapixels)
        if name == "photos":
            config = photos.config(_number(dataset, count, "unlabelled crops", "photos/20000") or photos.UNLABELLED)
            builder = _embedded(photos.Photos, config, data_dir)
        else:
            builder = tfds_source.find(dataset, data_dir)
        return tfds_source.TfdsSource(builder, split, window)


def open_detection_source(
    dataset: str,
    data_dir: str = "",
    split: str = "train",
    window: int = 16384,
    *,
    split_flag: str = "split",
    max_megapixels: float = DataConfig.max_megapixels,
    negatives_without_xml: bool = False,
) -> DetectionSource:
    """Opens a dataset with boxes by its name, preparing it if needed.

    Args:
      dataset: 'collages', 'collages/N' (N images in its split `train`), TFDS' 'voc/2007' or 'voc/2012', or 'voc:PATH'.
      data_dir, window, split_flag, max_megapixels: as of `open_source`.
      split: part of the dataset; TFDS syntax such as 'train+validation'; of 'voc:PATH' the name of a list or a folder.
      negatives_without_xml: take images of 'voc:PATH' without an annotation for images without objects.

    Raises:
      ConfigError: naming --dataset or the split's flag, if they lead nowhere.
    """
    kind, colon, rest = dataset.partition(":")
    name, _, count = dataset.partition("/")
    with _naming(split_flag):
        if kind == "voc" and colon:
            return voc_folder.open_voc_folder(rest, split, data_dir, max_megapixels, negatives_without_xml)
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
    source = open_source(
        data.dataset,
        data.data_dir,
        split,
        data.shuffle_window,
        split_flag=split_flag,
        max_megapixels=data.max_megapixels,
    )
    if not source.class_names:
        reason = f"no labels there in --dataset={data.dataset}; a classifier needs them, in a folder of pictures one "
        raise SplitError(split, f"{reason}subfolder per class", split_flag)
    return source


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
