"""Tells what kind of file cannot be decoded, from its bytes."""

from __future__ import annotations

import re

import tensorflow as tf

_HEAD = 512  # bytes
BEGIN = 16  # bytes that tell a picture
_PICTURES = (  # name, begin and end of the formats that are decoded
    ("JPEG", rb"\xff\xd8\xff", b"\xff\xd9"),
    ("PNG", rb"\x89PNG\r\n\x1a\n", b"IEND\xaeB`\x82"),
    ("GIF", rb"GIF8", b";"),
    ("BMP", rb"BM", b""),
    ("WebP", rb"RIFF....WEBP", b""),
    ("TIFF", rb"II[*+]\0|MM\0[*+]", b""),
)
_OTHERS = (
    ("HEIC", rb"....ftyp(hei|hev|mif1|msf1)"),
    ("AVIF", rb"....ftypavi"),
    ("a video", rb"....ftyp|RIFF....AVI |\x1a\x45\xdf\xa3"),
    ("JPEG 2000", rb"\0\0\0\x0cjP  |\xff\x4f\xff\x51"),
    ("JPEG XL", rb"\xff\x0a|\0\0\0\x0cJXL "),
    ("DICOM", rb".{128}DICM"),
    ("a Photoshop document", rb"8BPS"),
    ("PDF", rb"%PDF"),
    ("SVG", rb"\s*(<\?xml[^>]*>\s*)?(<!--.*?-->\s*)?(<!DOCTYPE svg[^>]*>\s*)?<svg"),
    ("HTML", rb"(?i)(\xef\xbb\xbf)?\s*(<!--.*?-->\s*)?<(!doctype )?html"),
    ("a pointer of Git LFS", rb"version https://git-lfs"),
    ("a resource file of macOS", rb"\0\x05\x16\x07"),
    ("ZIP", rb"PK\x03\x04"),
    ("gzip", rb"\x1f\x8b"),
    ("zeros only", rb"\0+\Z"),
    ("text", rb"[\t\n\r\x20-\x7e]+\Z"),
)


def is_picture(begin: bytes) -> bool:
    """Returns whether a file that begins with these bytes, BEGIN at least, is of a format that is decoded."""
    return any(re.match(own, begin, re.DOTALL) for _, own, _ in _PICTURES)


def describe(path: str) -> str:
    """Returns the kind of a file of any file system, e.g. 'HTML' or 'a JPEG that is cut short'."""
    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            data = file.read()
    except (OSError, tf.errors.OpError):
        return "cannot be read"
    return of(data)


def of(data: bytes) -> str:
    """Returns the kind of a file with these bytes."""
    if not data:
        return "empty"
    for name, begin, end in _PICTURES:
        if re.match(begin, data, re.DOTALL):
            cut_short = end not in data[-64:] if end else False
            return f"a {name} that is {'cut short' if cut_short else 'damaged'}"
    for name, begin in _OTHERS:
        if re.match(begin, data[:_HEAD], re.DOTALL):
            return name
    return "no picture that is known here"
