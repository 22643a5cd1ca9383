"""Finds files below a folder, whatever else stands there: loops of links, pipes, names that are no text."""

from __future__ import annotations

import collections
import os

import tensorflow as tf
from absl import logging

from cpc_tf.data.sources.folder_names import is_skipped
from cpc_tf.files import reason
from cpc_tf.settings import ConfigError
from cpc_tf.texts import escaped


def folder_of(dataset: str) -> str:
    """The folder that the value KIND:PATH of --dataset means. Raises ConfigError if there is none."""
    root = os.path.expanduser(dataset.partition(":")[2]).rstrip("/") or "/"
    if not (os.path.isdir(root) if _is_local(root) else tf.io.gfile.isdir(root)):
        raise ConfigError(f"--dataset={dataset}: no such folder")
    if not _is_text(root):
        raise ConfigError(f"--dataset={dataset}: TensorFlow cannot read it, its name is not UTF-8; rename it")
    return root


def files(root: str, extensions: tuple[str, ...], deep: bool = True) -> list[str]:
    """Names of the files with these extensions below a folder, relative to it, with '/', sorted.

    Each folder is read once: a link to one is followed unless that folder is read anyway, since it lies in the tree or
    another link led there before. Hidden files and folders, and folders of tools (`names.is_skipped`), are passed over.
    What is passed over is counted in a warning.

    Args:
      root: the folder, local or e.g. gs://.
      extensions: lower case, with the dot; files may have them in upper case.
      deep: also in the folders of the folder.

    Raises:
      ConfigError: the folder cannot be read.
    """
    passed = collections.defaultdict(list)
    try:
        if _is_local(root):
            found = _Local(root, extensions, deep, passed).found
        else:
            found = _remote(root, extensions, deep, passed)
    except (OSError, tf.errors.OpError, UnicodeError) as error:
        raise ConfigError(f"{root}: cannot be read: {reason(error)}") from error
    if passed:
        kinds = "; ".join(f"{len(names)} {what}, e.g. {escaped(min(names))}" for what, names in sorted(passed.items()))
        logging.warning("%s: passed over: %s", root, kinds)
    return sorted(found)


def folders(root: str) -> list[str]:
    """Names of the folders directly in a folder, sorted, without those that `files` passes over; none if unreadable."""
    try:
        if _is_local(root):
            with os.scandir(root) as entries:
                # Asked of links by their path: an entry cannot tell where a link to itself leads.
                found = [e.name for e in entries if (os.path.isdir(e.path) if e.is_symlink() else e.is_dir())]
        else:
            # Buckets mark folders. Elsewhere only names without an extension are asked about: each is a request.
            is_folder = lambda name: not _extension(name) and tf.io.gfile.isdir(os.path.join(root, name))  # noqa: E731
            found = [e.rstrip("/") for e in tf.io.gfile.listdir(root) if e.endswith("/") or is_folder(e)]
    except (OSError, tf.errors.OpError, UnicodeError):
        return []
    return sorted(name for name in found if _is_text(name) and not is_skipped(name))


def _is_local(path):
    return "://" not in path


def _is_text(name):
    try:
        return bool(name.encode())
    except UnicodeEncodeError:  # bytes that are no UTF-8, which Python has escaped
        return False


def _extension(entry):
    return os.path.splitext(entry)[1].lower()


def _skip(path, name, is_folder, extensions, passed):
    """Counts the pictures of what is hidden or of a tool."""
    if not is_folder:
        if _extension(name) in extensions:
            passed["hidden files"].append(name)
        return
    for folder, _, inside in os.walk(path) if _is_local(path) else tf.io.gfile.walk(path):
        for file in inside:
            if _extension(file) in extensions:
                passed["files in hidden folders or folders of tools"].append(f"{name}{folder[len(path) :]}/{file}")


def _remote(root, extensions, deep, passed):
    """The files of a bucket, where there are no links."""
    found, pending = [], [""]
    while pending:
        folder = pending.pop()
        for entry in tf.io.gfile.listdir(os.path.join(root, folder)):
            plain = entry.rstrip("/")  # buckets mark folders so
            name, path = f"{folder}/{plain}" if folder else plain, os.path.join(root, folder, plain)
            if not plain:
                continue
            named_so = plain == entry and _extension(plain) in extensions
            # Asked of the few other names only: in a bucket each question is a request.
            is_folder = deep and not named_so and (plain != entry or tf.io.gfile.isdir(path))
            if is_skipped(plain):
                _skip(path, name, is_folder, extensions, passed)
            elif named_so:
                found.append(name)
            elif is_folder:
                pending.append(name)
    return found


class _Local:
    """The files of a folder of this machine. TensorFlow can neither list odd names nor tell links from folders."""

    def __init__(self, root, extensions, deep, passed):
        self._root, self._extensions, self._passed = root, extensions, passed
        self.found, self._links, self._read = [], [""], set()
        # First what is no link, then what links lead to: where a link leads to a folder of the tree, that one counts.
        while self._links:
            starts, self._links = sorted(self._links), []
            for start in starts:
                pending = [start]
                while pending:
                    folders = self._folder(pending.pop())
                    pending += folders if deep else []
            if not deep:
                return

    def _folder(self, name):
        """Reads a folder; returns those in it that are no links."""
        path = os.path.join(self._root, name)
        real, folders = os.path.realpath(path), []
        if real in self._read:
            self._passed["links to folders that are read anyway"].append(name)
            return folders
        self._read.add(real)
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    self._entry(entry, f"{name}/{entry.name}" if name else entry.name, folders)
        except OSError:
            if not name:
                raise
            self._passed["folders that cannot be read"].append(name)
        return folders

    def _entry(self, entry, name, folders):
        try:
            is_folder, is_file = entry.is_dir(), entry.is_file()  # of what a link leads to
        except OSError:  # a link to itself
            is_folder = is_file = False
        named_so = _extension(name) in self._extensions
        if is_skipped(entry.name):
            _skip(entry.path, name, is_folder and not entry.is_symlink(), self._extensions, self._passed)
            return
        if not (is_folder or named_so):
            return
        if not _is_text(name):
            self._passed["names that are not UTF-8"].append(name)
        elif is_folder:
            (self._links if entry.is_symlink() else folders).append(name)
        elif is_file:
            self.found.append(name)
        else:
            self._passed["links to nothing, pipes and the like"].append(name)
