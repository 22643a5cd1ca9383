"""The line of versions, and the address of bugs."""

import email.message
import importlib.metadata
import platform

import pytest
import tensorflow as tf

import cpc_tf
from cpc_tf.core import versions


def test_the_line_has_the_versions_that_run():
    line = versions.environment()
    first, tensorflow, *keras, python, system = line.split(", ")
    assert (first, tensorflow) == (f"cpc-tf {cpc_tf.__version__}", f"TensorFlow {tf.__version__}")
    assert [name for name, _ in map(str.split, keras)] == ["Keras", "tf-keras"]
    assert python == f"Python {platform.python_version()}"
    assert system.startswith(platform.system())


def test_tensorflow_that_is_missing_is_said(monkeypatch):
    def version(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    assert "TensorFlow (not installed), Keras (not installed)" in versions.environment()


@pytest.mark.parametrize(
    ("urls", "address"),
    [
        (["Documentation, https://a.example", "Issues, https://b.example/issues"],
         "https://b.example/issues"),
        ([], "the issues of the repository that you have it from"),
    ],
)  # fmt: skip
def test_the_address_of_bugs_is_the_packages(monkeypatch, urls, address):
    metadata = email.message.Message()
    for url in urls:
        metadata["Project-URL"] = url
    monkeypatch.setattr(importlib.metadata, "metadata", lambda name: metadata)
    assert versions.issues() == address
