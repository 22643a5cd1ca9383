"""Slices of folders: disjoint, complete, with their part of each class, the same everywhere."""

import collections

import numpy as np
import pytest

from cpc_tf.core.settings import ConfigError
from cpc_tf.data import draws, splits, table

FILES = sorted(
    f"train/{name}/{i}.png"
    for name, count in (("cat", 50), ("dog", 20), ("emu", 5))
    for i in range(count)
)
SPLITS = {
    "train": FILES,
    "Validation": ["Validation/cat/1.png", "Validation/dog/1.png"],
    "unlabelled": ["u/1.png"],
}
BASES = {name: f"{name}/" for name in SPLITS}


def table_of(splits=SPLITS, bases=BASES):
    names = sorted(name for own in splits.values() for name in own)
    rows = {split: np.array([names.index(name) for name in own]) for split, own in splits.items()}
    return table.Table("/x", np.array(names, object), rows, bases, "--labelled=x")


TABLE = table_of()


def files(split, of=TABLE, seed=0):
    return sorted(name for piece in splits.select(of, split, seed) for name in of.names[piece.rows])


def classes(found):
    return dict(collections.Counter(file.split("/")[1] for file in found))


@pytest.mark.parametrize("cut", ["80%", "10", "33.3%", "-7", "-20%"])
def test_two_slices_are_the_whole(cut):
    assert sorted(files(f"train[:{cut}]") + files(f"train[{cut}:]")) == FILES
    assert files(f"train[:{cut}]+train[{cut}:]") == FILES


def test_slices_have_their_part_of_each_class():
    assert classes(files("train[:80%]")) == {"cat": 40, "dog": 16, "emu": 4}
    assert classes(files("train[80%:]")) == {"cat": 10, "dog": 4, "emu": 1}
    assert classes(files("train[20%:40%]")) == {"cat": 10, "dog": 4, "emu": 1}
    assert set(files("train[:10]")) < set(files("train[:20]"))


def test_the_draw_depends_on_seed_and_names_alone():
    elsewhere = table_of(
        {"train": [f"elsewhere/{name}" for name in FILES]}, {"train": "elsewhere/train/"}
    )
    found = files("train[:30%]")
    assert files("train[:30%]", table_of({**SPLITS, "train": FILES[::-1]})) == found
    assert files("train[:30%]", elsewhere) == [f"elsewhere/{name}" for name in found]
    assert files("train[:30%]", seed=1) != found
    assert found[:5] != FILES[:5]


def test_paths_do_not_depend_on_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    of = table.Table("x", np.array(["cat/1.png"], object), {}, {})
    assert of.paths.tolist() == [f"{tmp_path}/x/cat/1.png"]


def test_added_image_hardly_changes_a_slice():
    more = {**SPLITS, "train": [*FILES, "train/cat/new.png"]}
    assert len(set(files("train[:50%]", table_of(more))) ^ set(files("train[:50%]"))) <= 3


def test_splits_together():
    assert files("train+val") == sorted(FILES + SPLITS["Validation"])
    found = splits.select(TABLE, "train[:20%] + validation", 0)
    assert [(piece.name, piece.text) for piece in found] == [
        ("train", "train[:20%]"),
        ("Validation", "Validation"),
    ]


@pytest.mark.parametrize(("strays", "cut", "own"), [(100, "80%", 20), (3, "60", 0)])
def test_images_without_a_label_are_cut_by_themselves(strays, cut, own):
    """Those with labels are cut alike whether the others are there or not, which few enough do not
    forbid.
    """
    stray = [f"train/{i}.png" for i in range(strays)]
    with_stray = table_of({"train": [*FILES, *stray]})
    found = files(f"train[{cut}:]", with_stray)
    assert [file for file in found if file not in stray] == files(f"train[{cut}:]")
    assert len({*found} & {*stray}) == own
    assert files(f"train[:{cut}]", with_stray) == sorted({*FILES, *stray} - {*found})


@pytest.mark.parametrize(
    ("split", "message"),
    [
        (
            "train[:101%]",
            r"--split=train\[:101%\]: \[:101%\] is not a valid slice of its 75 images",
        ),
        ("train[:500]", r"\[:500\] is not a valid slice of its 75 images, such as \[:80%\]"),
        ("train[5:5]", "has no image"),
        ("train[:x]", "x has Validation, train, unlabelled"),
        ("train+", "x has Validation"),
        ("extra+train", "x has Validation"),
        ("train[:60%]+train[50%:]", "has 7 images twice"),
    ],
)
def test_what_is_no_slice_is_refused(split, message):
    with pytest.raises(ConfigError, match=message):
        files(split)


def test_the_part_that_is_held_out():
    of = {
        "train/0.png": "",
        "train/1.png": "",
        **{name: name.split("/")[1] for name in FILES},
        "train/one/1.png": "one",
    }
    names, class_of = (np.array([*each], object) for each in (of.keys(), of.values()))

    def held_out(rows, seed=0):
        return [names[row] for row in draws.held_out(names, rows, class_of, seed, 0.2)]

    rows = range(len(names))
    found = held_out(rows)
    # at least one each, none of a class of one image
    assert classes(found) == {
        "cat": 10,
        "dog": 4,
        "emu": 1,
    }
    assert found == held_out(rows[::-1])
    assert found != held_out(rows, seed=1)
