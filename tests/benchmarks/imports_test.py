"""Benchmarks, studies and the site can be imported beside each other: a script's flags are defined when it is run."""

import importlib
import pkgutil

import pytest
from absl import flags

import benchmarks
import studies
import website

# Scripts of environments of their own, with JAX, PyTorch and OpenCV; they have no flags of absl.
ELSEWHERE = {"benchmarks.compile", "benchmarks.train_step_torch", "benchmarks.augment_opencv"}


@pytest.mark.slow
def test_no_import_defines_a_flag():
    for package in (benchmarks, studies, website):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if module.name not in ELSEWHERE and not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    defined = flags.FLAGS.flags_by_module_dict()
    assert [name for name in defined if name.startswith(("benchmarks.", "studies.", "website."))] == []
