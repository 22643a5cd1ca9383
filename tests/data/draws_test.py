"""Copies of one file and groups of a table: found, and on one side of whatever is drawn."""

import collections

import numpy as np
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from cpc_tf.data import catalog, check, draws
from cpc_tf.data.config import PicturesConfig
from cpc_tf.data.splits import select
from cpc_tf.data.table import Table
from cpc_tf.efficient.config import LabelsConfig
from cpc_tf.efficient.inputs import choose_labels
from tests.data.samples import write_files

pytestmark = pytest.mark.usefixtures("unchecked")


def test_only_files_of_the_same_content_are_copies(tmp_path, cache, monkeypatch):
    begin, end = b"0" * 9000, b"1" * 9000
    files = {
        "a": b"12",
        "b": b"21",
        "c": b"12",
        "x/d": begin + end,
        "e": end + end,
        "f": begin + end,
        "g": b"",
        "h": b"",
    }
    write_files(tmp_path, files)
    table = Table(str(tmp_path), np.array(sorted(files), object), {}, {}, cache_dir=cache)
    wanted = {0: 0, 2: 0, 4: 4, 7: 4}  # a, c; f, x/d
    assert draws.copies(table, range(8)) == wanted
    monkeypatch.setattr(check, "content", None)  # remembered
    assert draws.copies(table, range(8)) == wanted
    assert draws.copies(table, [0, 7]) == {}


def test_groups_that_share_a_file_are_one():
    found = draws.joined({"a": "a", "c": "a", "x": "x"}, {"c": "p", "d": "p", "e": "q"})
    assert found == dict.fromkeys("acd", "a")


def test_draw_takes_whole_groups_of_each_class():
    group_of = dict(zip("abcdefghij", [1, 1, 1, 2, 2, 3, 4, 5, 6, 7]))
    assert draws.last_part(["abcdefgh", "ij"], group_of.get, 0.2) == {"g", "h", "j"}
    assert draws.last_part(["abc", "de"], group_of.get, 0.5) == set(), (
        "a class of one group keeps it"
    )
    assert draws.last_part(["abcde"], group_of.get, 0.1) == {
        "d",
        "e",
    }, "the smaller of two that are too large"
    assert draws.last_part(["abdf", "ceg"], group_of.get, 0.5) >= {"f", "g"}, "of two classes"
    drawn = np.random.default_rng(0).permutation(40).tolist()
    assert draws.last_part([drawn], lambda item: item, 0.2) == {*drawn[-8:]}


@pytest.fixture
def pictures(tmp_path, cache, write_folder):
    """Settings of ten images a class with copies, {copy: its original}, and with a table."""

    def pictures(copies=(), table="", **settings):
        files = [f"{name}/{i}.png" for name in ("cat", "dog") for i in range(10)]
        root = write_folder(tmp_path / "x", files)
        write_files(
            tmp_path / "x",
            {copy: (tmp_path / "x" / name).read_bytes() for copy, name in dict(copies).items()},
        )
        if table:
            (tmp_path / "labels.csv").write_text(table)
            settings["labels"] = str(tmp_path / "labels.csv")
        return PicturesConfig(**{"labelled": root, "data_dir": cache, **settings})

    return pictures


def test_copies_share_a_side_of_every_draw(pictures):
    data = pictures(
        {f"{name}/{i} - Copy.png": f"{name}/{i}.png" for name in ("cat", "dog") for i in range(10)}
    )
    pair = catalog.open_pair(data, "test")
    learned, tested = (
        {name.replace(" - Copy", "") for name in source.names()} for source in pair[:2]
    )
    assert not learned & tested
    assert pair.test_source.class_counts().tolist() == [4, 4]
    assert "kept together: 40 images in 20 groups, of copies of one image" in pair.summary
    assert "copies of training images" not in pair.summary
    said = catalog.open_pair(pictures({"dog/x.png": "cat/0.png"}), "test").summary
    assert "1 image has another label than a copy: dog/x.png (cat/0" in said
    half = catalog.open_source(data, "train[:50%]").names()
    assert {*collections.Counter(name.replace(" - Copy", "") for name in half).values()} == {2}


@pytest.mark.usefixtures("checked")
def test_images_with_equal_pixels_share_a_side(pictures, tmp_path):
    """Their files differ in a date that programs write into them, or in the format."""
    data = pictures()
    for name in ("cat", "dog"):
        for i in range(10):
            image = Image.fromarray(np.full([2, 2, 3], 100 * (name == "dog") + i, np.uint8))
            about = PngInfo()
            about.add_text("date", "x")
            image.save(tmp_path / "x" / name / f"{i}.png")
            image.save(tmp_path / "x" / name / f"{i} again.png", pnginfo=about)
            image.save(tmp_path / "x" / name / f"{i} again.bmp")
    pair = catalog.open_pair(data, "test")
    learned, tested = (
        {name.partition(".")[0].partition(" ")[0] for name in source.names()} for source in pair[:2]
    )
    assert not learned & tested
    assert np.unique(pair.source.groups(), return_counts=True)[1].tolist() == [3] * 16
    (tmp_path / "x" / "dog" / "0 of a cat.bmp").write_bytes(
        (tmp_path / "x" / "cat" / "0 again.bmp").read_bytes()
    )
    assert (
        "1 image has another label than a copy: dog/0 of a cat.bmp (cat/0"
        in catalog.open_pair(data, "test").summary
    )


def test_copies_in_both_splits_are_counted_and_named(pictures):
    copies = {f"train/{i % 2}/{i}.png": f"cat/{i}.png" for i in range(4)}
    copies |= {
        "test/0/a.png": "cat/0.png",
        "test/1/b.png": "cat/2.png",
        "test/0/c.png": "cat/6.png",
    }
    said = catalog.open_pair(pictures(copies, top_folders="splits"), "test").summary
    line = "2 test images are copies of training images: the accuracy on them is too high: "
    assert f"{line}test/0/a.png (train/0/0.png), test/1/b.png (train/0/2.png)" in said
    assert "1 image has another label than a copy: train/0/2.png (test/1/b.png)" in said


def test_table_groups_share_a_side_without_pool_copies(pictures, tmp_path):
    number = {f"{name}/{i}.png": i for name in ("cat", "dog") for i in range(10)}
    rows = [f"{name},{name[:3]},{'nan' if i == 9 else f'p{i // 3}'}" for name, i in number.items()]
    data = pictures(
        {"loose.png": "cat/9.png"}, "\n".join(["file,label,group", *rows, "loose.png,,p0"])
    )
    pair = catalog.open_pair(data, "test")
    side = collections.defaultdict(set)
    for part, source in enumerate(pair[:2]):
        for name in source.names():
            side[name if number[name] == 9 else number[name] // 3].add(part)
    assert sorted(map(str, side)) == ["0", "1", "2", "cat/9.png", "dog/9.png"], "nan is no group"
    assert all(len(parts) == 1 for parts in side.values())
    assert set().union(*side.values()) == {0, 1}
    # What is held out of the labels, too.
    group_of = pair.source.groups()
    labels = choose_labels(
        pair.source.labels(), ("cat", "dog"), LabelsConfig(held_out=0.3), 0, group_of
    )
    assert len(labels.held_out)
    assert not {*group_of[labels.fit]} & {*group_of[labels.held_out]}
    # Copies of what is tested or labelled, under another name, are not taken without their labels.
    write_files(
        tmp_path / "y", {"copy.png": (tmp_path / "x/cat/1.png").read_bytes(), "own.png": b"other"}
    )
    pool = catalog.open_source(
        pictures(labels=data.labels, unlabelled=f"{tmp_path}/y"), "unlabelled"
    )
    assert pool.names() == ["y/own.png"]


def test_a_group_in_both_split_folders_is_said(pictures):
    table = (
        "file,label,group\ntrain/1.png,a,p1\ntrain/2.png,b,p2\ntest/3.png,a,p1\ntest/4.png,b,p3\n"
    )
    copies = {f"{'train' if i < 3 else 'test'}/{i}.png": f"cat/{i}.png" for i in range(1, 5)}
    said = catalog.open_pair(pictures(copies, table, top_folders="splits"), "test").summary
    assert (
        "1 test images share a group with training images: the accuracy on them is too"
        " high: test/3.png" in said
    )


def test_a_slice_ends_where_a_group_ends():
    files = [f"{i:02}.png" for i in range(30)]
    labels = np.full(30, None, object)
    for row in range(20):
        labels[row] = ("a",)
    groups = np.array([str(row // 6) for row in range(30)], object)
    rows = {"train": np.arange(30)}
    table = Table("/x", np.array(files, object), rows, {"train": ""}, labels=labels, groups=groups)
    for cut in ("50%", "7"):
        first, second = (
            {*select(table, part, 0)[0].rows} for part in (f"train[:{cut}]", f"train[{cut}:]")
        )
        assert sorted(first | second) == [*range(30)]
        assert not {row // 6 for row in first} & {row // 6 for row in second}
