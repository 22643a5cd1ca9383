"""`voc:PATH`: images and VOC's XML files, and the lists that are their splits."""

from __future__ import annotations

import itertools
import os
import unicodedata
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Sequence
from xml.parsers import expat

import numpy as np
import tensorflow as tf

from cpc_tf.boxes import geometry, layout
from cpc_tf.boxes.layout import NAN, Annotated, Annotation, Format
from cpc_tf.core.settings import ConfigError
from cpc_tf.core.texts import shown
from cpc_tf.data import walk
from cpc_tf.data.config import DataConfig

FORMAT = Format(
    name="VOC",
    known=(
        "known are JPEGImages and Annotations (or images and annotations), with or without lists"
        " ImageSets/Main/NAME.txt; images and VOC's XML files side by side; and both in folders"
        " train, valid and test"
    ),
    annotated="has an XML file of its name",
    incomplete="no name or no <bndbox> of four numbers",
    mistaken="<bndbox> has two corners in pixels of the image itself, not a width and a height",
    in_pixels=True,
    negatives=False,
    place=lambda boxes, size: geometry.from_voc(boxes.astype(np.float32), size),
)
_PARENT = "ImageSets"
_SETS = "ImageSets/Main"


def read(data: DataConfig) -> Annotated:
    """Returns the images and annotations of --dataset=voc:PATH.

    The splits are the lists ImageSets/Main/SPLIT.txt, without those of one class (`cat_train.txt`);
    without any list, the folders called train, valid and test; without these there is only `train`,
    all images. The classes are the names in all annotations, sorted.

    Raises:
      ConfigError: no such folder, no images in it, or parts that cannot be read.
    """
    root = walk.folder_at(data.ref.path, data.flag)
    images = layout.images(root)
    annotation_of = layout.paired(images, annotations(root))
    if not images:
        raise ConfigError(f"--dataset={data.dataset}: no images in it; {FORMAT.known}")
    class_names = layout.class_names(annotation_of)
    splits = lists(root, class_names, images.values())
    parts = {} if splits else layout.folders(data, root, images)
    return Annotated(FORMAT, root, images, annotation_of, class_names, splits, parts)


def annotations(root: str) -> dict[str, Annotation | str]:
    """Returns {key: annotation, or why it cannot be read} of the XML files below a folder; see
    `layout.key`.
    """
    return layout.parsed(root, walk.files(root, (".xml",)), parse)


def lists(root: str, class_names: Sequence[str], files: Iterable[str] = ()) -> dict[str, str]:
    """Returns {split: its list's path}, without the lists of one class; empty if there are no
    lists.

    Lists are ImageSets/Main/NAME.txt, or else, at the top of the folder, trainval.txt and usual
    names of splits.

    Args:
      root: the folder.
      class_names: of the objects.
      files: its images, relative to it.

    Raises:
      ConfigError: there is something else in their place, or lists in another place.
    """
    parent = f"{root}/{_PARENT}"
    folder = f"{root}/{_SETS}"
    for path in (parent, folder):
        if not tf.io.gfile.isdir(path) and (os.path.lexists(path) or tf.io.gfile.exists(path)):
            raise ConfigError(
                f"{path}: is not a folder; remove it to have the folders as splits, or all"
                " images as train"
            )
    if tf.io.gfile.isdir(folder) and (path_of := layout.lists_in(folder)):
        of_one_class = {"_".join(pair) for pair in itertools.product(class_names, path_of)}
        return {name: path for name, path in path_of.items() if name not in of_one_class}
    if tf.io.gfile.isdir(parent) and (misplaced := walk.files(parent, (".txt",))):
        raise ConfigError(
            f"{parent}/{misplaced[0]}: lists of splits must be {_SETS}/NAME.txt; move it there"
        )
    tops = set()
    for file in files:
        folders = file.split("/")[:-1]
        if layout.kind(folders[1:2]):
            tops.add(folders[0])
    for top in sorted(tops):
        if tf.io.gfile.isdir(f"{root}/{top}/{_PARENT}"):
            raise ConfigError(
                f"{root}/{top}/{_PARENT}: lists of splits are read only at the top of PATH;"
                f" use --dataset=voc:{root}/{top}"
            )
    at_top = layout.lists_in(root).items()
    return {name: path for name, path in at_top if layout.is_split(name)}


def parse(text: bytes) -> Annotation:
    """Reads an annotation. An object without a name or a number has a box of NaN, which is no
    error.

    Boxes are in pixels, counted from 1, the last pixel included.

    Namespaces, prefixes and capitals of tags do not matter. Names are put into Unicode's composed
    form: letters that look the same are the same class.

    Raises:
      ValueError: it is not XML, or XML of another kind, or declares entities, a few of which can
        fill the memory.
    """
    try:
        root = _tree(text)
    except (expat.ExpatError, LookupError) as error:  # LookupError: of an unknown encoding
        raise ValueError(str(error)) from error
    if root.tag != "annotation":
        # XML of another kind would be taken for an image without objects.
        raise ValueError(f"<{shown(root.tag)}> instead of <annotation>")
    size = _number(root, "size/height"), _number(root, "size/width")
    annotation = Annotation([], [], [], size, _text(root, "filename"))
    # Only direct children: an object's parts have names and boxes, too.
    for thing in root.findall("object"):
        name = unicodedata.normalize("NFC", _text(thing, "name"))
        corners = [
            _number(thing, f"bndbox/{corner}") for corner in ("ymin", "xmin", "ymax", "xmax")
        ]
        annotation.names.append(name)
        annotation.boxes.append(corners if name else [NAN] * 4)
        annotation.difficult.append(_text(thing, "difficult").lower() in ("1", "true"))
    return annotation


def _tree(text):
    """Returns the elements, with tags in lower case and without prefixes."""
    builder = ET.TreeBuilder()
    parser = expat.ParserCreate()

    def local(tag):
        return tag.rpartition(":")[2].lower()

    def refuse(*declaration):
        raise ValueError("a document type declaration")

    # This parser ignores namespaces, so that prefixes need not be declared.
    parser.StartElementHandler = lambda tag, attributes: builder.start(local(tag), {})
    parser.EndElementHandler = lambda tag: builder.end(local(tag))
    parser.CharacterDataHandler = builder.data
    parser.StartDoctypeDeclHandler = refuse
    parser.Parse(text, True)
    return builder.close()


def _text(element, path):
    return (element.findtext(path) or "").strip()


def _number(element, path):
    try:
        return float(element.findtext(path) or "nan")
    except ValueError:
        return NAN
