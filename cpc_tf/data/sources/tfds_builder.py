"""Finds, downloads and prepares TensorFlow Datasets, quietly."""

from __future__ import annotations

import contextlib
import difflib
import io
import os
import re

import tensorflow_datasets as tfds
from absl import logging
from tensorflow_datasets.core.utils import tqdm_utils

from cpc_tf import texts
from cpc_tf.files import remove_leftovers
from cpc_tf.progress import waiting_for
from cpc_tf.settings import ConfigError


def find(name: str, data_dir: str) -> tfds.core.DatasetBuilder:
    """Returns a builder, downloaded and prepared if needed.

    Args:
      name: as `tfds.builder` takes it, e.g. 'imagenet2012' or 'cifar10:3.0.2'.
      data_dir: where the prepared data are or will be; empty: the default of TFDS.

    Raises:
      ConfigError: no such dataset, or it cannot be prepared.
    """
    try:
        with quiet():
            builder = tfds.builder(name, data_dir=data_dir or None)
    except tfds.core.DatasetNotFoundError as error:
        known = tfds.list_builders(with_community_datasets=False)
        close = difflib.get_close_matches(name.split("/")[0].split(":")[0], known, n=3)
        hint = f"did you mean {' or '.join(close)}?" if close else "see tensorflow.org/datasets/catalog."
        own = "Your own images are --dataset=folder:PATH"
        raise ConfigError(f"--dataset={name}: no such dataset; {hint} {own}") from error
    except ValueError as error:
        raise ConfigError(f"--dataset={name}: {_one_line(name, error)}") from error
    return prepare(builder)


def prepare(builder: tfds.core.DatasetBuilder, progress: bool = True) -> tfds.core.DatasetBuilder:
    """Returns the builder of the prepared data; downloads and prepares them if needed, maybe beside other processes.

    Raises:
      ConfigError: the data can only be downloaded by hand, or not at all.
    """
    with quiet():  # later versions warn of what is not there yet
        if builder.is_prepared() and builder.info.splits:
            return builder
    # What a killed preparation left; one that is under way writes all the time.
    folder, version = os.path.split(builder.data_dir)
    remove_leftovers(folder, re.escape(version) + r"\.incomplete\w+")
    print(f"preparing dataset {builder.info.full_name} in {builder.data_dir}", flush=True)
    try:
        with waiting_for(f"preparing {builder.info.full_name}"), quiet(progress):
            builder.download_and_prepare()
    except Exception as error:
        # TFDS prepares aside and renames. A second process cannot rename onto the data of the first, and need not.
        with quiet():
            prepared = builder.is_prepared()
        if not prepared:
            why = _one_line(builder.name, error)
            raise ConfigError(f"--dataset={builder.name}: cannot be prepared: {why}") from error
    # Read back from the disk, since `builder` may describe what another process has prepared.
    with quiet():
        return tfds.builder_from_directory(builder.data_dir)


def _one_line(name, error):
    """Returns the first line of an error. A warning shows all lines, which may say what to download by hand."""
    text = str(error).strip()
    if texts.one_line(text) == text:
        return text or type(error).__name__
    lines = [texts.escaped(line.rstrip()) for line in text.split("\n")]
    logging.warning("--dataset=%s: TensorFlow Datasets says:\n%s", name, "\n".join(lines))
    return f"{lines[0]} (all of it is above)"


@contextlib.contextmanager
def quiet(progress: bool = False):
    """Mutes what TFDS logs and prints, and its progress bars unless `progress`."""
    verbosity, shown = logging.get_verbosity(), getattr(tqdm_utils, "_active", True)  # no function tells
    logging.set_verbosity(logging.ERROR)
    if not progress:
        tfds.disable_progress_bar()
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        if shown:  # not if the user has switched them off
            tfds.enable_progress_bar()
        logging.set_verbosity(verbosity)
