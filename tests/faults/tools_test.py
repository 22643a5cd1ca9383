"""What the tools that kill runs and try extremes are made of."""

import pathlib

import numpy as np

from tests.faults import extremes
from tests.faults.killed_run import cut, differences, once


def test_differences_are_named():
    one = ({"accuracy": 0.5, "steps": 12}, {"kernel": np.ones(3), "bias": np.zeros(2)})
    assert differences(one, one) == []
    other = ({"accuracy": 0.6, "steps": 12}, {"kernel": np.array([1, 1, 2.0]), "scale": np.ones(1)})
    assert set(differences(one, other)) == {"accuracy", "kernel", "bias", "scale"}


def test_a_cut_is_a_shorter_file(tmp_path):
    (tmp_path / "below").mkdir()
    content = bytes(range(200))
    paths = [tmp_path / "below" / str(number) for number in range(200)]
    for path in paths:
        path.write_bytes(content)
    cut(np.random.default_rng(0), tmp_path)
    lengths = np.array([path.stat().st_size for path in paths])
    assert all(content.startswith(path.read_bytes()) for path in paths)
    assert 20 <= (lengths < 200).sum() <= 60  # a fifth of them
    assert 10 <= (lengths == 0).sum() < (lengths < 200).sum()


def test_extremes_are_the_ends_of_ranges():
    found = list(extremes.extremes("pretrain"))
    assert "--batch_size=1" in found
    assert "--average_decay=0.0" in found
    assert f"--seed={2**32 - 1}" in found
    assert len(found) > 40


def test_a_run_with_an_extreme_ends_or_says_why(tmp_path, monkeypatch):
    said = {}

    class Child:
        exitcode = None

        def __init__(self, target, args):
            assert target is once
            self.log, self.flags = pathlib.Path(args[3]), args[4]

        def start(self):
            text, self.exitcode = said[self.flags[-1]]
            self.log.write_text(text)

        def join(self, seconds=None):
            pass

        kill = join

    monkeypatch.setattr(extremes.SERVER, "Process", Child)
    said["--a"], said["--b"] = ("fine", 0), ("long\n--b: too large", 2)
    said["--c"], said["--d"], said["--e"] = ("Traceback", 1), ("", -11), ("", None)
    found = {flag: extremes.end("linear", tmp_path, 0, flag, 1.0) for flag in said}
    assert found["--a"] == ("ended", "fine")
    assert found["--b"] == ("one line", "--b: too large")
    assert [found[flag][0] for flag in ("--c", "--d", "--e")] == ["broken", "broken", "long"]
