"""Slices of folders: disjoint, complete, with their part of each class, the same everywhere."""

import collections

import pytest

from cpc_tf.data.sources import slices
from cpc_tf.data.sources.tree import Tree
from cpc_tf.settings import ConfigError

FILES = sorted(f"train/{name}/{i}.png" for name, count in (("cat", 50), ("dog", 20), ("emu", 5)) for i in range(count))
SPLITS = {"train": FILES, "Validation": ["Validation/cat/1.png", "Validation/dog/1.png"], "unlabelled": ["u/1.png"]}
TREE = Tree("/x", FILES, "", SPLITS, {name: f"{name}/" for name in SPLITS}, "--labelled=x")


def files(split, tree=TREE, seed=0):
    return sorted(file for piece in slices.pieces(split, tree, seed) for file in piece.files)


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
    shuffled = {**SPLITS, "train": FILES[::-1]}
    moved = {"train": [f"elsewhere/{name}" for name in FILES]}
    elsewhere = Tree("/y", moved["train"], "", moved, {"train": "elsewhere/train/"})
    found = files("train[:30%]")
    assert files("train[:30%]", Tree("/x", FILES, "", shuffled, TREE.bases)) == found
    assert files("train[:30%]", elsewhere) == [f"elsewhere/{name}" for name in found]
    assert files("train[:30%]", seed=1) != found
    assert found[:5] != FILES[:5]


def test_an_image_that_is_added_hardly_changes_a_slice():
    more = {**SPLITS, "train": [*FILES, "train/cat/new.png"]}
    assert len(set(files("train[:50%]", Tree("/x", [], "", more, TREE.bases))) ^ set(files("train[:50%]"))) <= 3


def test_splits_together():
    assert files("train+val") == sorted(FILES + SPLITS["Validation"])
    found = slices.pieces("train[:20%] + validation", TREE, 0)
    assert [(piece.split, piece.text) for piece in found] == [("train", "train[:20%]"), ("Validation", "Validation")]


@pytest.mark.parametrize(("strays", "cut", "own"), [(100, "80%", 20), (3, "60", 0)])
def test_images_without_a_label_are_cut_by_themselves(strays, cut, own):
    """Those with labels are cut alike whether the others are there or not, which few enough do not forbid."""
    stray = [f"train/{i}.png" for i in range(strays)]
    with_stray = Tree("/x", [], "", {"train": [*FILES, *stray]}, TREE.bases)
    found = files(f"train[{cut}:]", with_stray)
    assert [file for file in found if file not in stray] == files(f"train[{cut}:]")
    assert len({*found} & {*stray}) == own
    assert files(f"train[:{cut}]", with_stray) == sorted({*FILES, *stray} - {*found})


@pytest.mark.parametrize(
    ("split", "message"),
    [
        ("train[:101%]", r"--split=train\[:101%\]: \[:101%\] is no slice of its 75 images"),
        ("train[:500]", r"\[:500\] is no slice of its 75 images, such as \[:80%\]"),
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
    of = {name: name.split("/")[1] for name in FILES}
    of |= {"train/one/1.png": "one", "train/0.png": "", "train/1.png": ""}
    found = slices.held_out([*of], of, "train/", 0, 0.2)
    assert classes(found) == {"cat": 10, "dog": 4, "emu": 1}  # at least one each, none of a class of one image
    assert found == slices.held_out([*reversed(of)], of, "train/", 0, 0.2)
    assert found != slices.held_out([*of], of, "train/", 1, 0.2)
