"""What readers of boxes return, which files of a folder belong together, and lists of images that
are its splits.
"""

from __future__ import annotations

import collections
import os
import unicodedata
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, TypeVar

import numpy as np
import tensorflow as tf
from absl import logging

from cpc_tf.core.files import reason
from cpc_tf.core.settings import ConfigError
from cpc_tf.core.texts import listed, shown
from cpc_tf.data import names, table, walk
from cpc_tf.data.config import DataConfig
from cpc_tf.data.reference import DataRef

Content = TypeVar("Content")
# Folders whose names, in any capitals, say what kind of files is in them.
IMAGES = ("jpegimages", "images", "image", "imgs", "img")
ANNOTATIONS = (
    *(
        "annotations",
        "annotation",
        "annots",
        "annot",
        "anns",
        "ann",
        "labels",
        "label",
        "bboxes",
        "bbox",
    ),
    *("xmls", "xml", "segmentationclass", "segmentationobject"),
)
# Kind in --dataset=KIND:PATH -> extension of its annotations, and what they are.
_FILES = {
    "voc": (".xml", "XML"),
    "coco": (".json", "JSON"),
    "yolo": (".txt", "text"),
    "csv": (".csv", "CSV"),
}
CORNERS = ("xmin", "ymin", "xmax", "ymax")  # columns of a table of boxes
_DELIMITERS = ",;\t"
_LONGEST_HEADER = 10_000
TRAINVAL = "trainval"  # VOC's name of train and val together
NAN = float("nan")
UNKNOWN_SIZE = (NAN, NAN)


class Annotation(NamedTuple):
    """The unchecked objects of an image: an entry per object, in the file's order.

    A box is (ymin, xmin, ymax, xmax) as its `Format` counts; NaN where there is no number.
    """

    names: list[str]  # of the classes, '' if there is none
    boxes: list[list[float]]
    difficult: list[bool]
    size: tuple[float, float]  # (height, width) of the image, NaN or 0 if unknown
    filename: str = ""  # of the image, which need not be true


NO_OBJECTS = Annotation([], [], [], UNKNOWN_SIZE)


class Format(NamedTuple):
    """A format of annotations."""

    name: str
    known: str  # the layouts that are read, for messages
    annotated: str  # what makes an image annotated, for messages: 'none of its 4 images ...'
    incomplete: str  # what boxes lack whose numbers are NaN
    mistaken: str  # what the numbers are, for those who wrote others
    in_pixels: bool  # whether boxes are in pixels, else in parts of the image
    negatives: (
        bool  # whether an image without an annotation has no objects; else that must be asked for
    )
    # Boxes float64 [n, 4] as in the files and (height, width) of the image of each, int32 [n, 2] ->
    # boxes as in `boxes.geometry` and whether each is sound.
    place: Callable[[np.ndarray, np.ndarray], tuple[tf.Tensor, tf.Tensor]]


class Annotated(NamedTuple):
    """A folder of images with boxes. Its images and annotations have the same keys, see `key`."""

    format: Format
    root: str
    images: dict[str, str]  # {key: file}
    annotations: dict[str, Annotation | str]  # {key: annotation or why it cannot be read}
    class_names: tuple[str, ...]
    lists: dict[str, str]  # {split: path of its list}
    parts: dict[str, list[str]]  # {split: keys}, if there are no lists
    category_ids: Mapping[str, int] = MappingProxyType({})  # {class: its id}, if the format has ids


def key(name: str) -> str:
    """Returns what the names of an image and of its annotation have in common: 'train/a' of
    'train/images/a.jpg'.

    That is the path without the extension and without folders that only say the kind of a file, in
    Unicode's composed form.
    """
    *folders, file = unicodedata.normalize("NFC", name).split("/")
    return "/".join(
        [*(folder for folder in folders if not kind([folder])), os.path.splitext(file)[0]]
    )


def images(root: str) -> dict[str, str]:
    """Returns {key: image}, relative to the root; see `key`.

    If a folder at the top is called JPEGImages, images or the like, only images in it count; a
    warning counts the others. Images in folders of annotations are masks and do not count.
    """
    paths = walk.images(root)
    paths = [name for name in paths if kind(name.split("/")[:-1]) != ANNOTATIONS] or paths
    at_top = [name for name in paths if kind(name.split("/")[:-1][:1]) == IMAGES]
    if at_top and (others := sorted({*paths} - {*at_top})):
        message = "%s: %d images are left out, since they are not in %s: %s"
        logging.warning(message, root, len(others), at_top[0].partition("/")[0], listed(others))
    return _by_key(root, at_top or paths, "images")


def parsed(
    root: str, files: Sequence[str], parse: Callable[[bytes], Content]
) -> dict[str, Content | str]:
    """Returns {key: content, or why it cannot be read} of annotations below a folder; see `key`.

    Args:
      root: the folder.
      files: relative to it.
      parse: the bytes of a file -> its content; raises ValueError.
    """

    def read(name):
        try:
            with tf.io.gfile.GFile(f"{root}/{name}", "rb") as file:
                return parse(file.read())
        except ValueError as error:
            return f"broken annotation, {reason(error)}"
        except tf.errors.OpError as error:
            return f"unreadable annotation, {reason(error)}"

    of_key = _by_key(root, files, "annotations")
    return dict(zip(of_key, walk.in_threads(read, [*of_key.values()])))


def paired(images: Mapping[str, str], annotations: Mapping[str, Content]) -> dict[str, Content]:
    """Returns annotations by the keys of their images, where folders of unknown names keep the two
    apart.

    If none has the key of an image, those pair whose paths are the same but for the innermost
    folder: pics/a.jpg and boxes_by_me/a.xml. Several of one path pair with none.
    """
    if images.keys() & annotations.keys():
        return dict(annotations)
    image_of = _by_outer_path(images)
    partner = {
        keys[0]: image_of[path][0]
        for path, keys in _by_outer_path(annotations).items()
        if len(keys) == len(image_of.get(path, ())) == 1
    }
    return {partner.get(key, key): annotation for key, annotation in annotations.items()}


def _by_outer_path(keys):
    """Returns {path without its innermost folder: keys}."""
    keys_of = collections.defaultdict(list)
    for key in keys:
        *folders, file = key.split("/")
        keys_of["/".join([*folders[:-1], file])].append(key)
    return keys_of


def other_format(data: DataConfig, root: str) -> str:
    """Returns a hint at the format that the files of a folder are in, '' if they hint at none."""
    image_keys = dict.fromkeys(map(key, walk.images(root)), "")
    for other, (_, title) in _FILES.items():
        files = _annotation_files(other, root, image_keys) if other != data.ref.kind else []
        if files:
            described = f"its {len(files)} {title} files may be {other.upper()}'s"
            return f"{described}: --dataset={DataRef(other, data.ref.path)}"
    return ""


def format_of(path: str) -> tuple[str, str]:
    """Returns the kind of the annotations in a folder, 'voc', 'coco' or 'yolo', and what tells it,
    for the user.

    Raises:
      ConfigError: naming --boxes: no such folder, no annotations in it, or those of two formats.
    """
    flag = f"--boxes={path}"
    root = walk.folder_at(path, flag)
    image_keys = dict.fromkeys(map(key, walk.images(root)), "")
    formats = {}
    for kind_, (_, title) in _FILES.items():
        files = _annotation_files(kind_, root, image_keys)
        if files:
            named = {"coco": "", "csv": " with columns of boxes"}.get(
                kind_, " with the names of images"
            )
            formats[kind_] = f"{len(files)} {title} file{'s' * (len(files) > 1)}{named}"
    # Other files may lie beside a JSON file of the same boxes.
    if len(formats) > 1:
        formats.pop("coco", None)
    if len(formats) == 1:
        return next(iter(formats.items()))
    if not formats:
        problem = (
            f"none of its {len(image_keys)} images has an XML or text file of its name, and no JSON"
            " or table of "
        )
        problem += "boxes is there"
        raise ConfigError(
            f"{flag}: {problem}; docs/inputs.md shows the layouts of VOC, COCO, YOLO and CSV"
        )
    which = " or ".join(f"--dataset={DataRef(kind_, path)}" for kind_ in formats)
    raise ConfigError(
        f"{flag}: has {' and '.join(formats.values())}; choose one with"
        f" --preset=boxes/detect {which}"
    )


def _annotation_files(kind: str, root: str, image_keys: Mapping[str, str]) -> list[str]:
    """Returns the files below a folder that may be annotations of a kind; `image_keys`: of its
    images, {key: ''}.
    """
    files = walk.files(root, (_FILES[kind][0],))
    if kind == "csv":
        return [name for name in files if delimiter_of(f"{root}/{name}")]
    if kind == "coco":  # whose files have no names of images
        return files
    of_key = {key(name): name for name in files}
    of_key = paired(image_keys, of_key) if kind == "voc" else of_key
    return [name for each, name in of_key.items() if each in image_keys]


def delimiter_of(path: str) -> str:
    """Returns what separates the cells of a table of boxes, by its header; '' if the file is
    none.
    """
    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            beginning = file.read(_LONGEST_HEADER).decode("utf-8-sig", "replace")
    except tf.errors.OpError:
        return ""
    header = beginning.lstrip().partition("\n")[0].replace('"', "")
    for sign in _DELIMITERS:
        titles = {title.strip().lower() for title in header.split(sign)}
        if {"filename", "class", *CORNERS} <= titles:
            return sign
    return ""


def is_split(name: str) -> bool:
    """Returns whether a list or folder has a usual name of a split."""
    return name.strip().lower() == TRAINVAL or names.meaning(name) is not None


def class_names(annotations: Mapping[str, Annotation | str]) -> tuple[str, ...]:
    """Returns the names in all annotations, sorted."""
    class_names = set()
    for annotation in annotations.values():
        if isinstance(annotation, Annotation):
            class_names.update(annotation.names)
    return tuple(sorted(filter(None, class_names)))


def lists_in(folder: str) -> dict[str, str]:
    """Returns {name: path} of the lists NAME.txt directly in a folder."""
    return {
        os.path.splitext(file)[0]: f"{folder}/{file}"
        for file in walk.files(folder, (".txt",), deep=False)
    }


def read_list(path: str, keys: Collection[str]) -> tuple[list[str], str]:
    """Returns the keys of the images that a list names, each once, and a warning for those who use
    it, or ''.

    A line is a name, with or without a path and an extension; one that names none of `keys` stays
    as it is. What follows the name is not read; the warning reports it.

    Raises:
      ConfigError: it cannot be read.
    """
    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            lines = file.read().decode("utf-8-sig", "replace").splitlines()
    except tf.errors.OpError as error:
        raise ConfigError(f"{path}: cannot be read: {reason(error)}") from error
    depth = max((name.count("/") for name in keys), default=0)
    keys_of_lines = []
    followed = []
    for line in filter(None, map(str.strip, lines)):
        # Names may have blanks, and something may follow them: the longest beginning that is a name
        # counts.
        beginnings = (line, line.rsplit(None, 1)[0], line.split(None, 1)[0])
        for name in beginnings:
            key_of_line = _find(name, keys, depth)
            if key_of_line is not None:
                break
        else:
            name = key_of_line = line
        keys_of_lines.append(key_of_line)
        rest = line[len(name) :].strip()
        # Some lists name the annotation behind the image.
        if rest and _find(rest, keys, depth) != key_of_line:
            followed.append(line)
    remark = ""
    if followed:
        where = f"in {len(followed)} of {len(keys_of_lines)} lines, e.g. {shown(followed[0])}"
        remark = f"{path}: only the names of images are read, not what follows them {where}"
    return list(dict.fromkeys(keys_of_lines)), remark


def kind(folders: Sequence[str]) -> tuple[str, ...] | None:
    """Returns the kind of files that the innermost folder with such a name is for: IMAGES,
    ANNOTATIONS or None.
    """
    for name in map(str.lower, reversed(folders)):
        for usual_names in (IMAGES, ANNOTATIONS):
            if name in usual_names:
                return usual_names
    return None


def folders(data: DataConfig, root: str, images: Mapping[str, str]) -> dict[str, list[str]]:
    """Returns {split: keys} of the folders at the top; if these are no splits, all images are
    `train`.
    """
    keys = sorted(images)
    splits = {}
    for split, rows in table.split_folders(keys, data).items():
        splits[split] = [keys[row] for row in rows]
    splits = splits or {"train": keys}
    used = set().union(*splits.values())
    beside = [images[key] for key in images if key not in used]
    warn(
        root,
        "%d of %d images are beside the folders of the splits and are left out: %s",
        beside,
        len(images),
    )
    return splits


def warn(root: str, message: str, names: Sequence[str], total: int) -> None:
    """Warns of some of a total, if any. `message` has %d of %d, and %s for the names, which may
    repeat.
    """
    if names:
        logging.warning(
            f"%s: {message}", root, len(names), total, listed(list(dict.fromkeys(names)))
        )


def _find(name, keys, depth):
    """Returns the key that a name in a list means: itself, or the end of it as a path. None if
    there is none.

    Args: the name, the keys, and how many folders those have at most.
    """
    name = unicodedata.normalize("NFC", name)
    if name in keys:
        return name
    *folders, file = name.replace("\\", "/").split("/")
    folders = [folder for folder in folders if folder not in ("", ".") and not kind([folder])]
    stem, extension = os.path.splitext(file)
    stems = (file, stem) if extension.lower() in (*walk.EXTENSIONS, ".xml") else (file,)
    for start in range(max(0, len(folders) - depth), len(folders) + 1):
        for stem in stems:
            path = "/".join([*folders[start:], stem])
            if path in keys:
                return path
    return None


def _by_key(root, names, kind):
    """Returns {key: name}; of several names of one key the first, .jpg before .png."""
    name_of = {}
    again = [name for name in names if name_of.setdefault(key(name), name) != name]
    if again:
        message = (
            "%s: %d %s are left out, since others have their names but for the ending or such"
            " folders: %s"
        )
        logging.warning(message, root, len(again), kind, listed(again))
    return name_of
