"""A run that is killed at random moments. Stopped by signals, out of room:
tests/end_to_end_test.py.
"""

import re

import numpy as np
import pytest

from tests.training import killed_run


@pytest.mark.slow
def test_randomly_killed_run_ends_bit_for_bit_equal(tmp_path):
    ended = killed_run.kill("efficient", tmp_path, kills=2, seed=0)
    assert re.match(r"efficient: 2 kills; [1-3] runs ended equal, 0 were refused", ended)


def test_differences_are_named():
    one = {"accuracy": 0.5, "kernel": np.ones(3), "bias": np.zeros(2)}
    assert killed_run.differences(one, {**one, "kernel": np.ones(3)}) == []
    other = {"accuracy": 0.6, "kernel": np.array([1, 1, 2.0]), "scale": np.ones(1)}
    assert set(killed_run.differences(one, other)) == {"accuracy", "kernel", "bias", "scale"}
