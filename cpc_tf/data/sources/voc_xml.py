"""An annotation in VOC's XML."""

from __future__ import annotations

import unicodedata
import xml.etree.ElementTree as ET
from xml.parsers import expat

from cpc_tf.data.sources.annotation import NAN, Annotation
from cpc_tf.texts import shown


def parse(text: bytes) -> Annotation:
    """Reads an annotation. What is missing in an object makes its box NaN, and is no error.

    Boxes are in pixels, counted from 1, the last pixel included.

    Namespaces, prefixes and capitals of tags do not matter. Names are put into Unicode's composed form: letters that
    look the same are the same class.

    Raises:
      ValueError: it is not XML, or XML of another kind, or declares entities, a few of which can fill the memory.
    """
    try:
        root = _tree(text)
    except (expat.ExpatError, LookupError) as error:  # LookupError: of an unknown encoding
        raise ValueError(str(error)) from error
    if root.tag != "annotation":
        # XML of another kind would be taken for an image without objects.
        raise ValueError(f"<{shown(root.tag)}> in place of <annotation>")
    size = _number(root, "size/height"), _number(root, "size/width")
    annotation = Annotation([], [], [], size, _text(root, "filename"))
    # Only direct children: an object's parts have names and boxes, too.
    for thing in root.findall("object"):
        name = unicodedata.normalize("NFC", _text(thing, "name"))
        corners = [_number(thing, f"bndbox/{corner}") for corner in ("ymin", "xmin", "ymax", "xmax")]
        annotation.names.append(name)
        annotation.boxes.append(corners if name else [NAN] * 4)
        annotation.difficult.append(_text(thing, "difficult").lower() in ("1", "true"))
    return annotation


def _tree(text):
    """Returns the elements, with tags in lower case and without prefixes."""
    builder, parser = ET.TreeBuilder(), expat.ParserCreate()

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
