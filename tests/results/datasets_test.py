"""Datasets of one page have names that tell them apart, whatever their folders are called."""

import os

import pytest

from cpc_tf.results.datasets import dataset_id, titles

TITLES = [
    {"folder:/birds/images": "birds/images", "folder:/cars/images": "cars/images"},
    {"voc:/a/VOC2007": "a/VOC2007", "voc:/b/VOC2007": "b/VOC2007"},
    {"folder:/x/a/images": "x/a/images", "folder:/y/a/images": "y/a/images", "folder:/z/birds": "birds"},
    {"folder:/images": "/images", "folder:/cars/images": "cars/images"},  # one is the end of the other
    {"folder:/x/photos": "x/photos", "photos": "photos", "photos/15200": "photos"},
    {"folder:/x/cells": "folder:cells", "voc:/x/cells": "voc:cells"},
    {"folder:/x/voc/2007": "2007", "voc/2007": "voc/2007"},
    {"folder:gs://a/images": "a/images", "folder:gs://b/images/": "b/images"},
    {"folder:/data/birds": "birds", "cifar10": "cifar10", "folder:": "folder:", "": ""},
]


@pytest.mark.parametrize("expected", TITLES, ids=str)
def test_names_are_as_long_as_it_takes(expected):
    assert titles(expected) == expected
    assert titles([*expected][::-1]) == expected


def test_a_folder_has_one_name_however_it_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "birds/images").mkdir(parents=True)
    os.symlink(tmp_path / "birds", tmp_path / "link")
    written = ("birds/images", "birds/images/", "./birds/../birds/images", "~/birds/images", f"{tmp_path}/birds/images",
               "link/images")  # fmt: skip
    assert len({dataset_id(f"folder:{path}") for path in written}) == 1
    assert {*titles([f"folder:{path}" for path in written]).values()} == {"images"}
