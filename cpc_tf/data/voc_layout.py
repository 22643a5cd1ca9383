"""The texts of a folder in VOC's layout: annotations, and the lists that are its splits."""

from __future__ import annotations

import concurrent.futures
import os
from collections.abc import Sequence

import tensorflow as tf

from cpc_tf.data import voc_xml, walk
from cpc_tf.files import reason
from cpc_tf.settings import ConfigError

_PARENT, _SETS = "ImageSets", "ImageSets/Main"
_THREADS = 16  # hide the round trips to a bucket


def annotations(folder: str) -> dict[str, voc_xml.Annotation | str]:
    """{name: its annotation, or why it cannot be read} of a folder of XML files."""

    def read(name):
        try:
            with tf.io.gfile.GFile(f"{folder}/{name}", "rb") as file:
                return voc_xml.parse(file.read())
        except ValueError as error:
            return f"broken annotation, {reason(error)}"
        except tf.errors.OpError as error:
            return f"unreadable annotation, {reason(error)}"

    files = walk.files(folder, (".xml",), deep=False)
    with concurrent.futures.ThreadPoolExecutor(_THREADS) as pool:
        return {stem(file): outcome for file, outcome in zip(files, pool.map(read, files))}


def splits(root: str, class_names: Sequence[str]) -> dict[str, str]:
    """{split: its list's path}, without the lists of one class. Raises ConfigError if there is something else."""
    parent, folder = f"{root}/{_PARENT}", f"{root}/{_SETS}"
    for path in (parent, folder):
        if not tf.io.gfile.isdir(path) and (os.path.lexists(path) or tf.io.gfile.exists(path)):
            raise ConfigError(f"{path}: is no folder; without it, all images are the split train")
    if not tf.io.gfile.isdir(parent):
        return {}
    here = walk.files(folder, (".txt",), deep=False) if tf.io.gfile.isdir(folder) else []
    lists = {stem(file) for file in here if file.endswith(".txt")}
    if not lists and (misplaced := walk.files(parent, (".txt",))):
        raise ConfigError(f"{parent}/{misplaced[0]}: lists of splits are {_SETS}/NAME.txt; without any, all is train")
    of_one_class = {f"{name}_{other}" for name in class_names for other in lists}
    return {name: f"{folder}/{name}.txt" for name in lists - of_one_class}


def read_list(path: str) -> list[str]:
    """The names in a list, each once. Raises ConfigError if it cannot be read."""
    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            lines = file.read().decode("utf-8-sig", "replace").splitlines()
    except tf.errors.OpError as error:
        raise ConfigError(f"{path}: cannot be read: {reason(error)}") from error
    return list(dict.fromkeys(line.strip() for line in lines if line.strip()))


def stem(file: str) -> str:
    """The name of a file without its extension."""
    return os.path.splitext(file)[0]
