"""The one door: from the value of --dataset to a source."""

from __future__ import annotations

from cpc_tf.data import folder, photos, tfds_source
from cpc_tf.data.source import Source
from cpc_tf.settings import ConfigError


def open_source(
    dataset: str, data_dir: str = "", split: str = "train", window: int = 16384, *, split_flag: str = "split"
) -> Source:
    """Opens a dataset by its name, preparing it if needed.

    Args:
      dataset: 'photos', 'photos/N' (N crops in its split `unlabelled`), 'folder:PATH', or the name of a TFDS builder.
      data_dir: where TFDS keeps its data; empty: its own default.
      split: part of the dataset; TFDS syntax such as 'train[:10%]', except for folders.
      window: examples shuffled together; folders are always shuffled whole.
      split_flag: the flag that `split` came from.

    Raises:
      ConfigError: naming --dataset or the split's flag, if they lead nowhere.
    """
    try:
        return _open(dataset, data_dir, split, window)
    except ConfigError as error:
        raise ConfigError(str(error).replace("--split=", f"--{split_flag}=")) from error


def _open(dataset, data_dir, split, window):
    kind, _, rest = dataset.partition(":")
    if kind == "folder":
        return folder.open_folder(rest, split, data_dir)
    name, _, count = dataset.partition("/")
    if name == "photos":
        return _open_photos(dataset, count, data_dir, split, window)
    return tfds_source.open_builder(dataset, data_dir, split, window)


def _open_photos(dataset, count, data_dir, split, window):
    if count and not (count.isdecimal() and int(count)):
        raise ConfigError(
            f"--dataset={dataset}: after the slash stands the number of unlabelled crops, e.g. photos/20000"
        )
    config = photos.config(int(count or photos.UNLABELLED))
    with tfds_source.quiet():
        builder = photos.Photos(config=config, data_dir=data_dir or None)
    return tfds_source.TfdsSource(tfds_source.prepare(builder, progress=False), split, window)
