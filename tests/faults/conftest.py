"""Folders that tests spoil."""

import os

import numpy as np
import pytest
from absl import logging

from cpc_tf.settings import ConfigError
from tests.data.samples import encode


@pytest.fixture
def warnings(monkeypatch):
    lines = []
    monkeypatch.setattr(logging, "warning", lambda message, *values: lines.append(message % values))
    return lines


@pytest.fixture
def root(tmp_path):
    """Pictures in x/train/a, x/train/b and beside the tree, in beside/c."""
    for name in ("x/train/a/1.png", "x/train/b/2.png", "beside/c/3.png"):
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        path.write_bytes(encode(np.zeros([8, 8, 3], np.uint8)))
    return tmp_path / "x"


@pytest.fixture
def refused():
    """Calls a function that must refuse, and returns the one line that it says."""

    def refused(function, *args):
        with pytest.raises(ConfigError) as error:
            function(*args)
        assert str(error.value).isprintable()
        return str(error.value)

    return refused


@pytest.fixture
def unreadable(monkeypatch):
    """Makes a folder unreadable: the tests run as root, whom no permission stops."""
    scan = os.scandir

    def make(folder):
        def scandir(path):
            if os.fspath(path).rstrip("/") == str(folder):
                raise PermissionError(13, "Permission denied", path)
            return scan(path)

        monkeypatch.setattr(os, "scandir", scandir)

    return make
