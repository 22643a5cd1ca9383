"""Folders as people have them: without a test, with a table of labels, with images that have
none.
"""

import numpy as np
import pytest

from cpc_tf.core.settings import ConfigError
from cpc_tf.data import catalog
from cpc_tf.data.config import PicturesConfig
from cpc_tf.data.source import restricted
from tests.data.samples import write_files

pytestmark = pytest.mark.usefixtures("unchecked")

CLASSES = [f"{name}/{i}.png" for name, count in (("cat", 10), ("dog", 5)) for i in range(count)]
FLAT = [f"{i}.png" for i in range(40)]
TABLE = "".join(f"{i}.png,{'cat' if i < 10 else 'dog'}\n" for i in range(20))


@pytest.fixture
def pictures(tmp_path, cache, write_folder):
    """Settings of a folder with these files, and with a table if there is one."""

    def pictures(files=CLASSES, table="", **settings):
        root = write_folder(tmp_path / "x", files)
        if table:
            (tmp_path / "labels.csv").write_text(table)
            settings["labels"] = str(tmp_path / "labels.csv")
        return PicturesConfig(**{"labelled": root, "data_dir": cache, **settings})

    return pictures


def test_a_fifth_of_each_class_is_the_test(pictures):
    data = pictures()
    pair = catalog.open_pair(data, "test")
    assert pair.source.class_counts().tolist() == [8, 4]
    assert pair.test_source.class_counts().tolist() == [2, 1]
    assert sorted(pair.source.names() + pair.test_source.names()) == CLASSES
    assert pair.summary.split("\n") == [
        f"--labelled={data.labelled}",
        "  --split=train: 12 images of 2 classes: cat 8, dog 4",
        "  --test_split=test: 3 images of 2 classes: cat 2, dog 1",
        "  no folder val or test: a fifth of each class is the split test, drawn with seed 0",
    ]
    # Of pre-training, too.
    assert catalog.open_source(data, "train").names() == pair.source.names()
    assert catalog.open_pair(data, "val").test_source.names() == pair.test_source.names()


def test_a_folder_val_is_the_test(pictures):
    data = pictures(
        [f"{split}/{name}/{i}.png" for split in ("train", "val") for name in "ab" for i in range(3)]
    )
    pair = catalog.open_pair(data, "test")
    assert pair.test_source.names() == [f"val/{name}/{i}.png" for name in "ab" for i in range(3)]
    assert "--test_split=test (found as val): 6 images" in pair.summary


def test_slices_for_training_and_test(pictures):
    data = pictures(split="train[:60%]", dataset=f"folder:{pictures().labelled}", labelled="")
    pair = catalog.open_pair(data, "train[60%:]")
    assert (pair.source.num_examples, pair.test_source.num_examples) == (9, 6)
    assert not {*pair.source.names()} & {*pair.test_source.names()}
    assert "--split=train[:60%]: 9 images of 2 classes: cat 6, dog 3" in pair.summary
    assert "not used" not in pair.summary
    assert (
        "5 test images are also in the training split"
        in catalog.open_pair(pictures(split="train"), "train[60%:]").summary
    )


def test_a_flat_folder_with_a_table(pictures):
    data = pictures(FLAT, TABLE)
    pair = catalog.open_pair(data, "test")
    assert pair.source.class_names == ("cat", "dog")
    assert pair.source.class_counts().tolist() == [8, 8]
    assert pair.test_source.class_counts().tolist() == [2, 2]
    assert (
        "left out: 20 of 36 images of train have no label in --labels, e.g. 20.png" in pair.summary
    )
    assert pair.summary.startswith(f"--labelled={data.labelled} --labels={data.labels}\n")
    # Pre-training takes all but the test.
    assert sorted(catalog.open_source(data, "train").names() + pair.test_source.names()) == sorted(
        FLAT
    )


def test_the_table_counts_and_not_the_folders(pictures):
    table = "".join(f"{name},{'even' if i % 2 else 'odd'}\n" for i, name in enumerate(CLASSES))
    assert catalog.open_pair(pictures(CLASSES, table), "test").source.class_names == ("even", "odd")


REFUSED = [
    (
        TABLE + "99.png,cat\n",
        r"--labels=.*: 1 of 21 rows \(4.76 %\) name no image in .*, more than 1 %.*: 99.png",
    ),
    ("99.png,cat\n", "none of its 1 files is in"),
    ("1.png,cat\n2.png,cat\n", "no labels in it, .*cat is its only class"),
    (
        "1.png,cat\n2.png,dog\n",
        "--test_split=test: .* nothing can be held out .*, since no class there has two images",
    ),
    ("1.png,cat\n2.png,Cat\n3.png,cat\n4.png,Cat", "differ only in capitals"),
    (
        "".join(f"{i}.png,{('0', '0.0', '1', '2')[i % 4]}\n" for i in range(40)),
        '"0" and "0.0" in train are the same number',
    ),
    (
        "".join(f"{i}.png,{('cat', 'NaN')[i % 2]}\n" for i in range(20)),
        "classes in --labels that are possibly not classes: NaN: .*=cl",
    ),
    (
        "a.tif,cat\nb.tif,dog\n",
        "none of its 2 files is in .*, e.g. a.tif, b.tif; which has 0.png, 1.png, 10.png$",
    ),
]


@pytest.mark.parametrize(("table", "message"), REFUSED)
def test_tables_that_do_not_fit_are_refused(pictures, table, message):
    with pytest.raises(ConfigError, match=message):
        catalog.open_pair(pictures(FLAT, table), "test")


def test_blanks_and_placeholder_words_are_no_label(pictures):
    for several in ("", ";bird"):
        texts = ["cat", "dog" + several, "cat", "dog", "", "n/a", "unlabelled", "dog;unknown"]
        table = "".join(
            f"{i}.png,{text}\n" for i, text in enumerate(4 * texts if several else 4 * texts[:-1])
        )
        pair = catalog.open_pair(pictures(FLAT, table, ambiguous_folders="left_out"), "test")
        assert pair.source.class_names == (("bird",) if several else ()) + ("cat", "dog")
        assert pair.source.num_examples + pair.test_source.num_examples == (20 if several else 16)
        unknown = ", unknown (4)" if several else ""
        assert (
            "names in --labels that are read as no label yet, like a blank:"
            f" n/a (4), unlabelled (4){unknown}" in pair.summary
        )
    pair = catalog.open_pair(pictures(FLAT, table, ambiguous_folders="classes"), "test")
    assert pair.source.class_names == ("bird", "cat", "dog", "n/a", "unknown")


def test_the_header_of_a_table_may_be_unknown(pictures):
    pair = catalog.open_pair(pictures(FLAT, "what,kind\n" + TABLE), "test")
    assert "line 1 of --labels is read as a header: what" in pair.summary


def test_class_of_one_image_is_not_empty(pictures):
    pair = catalog.open_pair(pictures([*CLASSES, "one/1.png"]), "test")
    assert "of 3 classes: cat 8, dog 4, one 1" in pair.summary
    assert "folders without an image" not in pair.summary


def test_ambiguous_class_folders_are_asked_about(pictures, tmp_path):
    files = [*CLASSES, "to-label/0.png", "to-label/1.png"]
    data = pictures(files)
    (tmp_path / "x/emu").mkdir()
    with pytest.raises(
        ConfigError,
        match=r"^--labelled=.*possibly not classes: to-label, emu: .*=classes .*=left_out ",
    ):
        catalog.open_pair(data, "test")
    assert "see --ambiguous_folders" in catalog.open_source(data, "train").about.unlabelled
    pair = catalog.open_pair(pictures(files, ambiguous_folders="classes"), "test")
    assert pair.source.class_names == ("cat", "dog", "to-label")
    assert "folders without an image: emu" in pair.summary
    pair = catalog.open_pair(pictures(files, ambiguous_folders="left_out"), "test")
    assert pair.source.class_names == ("cat", "dog")
    assert "images of train are in no class folder, e.g. to-label/" in pair.summary


def test_unlabelled_pictures_beside_labelled_ones(pictures, tmp_path):
    other = str(tmp_path / "other")
    write_files(
        tmp_path / "other", {name: name for name in ("cat/1.png", "unknown/2.png", "train/3.png")}
    )
    data = pictures(unlabelled=f"{tmp_path}/x,{other}")
    source = catalog.open_source(data, "train")
    test = catalog.open_pair(pictures(), "test").test_source.names()
    wanted = {f"x/{name}" for name in CLASSES} - {f"x/{name}" for name in test}
    assert {*source.names()} == wanted | {
        "other/cat/1.png",
        "other/unknown/2.png",
        "other/train/3.png",
    }
    assert source.class_names == ()
    said = catalog.summarized(data, [catalog.summary_of("split", "train", source)])
    assert (
        "--split=train (found as train+unlabelled): 15 images without labels: labels are not used"
        in said
    )
    assert "not used: the split test (3 images)" in said
    assert (
        "15 images of --unlabelled are also in --labelled, with a label or in the test: only those"
        " in --split are used" in said
    )
    assert catalog.open_probe(data, "").class_counts().tolist() == [8, 4]


def test_labelled_images_outside_a_slice_leave_the_pool(pictures, tmp_path):
    """As of 20 labelled images in a flat folder of 40, which is unlabelled, too."""
    data = pictures(FLAT, TABLE, unlabelled=f"{tmp_path}/x/../x")
    rest = {
        *catalog.open_pair(
            pictures(FLAT, TABLE, split="train[:50%]"), "train[50%:]"
        ).test_source.names()
    }
    found = catalog.open_source(data, "train[:50%]").names()
    assert {*found} == {*FLAT} - rest - {*catalog.open_pair(data, "test").test_source.names()}
    assert len(catalog.open_source(data, "unlabelled[:50%]").names()) == 10


@pytest.mark.slow
@pytest.mark.usefixtures("checked")
def test_broken_files_of_a_pool_name_both_folders(pictures, tmp_path, write_folder):
    other = write_folder(tmp_path / "other", ["1.png"])
    (tmp_path / "other/2.png").write_bytes(b"no")
    with pytest.raises(
        ConfigError, match=r"^--labelled=\S*/x --unlabelled=\S*/other: 1 of .* other/2.png"
    ):
        catalog.open_source(pictures(unlabelled=other), "train")


def test_unlabelled_pictures_alone(pictures, tmp_path):
    data = pictures([*CLASSES, "loose.png"])
    data = PicturesConfig(unlabelled=data.labelled, data_dir=data.data_dir, dataset="folder:preset")
    source = catalog.open_source(data, "train")
    assert source.names() == sorted([*CLASSES, "loose.png"])
    assert catalog.open_source(data, "unlabelled[:50%]").num_examples == 8
    assert catalog.open_probe(data, "") is None
    said = catalog.summarized(data, [catalog.summary_of("split", "train", source)])
    assert (
        said.split("\n")[-1] == "  not used: --dataset=folder:preset, since --unlabelled is given"
    )


def test_multi_label_pictures(pictures, tmp_path):
    """Every 5th is a rare bird, too; the last of the table has no class, and those after it have no
    row.
    """
    rows = [("cat", "dog")[i % 2] + (";bird" if i % 5 == 0 else "") for i in range(30)] + [
        "no class"
    ]
    data = pictures(FLAT, "".join(f"{i}.png,{row}\n" for i, row in enumerate(rows)))
    pair = catalog.open_pair(data, "test")
    assert pair.source.class_names == ("bird", "cat", "dog")
    assert pair.source.multi_label
    assert (
        "multi-label images in train: 30 labels of 26 images; 1 images have no class"
        in pair.summary
    )
    assert "--split=train: 26 images of 3 classes: bird 5, cat 1" in pair.summary
    for source in pair[:2]:
        for name, label, example in zip(
            source.names(), source.labels(), source.ordered().as_numpy_iterator()
        ):
            wanted = rows[int(name.partition(".")[0])].split(";")
            assert [text for text, own in zip(source.class_names, label) if own] == sorted(
                {*wanted} - {"no class"}
            )
            assert label.dtype == example["label"].dtype == np.float32
            assert label.tolist() == example["label"].tolist()
    assert pair.test_source.class_counts()[0] == 1  # a fifth of the rarest
    pool = catalog.open_source(
        pictures(FLAT, labels=data.labels, unlabelled=f"{tmp_path}/x"), "train"
    )
    assert pool.class_names == ()
    assert {*pool.names()} == {*FLAT} - {*pair.test_source.names()}
    some = restricted(pair.source, np.array([1, 3]))
    assert some.multi_label
    np.testing.assert_array_equal(some.labels(), pair.source.labels()[[1, 3]])


def test_unused_columns_of_a_table_are_reported(pictures):
    rows = [f"{name},{'red cat' if i % 2 else 'red dog'},test,4" for i, name in enumerate(FLAT)]
    table = "\n".join(["file,label,split,x y", *rows, "9.png,red cat,test,4"])
    assert (
        "not used: split, x y; splits are folders such as train"
        in catalog.open_pair(pictures(FLAT, table), "test").summary
    )
    table = table.replace("split,x y", "xmin,ymin").replace("red ", "") + ",cup cat,cup dog"
    said = catalog.open_pair(pictures(FLAT, table.rpartition("\n")[0]), "test").summary
    assert "not used: xmin, ymin; boxes are read by --boxes" in said
    table = "".join(
        f"/of/another/{i}.png,{('cat', 'dog', 'cat box', 'dog box')[i % 4]}\n" for i in range(40)
    )
    said = catalog.open_pair(pictures(FLAT, table), "test").summary
    assert "name folders that do not exist, and are matched without them in" in said
    assert (
        "class names with several words that other class names have, too: cat box, dog box; each is"
        " read as one class" in said
    )


def test_a_class_with_a_line_break_is_refused(pictures):
    table = '1.png,"cat\nx"\n2.png,dog\n'
    with pytest.raises(
        ConfigError,
        match=r'its class "cat\\nx" in train has a line break or another control character',
    ):
        catalog.open_labelled(pictures(FLAT, table), "train", "split")


def test_a_folder_with_a_comma_in_its_name(tmp_path, write_folder, cache):
    roots = [write_folder(tmp_path / name, [f"{name}.png"]) for name in ("a, b", "c")]

    def names(value):
        config = PicturesConfig(unlabelled=value, data_dir=cache)
        return catalog.open_source(config, "train").names()

    assert names(roots[0]) == ["a, b.png"]
    assert names(f"{roots[1]}, {tmp_path}") == ["a, b/a, b.png", "c/c.png"]
