"""Which files of a folder with VOC's XML belong together, and the lists that are its splits."""

from __future__ import annotations

import concurrent.futures
import os
import unicodedata
from collections.abc import Collection, Iterable, Sequence

import tensorflow as tf
from absl import logging

from cpc_tf.data.sources import names, tree, voc_xml, walk
from cpc_tf.files import reason
from cpc_tf.settings import ConfigError
from cpc_tf.texts import listed, shown

KNOWN = (
    "known are JPEGImages and Annotations (or images and annotations), with or without lists ImageSets/Main/NAME.txt; "
    "images and VOC's XML files side by side; and both in folders train, valid and test"
)
# Folders whose names, in any capitals, say what kind of files is in them.
_IMAGES = ("jpegimages", "images", "image", "imgs", "img")
_ANNOTATIONS = ("annotations", "annotation", "labels", "xmls", "xml", "segmentationclass", "segmentationobject")
_PARENT, _SETS = "ImageSets", "ImageSets/Main"
_THREADS = 16  # hide the latency of a bucket


def key(name: str) -> str:
    """Returns what the names of an image and of its annotation have in common: 'train/a' of 'train/images/a.jpg'.

    That is the path without the extension and without folders that only say the kind of a file, in Unicode's composed
    form.
    """
    *folders, file = unicodedata.normalize("NFC", name).split("/")
    return "/".join([*(folder for folder in folders if not _kind([folder])), os.path.splitext(file)[0]])


def images(root: str) -> dict[str, str]:
    """Returns {key: image}, relative to the root; see `key`.

    If a folder at the top is called JPEGImages, images or the like, only images in it count; a warning counts the
    others. Images in folders of annotations are masks and do not count.
    """
    found = tree.images(root)
    found = [name for name in found if _kind(name.split("/")[:-1]) != _ANNOTATIONS] or found
    at_top = [name for name in found if _kind(name.split("/")[:-1][:1]) == _IMAGES]
    if at_top and (others := sorted({*found} - {*at_top})):
        message = "%s: %d images are left out, since they are not in %s: %s"
        logging.warning(message, root, len(others), at_top[0].partition("/")[0], listed(others))
    return _by_key(root, at_top or found, "images")


def annotations(root: str) -> dict[str, voc_xml.Annotation | str]:
    """Returns {key: annotation, or why it cannot be read} of the XML files below a folder; see `key`."""

    def read(name):
        try:
            with tf.io.gfile.GFile(f"{root}/{name}", "rb") as file:
                return voc_xml.parse(file.read())
        except ValueError as error:
            return f"broken annotation, {reason(error)}"
        except tf.errors.OpError as error:
            return f"unreadable annotation, {reason(error)}"

    files = _by_key(root, walk.files(root, (".xml",)), "annotations")
    with concurrent.futures.ThreadPoolExecutor(_THREADS) as pool:
        return dict(zip(files, pool.map(read, files.values())))


def lists(root: str, class_names: Sequence[str], files: Iterable[str] = ()) -> dict[str, str]:
    """Returns {split: its list's path}, without the lists of one class; empty if there are no lists.

    Lists are ImageSets/Main/NAME.txt, or else, at the top of the folder, trainval.txt and usual names of splits.

    Args:
      root: the folder.
      class_names: of the objects.
      files: its images, relative to it.

    Raises:
      ConfigError: there is something else in their place, or lists in another place.
    """
    parent, folder = f"{root}/{_PARENT}", f"{root}/{_SETS}"
    for path in (parent, folder):
        if not tf.io.gfile.isdir(path) and (os.path.lexists(path) or tf.io.gfile.exists(path)):
            raise ConfigError(f"{path}: is no folder; without it, folders are the splits, or all images are train")
    found = _lists_in(folder) if tf.io.gfile.isdir(folder) else {}
    if found:
        of_one_class = {f"{name}_{other}" for name in class_names for other in found}
        return {name: path for name, path in found.items() if name not in of_one_class}
    if tf.io.gfile.isdir(parent) and (misplaced := walk.files(parent, (".txt",))):
        raise ConfigError(f"{parent}/{misplaced[0]}: lists of splits are {_SETS}/NAME.txt; move it there")
    tops = {parts[0] for parts in (file.split("/")[:-1] for file in files) if _kind(parts[1:2])}
    for top in sorted(tops):
        if tf.io.gfile.isdir(f"{root}/{top}/{_PARENT}"):
            raise ConfigError(f"{root}/{top}/{_PARENT}: lists are read at the top of PATH; --dataset=voc:{root}/{top}")
    at_top = _lists_in(root).items()
    return {name: path for name, path in at_top if name.lower() == "trainval" or names.meaning(name)}


def read_list(path: str, keys: Collection[str]) -> list[str]:
    """Returns the keys of the images that a list names, each once; a line that names none of `keys` stays as it is.

    A line is a name, with or without a path and an extension. What follows it is not read; a warning says so.

    Raises:
      ConfigError: it cannot be read.
    """
    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            lines = file.read().decode("utf-8-sig", "replace").splitlines()
    except tf.errors.OpError as error:
        raise ConfigError(f"{path}: cannot be read: {reason(error)}") from error
    depth = max((name.count("/") for name in keys), default=0)
    found, followed = [], []
    for line in filter(None, map(str.strip, lines)):
        # Names may have blanks, and something may follow them: the longest beginning that is a name counts.
        beginnings = (line, line.rsplit(None, 1)[0], line.split(None, 1)[0])
        name, named = next(((b, k) for b in beginnings if (k := _find(b, keys, depth)) is not None), (line, line))
        found.append(named)
        rest = line[len(name) :].strip()
        if rest and _find(rest, keys, depth) != named:  # some lists name the annotation behind the image
            followed.append(line)
    if followed:
        message = "%s: only the names of images are read, not what follows them in %d of %d lines, e.g. %s"
        logging.warning(message, path, len(followed), len(found), shown(followed[0]))
    return list(dict.fromkeys(found))


def _lists_in(folder):
    return {os.path.splitext(file)[0]: f"{folder}/{file}" for file in walk.files(folder, (".txt",), deep=False)}


def _find(name, keys, depth):
    """Returns the key that a name in a list means: itself, or the end of it as a path. None if there is none.

    Args: the name, the keys, and how many folders those have at most.
    """
    name = unicodedata.normalize("NFC", name)
    if name in keys:
        return name
    *folders, file = name.replace("\\", "/").split("/")
    folders = [folder for folder in folders if folder not in ("", ".") and not _kind([folder])]
    stem, extension = os.path.splitext(file)
    stems = (file, stem) if extension.lower() in (*tree.EXTENSIONS, ".xml") else (file,)
    ends = [folders[start:] for start in range(max(0, len(folders) - depth), len(folders) + 1)]
    paths = ("/".join([*end, stem]) for end in ends for stem in stems)
    return next((path for path in paths if path in keys), None)


def _kind(folders):
    """Returns the kind of files that the innermost folder with such a name is for: _IMAGES, _ANNOTATIONS or None."""
    lower = map(str.lower, reversed(folders))
    return next((kind for name in lower for kind in (_IMAGES, _ANNOTATIONS) if name in kind), None)


def _by_key(root, names, what):
    """Returns {key: name}; of several names of one key the first, .jpg before .png."""
    found = {}
    again = [name for name in names if found.setdefault(key(name), name) != name]
    if again:
        message = "%s: %d %s are left out, since others have their names but for the ending or such folders: %s"
        logging.warning(message, root, len(again), what, listed(again))
    return found
