"""Layouts of the user's own images: splits, classes, and what can be understood in two ways."""

import pytest

from cpc_tf.core.settings import ConfigError
from cpc_tf.data import table
from tests.data.samples import open_folder

pytestmark = pytest.mark.usefixtures("unchecked")

TWO = ("cat", "dog")
SPLITS = ["train/cat/1.png", "train/dog/2.png", "val/dog/3.png", "test/4.png", "test/5.png"]
# Files, split -> (number of the file, label) in order of the files, and the classes.
READ = [
    # in the order of the names: C a b
    (
        ["b.png", "a.PNG", "C.Png"],
        "train",
        [(2, -1), (1, -1), (0, -1)],
        (),
    ),
    (
        ["dog/1.png", "cat/1.png", "dog/deep/2.png", "cat/2.png"],
        "train",
        [(1, 0), (3, 0), (0, 1), (2, 1)],
        TWO,
    ),
    (SPLITS, "train", [(0, 0), (1, 1)], TWO),
    (SPLITS, "val", [(2, 1)], TWO),
    (SPLITS, "validation", [(2, 1)], TWO),
    (SPLITS, "test", [(3, -1), (4, -1)], ()),
    (["val/a.png"], "val", [(0, -1)], ()),  # a split alone
    # No labels without two folders, or with stray images.
    (["one/a.png", "one/b.png"], "train", [(0, -1), (1, -1)], ()),
    (["a.png", "x/b.png", "y/c.png"], "train", [(0, -1), (1, -1), (2, -1)], ()),
]


@pytest.mark.parametrize(("files", "split", "expected", "class_names"), READ)
def test_images_and_labels(tmp_path, cache, write_folder, files, split, expected, class_names):
    source = open_folder(write_folder(tmp_path / "x", files) + "/", split, cache)
    found = [
        (files.index(name), label) for name, label in zip(source.names(), source.labels().tolist())
    ]
    assert (source.num_examples, found, source.class_names) == (
        len(expected),
        expected,
        class_names,
    )
    assert bool(source.about.unlabelled) == (not class_names)


UNDECIDED = [
    ["train/a.png", "car/b.png"],
    ["test/a.png", "car/b.png", "dog/c.png"],
    # as of a well-known data set: a kind of split in each name
    [
        "seg_train/a/b.png",
        "seg_test/a/c.png",
    ],
]


@pytest.mark.parametrize("names", UNDECIDED)
def test_folders_ambiguous_between_splits_and_classes_are_refused(
    tmp_path, cache, write_folder, names
):
    root = write_folder(tmp_path / "x", names)
    with pytest.raises(
        ConfigError,
        match=r"can be splits or classes, .*--top_folders=splits .*--top_folders=classes$",
    ):
        open_folder(root, "train", cache)
    assert open_folder(root, "train", cache, top_folders="classes").num_examples == len(names)
    last = names[-1].split("/")[0]
    assert open_folder(root, last, cache, top_folders="splits").num_examples == 1


@pytest.mark.parametrize(
    ("split", "there", "found"),
    [
        ("train", ["train2014", "train2017"], None),
        ("train2017", ["train2014", "Train-2017"], "Train-2017"),
        ("unlabelled", ["train", "Unlabeled"], "Unlabeled"),
        ("extra", ["Extra"], None),
    ],
)
def test_a_split_is_found_by_its_other_names(split, there, found):
    assert table.find(split, there) == found
