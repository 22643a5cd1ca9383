"""An annotation in VOC's XML."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import NamedTuple


class Annotation(NamedTuple):
    """What a file says, unchecked: an entry per object, in the file's order.

    A box is (ymin, xmin, ymax, xmax), counted from 1, the last pixel included; NaN where there is no number.
    """

    names: list[str]  # of the classes, '' if there is none
    boxes: list[list[float]]
    difficult: list[bool]
    size: tuple[float, float]  # (height, width) of the image, NaN or 0 if unknown


def parse(text: bytes) -> Annotation:
    """Reads an annotation; whatever is missing in an object makes its box NaN, and no error.

    Raises:
      ValueError: this is no XML. Nor is what declares entities, a few of which can fill the memory.
    """
    try:
        root = ET.fromstring(text, ET.XMLParser(target=_Builder()))
    except (ET.ParseError, LookupError) as error:  # LookupError: of an unknown encoding
        raise ValueError(str(error)) from error
    annotation = Annotation([], [], [], (_number(root, "size/height"), _number(root, "size/width")))
    # Only objects of the image and what is theirs: an object's parts have names and boxes, too.
    for thing in root.findall("object"):
        name = (thing.findtext("name") or "").strip()
        corners = [_number(thing, f"bndbox/{corner}") for corner in ("ymin", "xmin", "ymax", "xmax")]
        annotation.names.append(name)
        annotation.boxes.append(corners if name else [float("nan")] * 4)
        annotation.difficult.append((thing.findtext("difficult") or "").strip().lower() in ("1", "true"))
    return annotation


class _Builder(ET.TreeBuilder):
    def doctype(self, *declaration):
        raise ValueError("a document type declaration")


def _number(element, path):
    try:
        return float(element.findtext(path) or "nan")
    except ValueError:
        return float("nan")
