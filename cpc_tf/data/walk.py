"""Finds images below a folder, whatever else is there: loops of links, pipes, names that are not
text; and what a file is by its bytes."""

from __future__ import annotations

import collections
import concurrent.futures
import os
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from absl import logging

from cpc_tf.core.files import reason
from cpc_tf.core.settings import ConfigError
from cpc_tf.core.texts import escaped, listed
from cpc_tf.data import pillow
from cpc_tf.data.names import is_skipped

EXTENSIONS = (".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".gif", ".bmp", ".webp", ".tif", ".tiff")
# Images that are not decoded here; a warning counts them.
_FOREIGN = (
    *(".heic", ".heif", ".avif", ".jxl", ".jp2", ".svg", ".psd", ".ppm", ".pgm", ".dcm", ".nii"),
    *(".dng", ".nef", ".cr2", ".arw", ".raw"),
)
# Files that are often beside images. They are not opened to look for images.
_NO_IMAGES = {
    *".txt .csv .tsv .json .jsonl .xml .yaml .yml .md .html .htm .ini .cfg .names".split(),
    *".xlsx .xls .pdf .doc .docx .py .m .sh .ipynb .log .db .lock .tmp .part".split(),
    *".zip .tar .gz .tgz .rar .7z .npy .npz .mat .h5 .pkl .parquet .tfrecord".split(),
    *".mp4 .mov .avi .mkv .webm .mp3 .wav".split(),
}
_THREADS = 16  # hide the latency of a bucket


def images(root: str) -> list[str]:
    """Returns the names of the image files below a folder, relative to it, sorted. See `files`.

    Files without an extension are images if they begin as one. Warnings count images that are left
    out.
    """
    wanted, others = all_files(root, EXTENSIONS + _FOREIGN)
    foreign = collections.Counter(end for name in wanted if (end := extension(name)) in _FOREIGN)
    if foreign:
        kinds = ", ".join(f"{number} {end}" for end, number in sorted(foreign.items()))
        logging.warning("%s: left out, since they cannot be decoded here: %s", root, kinds)

    def is_image(name):
        try:
            with tf.io.gfile.GFile(f"{root}/{name}", "rb") as file:
                return is_picture(file.read(BEGIN))
        except (OSError, tf.errors.OpError):  # not said to be an image, and not readable
            return False

    odd = [name for name in others if extension(name) not in _NO_IMAGES]
    by_content = [name for name, yes in zip(odd, in_threads(is_image, odd)) if yes]
    if misnamed := [name for name in by_content if extension(name)]:
        message = (
            "%s: skipped: %d images with other extensions, which are not read; rename them: %s"
        )
        logging.warning(message, root, len(misnamed), listed(misnamed))
    paths = [name for name in wanted if extension(name) in EXTENSIONS]
    return sorted([*paths, *(name for name in by_content if not extension(name))])


def stats(root: str, names: Sequence[str]) -> np.ndarray:
    """Returns the size in bytes and the time of change in ns of each file, -1 if it is absent:
    int64 [names, 2].

    On a disk it is the time at which the file itself changed (ctime). The time of its content
    (mtime) can be set, as archives do when they are unpacked, so that a file with other pixels has
    the old one.

    Args:
      root: the folder, or '' if names are whole paths.
      names: of files, text or bytes.
    """

    def describe(name):
        path = os.path.join(root, name) if root else name
        try:
            if _is_local(root or os.fsdecode(name)):
                stat = os.stat(path)
                return stat.st_size, stat.st_ctime_ns
            stat = tf.io.gfile.stat(path)
        except (OSError, ValueError, tf.errors.OpError):  # TensorFlow refuses some names
            return -1, -1
        return stat.length, stat.mtime_nsec

    chunks = [names[i : i + 1000] for i in range(0, len(names), 1000)]
    parts = in_threads(lambda chunk: np.array([describe(name) for name in chunk], np.int64), chunks)
    return np.concatenate([np.zeros([0, 2], np.int64), *parts])


def most_bytes(megapixels: float) -> int:
    """Returns the size from which on a file is not read that may hold an image of less than these
    megapixels.

    Uncompressed, such an image has up to four values of 16 bits a pixel. A small archive can hold a
    huge file.
    """
    return round(8e6 * megapixels)


def in_threads(function: Callable, items: Sequence) -> list:
    """Returns the function of each item, computed by several threads."""
    with concurrent.futures.ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(function, items))


def folder_at(path: str, flag: str) -> str:
    """Returns a folder that a flag, given with its value, names. Raises ConfigError if there is
    none.
    """
    root = os.path.expanduser(path).rstrip("/") or "/"
    if not (os.path.isdir(root) if _is_local(root) else tf.io.gfile.isdir(root)):
        raise ConfigError(f"{flag}: no such folder")
    if not _is_text(absolute(root)):
        raise ConfigError(f"{flag}: TensorFlow cannot read it, its name is not UTF-8; rename it")
    return root


def absolute(path: str) -> str:
    """Returns a path that does not depend on the working directory; one in a bucket never does."""
    return path if "://" in path else os.path.abspath(path)


def files(root: str, extensions: tuple[str, ...], deep: bool = True) -> list[str]:
    """Returns the names of the files with these extensions below a folder, relative to it, with
    '/', sorted.

    Each folder is read once: a link to a folder is not followed if that folder lies in the tree or
    an earlier link led to it. Hidden files and folders, and folders of tools, are skipped. A
    warning counts what is skipped.

    Args:
      root: the folder, local or e.g. gs://.
      extensions: lower case, with the dot; files may have them in upper case.
      deep: whether to look into folders below.

    Raises:
      ConfigError: the folder cannot be read.
    """
    wanted, _ = all_files(root, extensions, deep)
    return wanted


def all_files(
    root: str, extensions: tuple[str, ...], deep: bool = True
) -> tuple[list[str], list[str]]:
    """Returns the files with these extensions, as `files` does, and the others, without a warning
    of these.
    """
    skipped = collections.defaultdict(list)
    outside = []
    try:
        wanted, others = _walk(root, extensions, deep, skipped, outside)
    except (OSError, tf.errors.OpError, UnicodeError) as error:
        raise ConfigError(f"{root}: cannot be read: {reason(error)}") from error
    if skipped:
        kinds = []
        for kind, some in sorted(skipped.items()):
            kinds.append(f"{len(some)} {kind}, e.g. {escaped(min(some))}")
        logging.warning("%s: skipped: %s", root, "; ".join(kinds))
    if outside:  # in a stranger's folder they may lead to private images
        logging.warning(
            "%s: %d links lead out of it and are followed: %s",
            root,
            len(outside),
            listed(sorted(outside)),
        )
    return sorted(wanted), sorted(others)


def folders(root: str) -> list[str]:
    """Returns the names of the folders directly in a folder that `files` would read, sorted; none
    if unreadable.
    """
    try:
        entries = _entries(root, lambda name: not extension(name))
        return sorted(
            e.name for e in entries if _is_folder(e) and _is_text(e.name) and not is_skipped(e.name)
        )
    except (OSError, tf.errors.OpError, UnicodeError):
        return []


def extension(name: str) -> str:
    """Returns the extension of a name, in lower case and with the dot."""
    return os.path.splitext(name)[1].lower()


def _walk(root, extensions, deep, skipped, outside):
    wanted_files = []
    other_files = []
    read = set()
    links = [""]
    top = os.path.join(os.path.realpath(root), "")
    # First the tree without its links, then what links lead to: a folder that lies in the tree
    # counts at its own place.
    while links:
        pending = sorted(links, reverse=True)
        links = []
        while pending:
            folder = pending.pop()
            path = os.path.join(root, folder)
            real = os.path.realpath(path) if _is_local(root) else path
            if real in read:
                skipped["links to folders that are read anyway"].append(folder)
                continue
            read.add(real)
            try:
                entries = _entries(path, lambda name: deep and extension(name) not in extensions)
            except OSError:
                if not folder:
                    raise
                skipped["folders that cannot be read"].append(folder)
                continue
            for entry in entries:
                name = f"{folder}/{entry.name}" if folder else entry.name
                leads_out = entry.is_symlink() and _leads_out(entry, top)
                is_folder = _is_folder(entry)
                wanted = extension(entry.name) in extensions
                if is_skipped(entry.name):
                    if is_folder and not entry.is_symlink():
                        if hidden := _files_within(entry.path, name, extensions):
                            skipped["files in hidden folders or folders of tools"] += hidden
                    elif wanted:
                        skipped["hidden files"].append(name)
                elif not (is_folder or wanted):
                    if _is_text(name) and _is(entry.is_file):
                        other_files.append(name)
                elif not _is_text(name):
                    skipped["names that are not UTF-8"].append(name)
                elif is_folder:
                    if deep:
                        (links if entry.is_symlink() else pending).append(name)
                        outside += [name] * leads_out
                elif _is(entry.is_file):
                    wanted_files.append(name)
                    outside += [name] * leads_out
                else:
                    skipped["broken links, pipes and the like"].append(name)
    return wanted_files, other_files


def _leads_out(link, top):
    """Returns whether a link leads out of the folder `top`, which ends with '/'."""
    return not os.path.join(os.path.realpath(link.path), "").startswith(top)


def _files_within(path, name, extensions):
    """Returns the files at any depth of a folder that have one of the extensions, below `name`."""
    paths = []
    for folder, _, file_names in os.walk(path) if _is_local(path) else tf.io.gfile.walk(path):
        below = f"{name}/{folder[len(path) :].strip('/')}".rstrip("/")
        paths += [f"{below}/{file}" for file in file_names if extension(file) in extensions]
    return paths


class _BucketEntry(NamedTuple):
    """An entry of a bucket, which has no links, with the methods of os.DirEntry."""

    name: str
    path: str
    marked: bool  # as a folder; not all buckets mark them
    asked: bool  # whether to ask the bucket, which is a request

    def is_dir(self) -> bool:
        return self.marked or (self.asked and tf.io.gfile.isdir(self.path))

    def is_file(self) -> bool:
        return not self.marked

    def is_symlink(self) -> bool:
        return False


def _entries(folder: str, ask: Callable[[str], bool]) -> list[os.DirEntry | _BucketEntry]:
    """Returns the entries of a folder. A bucket is asked whether an entry is a folder if `ask` is
    true of its name.
    """
    if _is_local(folder):
        # TensorFlow can neither list odd names nor tell links from folders.
        with os.scandir(folder) as entries:
            return list(entries)
    entries = [(entry.rstrip("/"), entry.endswith("/")) for entry in tf.io.gfile.listdir(folder)]
    return [
        _BucketEntry(name, os.path.join(folder, name), marked, ask(name))
        for name, marked in entries
        if name
    ]


def _is_folder(entry):
    return _is(entry.is_dir)


def _is(question):
    try:
        return question()
    except OSError:  # a link to itself
        return False


def _is_local(path):
    return "://" not in path


def _is_text(name):
    try:
        return bool(name.encode())
    except UnicodeEncodeError:  # bytes that are not UTF-8, which Python has escaped
        return False


_MOST_BANDS = 4  # values of a pixel
# bytes by which the kind of a file is told
_HEAD = 512
_TAIL = 64
BEGIN = 16  # bytes by which an image is recognized
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
    """Returns whether a file that begins with these bytes, BEGIN at least, is of a format that is
    decoded.
    """
    return any(re.match(pattern, begin, re.DOTALL) for _, pattern, _ in _PICTURES)


def kind_of_file(path: str) -> str:
    """Returns the kind of a file of any file system, e.g. 'HTML' or 'a JPEG that is cut short'."""
    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            head = file.read(_HEAD)
            file.seek(max(0, file.size() - _TAIL))
            kind = _kind_of(head, file.read(_TAIL))
            if "TIFF" in kind and (bands := pillow.bands(file)) > _MOST_BANDS:
                return f"a TIFF of {bands} bands; those of 1, 3 and 4 are read"
            return kind
    except (OSError, tf.errors.OpError):
        return "cannot be read"


def _kind_of(head: bytes, tail: bytes) -> str:
    """Returns the kind of a file that begins and ends with these bytes."""
    if not head:
        return "empty"
    for name, begin, end in _PICTURES:
        if re.match(begin, head, re.DOTALL):
            cut_short = end not in tail if end else False
            return f"a {name} that is {'cut short' if cut_short else 'damaged'}"
    for name, begin in _OTHERS:
        if re.match(begin, head, re.DOTALL):
            return name
    return "of no known format"
