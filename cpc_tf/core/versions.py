"""The versions that the program runs with, in one line, and what it says of an error that is a bug.

It imports no TensorFlow, so that it works where TensorFlow is what fails.
"""

from __future__ import annotations

import importlib.metadata
import platform
import sys
import traceback

import cpc_tf

# Name in the line -> the distributions that bring it, the first that is installed counts.
_PACKAGES = {
    "TensorFlow": ("tensorflow", "tensorflow-tpu", "tensorflow-cpu"),
    "Keras": ("keras",),
    "tf-keras": ("tf-keras",),
}
_ISSUES = "Issues, "  # what a wheel's metadata have before the address; see pyproject.toml


def environment() -> str:
    """Returns the versions: 'cpc-tf 0.1.0, TensorFlow 2.21.0, Keras 3.15.1, tf-keras 2.21.0, Python
    3.12.3, Linux-6.1.0-x86_64-with-glibc2.36'.
    """
    packages = [f"{name} {_version(names)}" for name, names in _PACKAGES.items()]
    return ", ".join(
        [
            f"cpc-tf {cpc_tf.__version__}",
            *packages,
            f"Python {platform.python_version()}",
            platform.platform(),
        ]
    )


def issues() -> str:
    """Returns the address where bugs are reported, or the words for a package that names none."""
    try:
        urls = importlib.metadata.metadata("cpc_tf").get_all("Project-URL") or []
    except importlib.metadata.PackageNotFoundError:  # a folder on Python's path
        urls = []
    for url in urls:
        if url.startswith(_ISSUES):
            return url[len(_ISSUES) :]
    return "the issues of the repository that you have it from"


def print_bug() -> None:
    """Prints the exception that is being handled, with its traceback, as a bug to report."""
    traceback.print_exc(file=sys.stderr)
    print(
        f"This is a bug. Please report it with the command and these lines: {issues()}\n"
        + environment(),
        file=sys.stderr,
        flush=True,
    )


def _version(names: tuple[str, ...]) -> str:
    for name in names:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return "(not installed)"
