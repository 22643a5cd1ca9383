"""The names of classes and the splits of a folder in YOLO's layout: data.yaml, classes.txt or obj.names."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

import tensorflow as tf

from cpc_tf.data.sources import boxes_layout, walk
from cpc_tf.files import reason
from cpc_tf.settings import ConfigError

_KEY = re.compile(r"([A-Za-z_]\w*)\s*:(?:\s+|$)(.*)")
_QUOTED = r"'(?:[^']|'')*'|\"[^\"]*\""
_ITEM = re.compile(rf"\s*(?:({_QUOTED}|[^,:\s]+)\s*:\s+)?({_QUOTED}|[^,]+)")


class Told(NamedTuple):
    """What the files beside the annotations tell."""

    file: str = ""  # with the names of the classes
    names: Mapping[int, str] = MappingProxyType({})  # {number: name}; empty: no file has them
    splits: Mapping[str, list[str]] = MappingProxyType({})  # {split: folders or lists of images, relative to the root}
    keypoints: bool = False  # whether the annotations have keypoints behind the boxes


def read(root: str) -> Told:
    """Finds the names of the classes: in data.yaml or the only other YAML file at the top, else in lists.

    Raises:
      ConfigError: a file cannot be read, or several may be meant.
    """
    files = [(name, parse_yaml(_text(f"{root}/{name}"))) for name in walk.files(root, (".yaml", ".yml"), deep=False)]
    files = [(name, content) for name, content in files if "names" in content]
    files = [each for each in files if each[0].startswith("data.")] or files
    if len(files) > 1:
        several = " and ".join(name for name, _ in files[:2])
        raise ConfigError(f"{root}: {several} both have names of classes; keep one, or call it data.yaml")
    for file, content in files:
        names = {int(n): _composed(name) for n, name in content["names"] if n.isdecimal()}
        splits = {split: [*_places(root, content[split])] for split in ("train", "val", "test") if split in content}
        return Told(file, names, splits, "kpt_shape" in content)
    lists = [n for n in walk.files(root, (".names", ".txt")) if n.endswith(".names") or _is(n, "classes.txt")]
    for file in sorted(lists, key=lambda name: (name.count("/"), name)):
        lines = map(str.strip, _text(f"{root}/{file}").splitlines())
        return Told(file, {n: _composed(name) for n, name in enumerate(lines) if name})
    return Told()


def parse_yaml(text: str) -> dict[str, list[tuple[str, str]]]:
    """Reads the part of YAML that is used in data.yaml, without a further package.

    Returns:
      {key at the top: items}; an item is (key, value) as texts. Items of a list have their numbers as keys, and a
      value alone is the item '0'.
    """
    blocks: dict[str, list[str]] = {}
    current = ""
    for raw in text.splitlines():
        hidden = re.sub(_QUOTED, lambda quoted: "_" * len(quoted[0]), raw)  # of what is quoted, # begins no comment
        comment = re.search(r"(^|\s)#", hidden)
        line = raw[: comment.start()] if comment else raw.rstrip()
        key = _KEY.fullmatch(line)
        if key:
            current = key[1]
            blocks[current] = [key[2]] if key[2] else []
        elif current and line.strip():
            blocks[current].append(line.strip())
    return {key: _items(lines) for key, lines in blocks.items()}


def _items(lines):
    joined = " ".join(lines).strip()
    if joined[:1] in ("[", "{"):
        found = [(key, value) for key, value in _ITEM.findall(joined[1:-1]) if value.strip()]
    elif lines and all(line.startswith("-") for line in lines):
        found = [("", line[1:]) for line in lines]
    elif len(lines) > 1 or (lines and re.match(r"\d+\s*:\s", lines[0])):
        found = [tuple(line.partition(":")[::2]) for line in lines]
    else:
        found = [("", line) for line in lines]
    return [(_unquoted(key) or str(n), _unquoted(value)) for n, (key, value) in enumerate(found)]


def _unquoted(text):
    text = text.strip()
    return text[1:-1].replace("''", "'") if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text


def _places(root: str, items: list[tuple[str, str]]) -> Iterator[str]:
    """Yields paths relative to the root, whatever folder they are written from."""
    for _, place in items:
        place = place.replace("\\", "/")
        place = place[len(root) :] if place.startswith(f"{root}/") else place
        parts = [part for part in place.split("/") if part not in ("", ".", "..")]
        # Some are written from folders above the root. `images` alone is no end of train/images: it may hold all.
        starts = [n for n in range(len(parts)) if not n or any(not boxes_layout.kind([part]) for part in parts[n:])]
        ends = ("/".join(parts[start:]) for start in starts)
        if found := next((end for end in ends if tf.io.gfile.exists(f"{root}/{end}")), None):
            yield found


def _composed(name):
    return unicodedata.normalize("NFC", name)


def _is(name, file):
    return os.path.basename(name).lower() == file


def _text(path):
    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            return file.read().decode("utf-8-sig", "replace")
    except tf.errors.OpError as error:
        raise ConfigError(f"{path}: cannot be read: {reason(error)}") from error
