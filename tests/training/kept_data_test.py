"""A run keeps its data: what has changed is said in words. Each task refuses it in
tests/conformance_test.py.
"""

import pathlib
import re

import pytest

from cpc_tf.core import cli
from cpc_tf.core.settings import ConfigError
from cpc_tf.data import source as sources
from cpc_tf.data.source import Examples
from cpc_tf.linear.config import LinearConfig
from cpc_tf.training.kept_data import FILE, differences, keep_data, keep_intensity_range
from cpc_tf.training.strategy import make_strategy
from cpc_tf.training.workdir import Workdir

STRATEGY = make_strategy("single")
CATS_AND_DOGS = {f"{i}.jpg": [10 + i, "cat" if i % 2 else "dog"] for i in range(8)}


class Files(Examples):
    """Examples of which nothing is known but {file: [bytes, mark]}."""

    stream = ordered = None

    def __init__(self, files, class_names=("cat", "dog"), marked="label", edition=""):
        self.num_examples, self.class_names, self._files = len(files), class_names, files
        self.marked, self.edition = marked, edition

    def files(self):
        yield from ((name, size, mark) for name, (size, mark) in self._files.items())


def inventories(train, test=None, **about):
    """{flag: inventory} of one or two splits."""
    splits = {"--split": train, **({"--test_split": test} if test else {})}
    return {flag: Files(files, **about).inventory() for flag, files in splits.items()}


def but(changed, *gone):
    """The cats and dogs with other files."""
    return {name: value for name, value in {**CATS_AND_DOGS, **changed}.items() if name not in gone}


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (but({}), []),
        (but({"8.jpg": [1, "cat"], "a\n.jpg": [1, ""]}), [r"2 files were added: 8.jpg, a\n.jpg"]),
        (but({}, "0.jpg"), ["1 file was removed: 0.jpg"]),
        (but({"1.jpg": [9999, "cat"]}), ["1 file was changed: 1.jpg (11 bytes, now 9,999)"]),
        (
            but({f"{i}.jpg": [10 + i, "dog"] for i in range(8)}),
            [
                "4 labels were changed: 1.jpg (cat, now dog), 3.jpg (cat, now dog), 5.jpg (cat, now"
                " dog) and 1 more"
            ],
        ),
        (but({"1.jpg": [11, ""]}), ["1 label was changed: 1.jpg (cat, now none)"]),
        (
            but({"1.jpg": [11, "dog"], "8.jpg": [1, "cat"]}, "0.jpg"),
            [
                "1 file was added: 8.jpg",
                "1 file was removed: 0.jpg",
                "1 label was changed: 1.jpg (cat, now dog)",
            ],
        ),
    ],
)
def test_what_has_changed_is_counted_and_named(now, said):
    assert differences(inventories(CATS_AND_DOGS), inventories(now)) == said


def test_file_moved_between_splits_is_reported_as_moved():
    """As an image more makes many do where a fifth is drawn for the test."""
    train, test = but({}, "7.jpg"), {"7.jpg": CATS_AND_DOGS["7.jpg"]}
    now = inventories(but({"8.jpg": [1, "cat"]}, "0.jpg"), {"0.jpg": CATS_AND_DOGS["0.jpg"]})
    assert differences(inventories(train, test), now) == [
        "1 file was added: 8.jpg",
        (
            "2 files were moved to another split: 0.jpg (--split, now --test_split), 7.jpg"
            " (--test_split, now --split)"
        ),
    ]


def test_what_is_no_file_is_said_too(monkeypatch):
    before = inventories(CATS_AND_DOGS, edition="pets/1.0.0")
    assert differences(before, inventories(CATS_AND_DOGS, edition="pets/2.0.0")) == [
        "--split is of pets/2.0.0, not of pets/1.0.0"
    ]
    more = inventories(CATS_AND_DOGS, class_names=("cat", "dog", "emu"), edition="pets/1.0.0")
    assert differences(before, more) == ["1 class was added: emu"]
    assert differences(more, before) == ["1 class was removed: emu"]
    other = inventories(CATS_AND_DOGS, class_names=("dog", "cat"), edition="pets/1.0.0")
    assert differences(before, other) == [
        "--split: files, their sizes, labels or the order of classes"
    ]
    boxes = [inventories({"1.jpg": [1, mark]}, marked="boxes") for mark in "ab"]
    assert differences(*boxes) == ["1 image was given other boxes: 1.jpg"]
    # A split that one of them alone has is not compared: another --probe_split.
    assert (
        differences({"--probe_split=a": before["--split"]}, {"--probe_split=b": more["--split"]})
        == []
    )
    # Of very many files only the number is known, and whether all are the same.
    monkeypatch.setattr(sources, "MOST_LISTED", 8)
    many = inventories(but({"8.jpg": [1, "cat"]}), edition="pets/1.0.0")
    assert many["--split"]["files"] is None
    assert differences(before, many) == ["--split has 9 images, not 8"]
    assert differences(many, inventories(but({"9.jpg": [1, "cat"]}), edition="pets/1.0.0")) == [
        "--split: files, their sizes, labels or the order of classes"
    ]


@pytest.fixture
def keep(tmp_path):
    """Keeps some files as the data of a run."""
    config = cli.parse(LinearConfig, [f"--workdir={tmp_path}/run", "--encoder=random:module"])

    def keep(files, **splits):
        workdir = Workdir(config, "linear")
        keep_data(workdir, STRATEGY, {"split": Files(files), **splits})
        return workdir

    return keep


CHANGED = but({"1.jpg": [11, "dog"]})


def test_started_run_refuses_other_data_and_states_progress(keep):
    refused = keep(CHANGED)  # for another reason, before it has learned anything
    assert not pathlib.Path(refused.path).exists()
    keep(CATS_AND_DOGS).begin(0)
    recorded = pathlib.Path(keep(CATS_AND_DOGS).file(FILE)).read_bytes()
    said = (
        r"^--workdir=\S+: holds a run that began with other data: 1 label was changed: 1.jpg \(cat,"
        r" now dog\); put "
    )
    for _ in range(2):
        with pytest.raises(
            ConfigError, match=said + "the data back as they were, or use another --workdir"
        ):
            keep(CHANGED)
    workdir = keep(CATS_AND_DOGS, unlabelled=None, probe_split=Files(CHANGED))
    workdir.finish({"steps": 1})
    with pytest.raises(
        ConfigError, match="holds a finished run, which began with other data: 1 label"
    ):
        keep(CHANGED)
    # the split that came later is compared as well
    with pytest.raises(ConfigError, match="1 file was added: 8.jpg"):
        keep(CATS_AND_DOGS, probe_split=Files(but({**CHANGED, "8.jpg": [1, "cat"]})))
    keep(CATS_AND_DOGS)
    assert recorded != pathlib.Path(workdir.file(FILE)).read_bytes()


@pytest.mark.parametrize("left", [None, b"", b"\x1f\x8b\x08", b"no gzip"])
def test_run_without_data_record_resumes_and_writes_one(keep, left, caplog):
    workdir = keep(CATS_AND_DOGS)
    workdir.begin(0)
    path = pathlib.Path(workdir.file(FILE))
    if left is None:
        path.unlink()
    else:
        path.write_bytes(left)
    keep(CHANGED)
    assert ("whether the data have changed is not known" in caplog.text) == (left is not None)
    with pytest.raises(ConfigError, match=re.escape("1.jpg (dog, now cat)")):
        keep(CATS_AND_DOGS)


@pytest.mark.parametrize(
    ("kept", "others", "why"),
    [
        (
            (1000.0, 1400.0),
            (1000.0, 1401.0),
            "began with 1000 to 1400 as .* now give 1000 to 1401; put",
        ),
        ((1000.0, 1400.0), None, "now give the upper 8 bits"),
        (None, (1000.0, 1400.0), "began with the upper 8 bits"),
    ],
)
def test_a_run_keeps_its_intensity_range(kept, others, why, tmp_path):
    workdir = Workdir(
        cli.parse(LinearConfig, [f"--workdir={tmp_path}/run", "--encoder=hub"]), "linear"
    )
    if kept:
        # the first start was refused before the run began
        keep_intensity_range(workdir, (900.0, 1300.0))
    keep_intensity_range(workdir, kept)
    workdir.begin(0)
    keep_intensity_range(workdir, kept)
    with pytest.raises(ConfigError, match=why):
        keep_intensity_range(workdir, others)
