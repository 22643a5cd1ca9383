"""Usual names of splits and names that are the same (what follows of them: splits_test.py)."""

import re

from cpc_tf.data import classes, names

USUAL = {
    "train": [
        "train",
        "Training",
        "TRAIN",
        "train_set",
        "train-images",
        " train ",
        "\uff54\uff52\uff41\uff49\uff4e",
    ],
    "val": ["val", "Val", "valid", "validation", "dev", "eval", "val_data"],
    "test": ["test", "Testing", "TestSet", "test images"],
    "unlabelled": ["unlabelled", "Unlabeled", "unsup", "unlabeled_images"],
}


def test_usual_names_are_splits_and_others_are_classes():
    for kind, usual in USUAL.items():
        assert {name: names.meaning(name) for name in usual} == dict.fromkeys(usual, (kind, ""))
    others = ["trains", "train_station", "test_tube", "developer", "valley", "cat", "", "trainval"]
    assert {name: names.meaning(name) for name in others} == dict.fromkeys(others)


def test_a_folder_is_not_called_by_its_split():
    """The card of a classifier trained on `fruit/train` was that of `train`."""
    folders = {
        "/x/fruit/train": "fruit",
        "fruit/test/": "fruit",
        "gs://bucket/fruit/val2017": "fruit",
        "train": "train",
    }
    assert {path: names.of_folder(path) for path in folders} == folders
    assert names.of_folder("") == ""


def test_a_number_belongs_to_a_split():
    assert names.meaning("val2017") == names.meaning("Val_2017") == ("val", "2017")
    assert names.kinds_within("seg_train") == {"train"}


def test_same_names():
    key = names.key
    assert key("Café ") == key("cafe\u0301") == key("CAFÉ")
    assert key("STRASSE") == key("straße")
    assert key("sea lion") == key("sea  lion") == key("sea\u00a0lion") == key("sea lion\u200b")
    assert len({key("cat"), key("\uff43\uff41\uff54"), key("c at")}) == 3


def test_equal_numbers_are_the_same():
    assert names.key("0") == names.key("0.0") == names.key("-0") == names.key("00.")
    assert len({*map(names.key, ("1", "10", "1.1", "-1", "1e0", "1.0.0", "\u0661"))}) == 7


def test_what_programs_write_for_nothing():
    nothing = [
        "nan",
        "NaN",
        "None",
        "null",
        "n/a",
        "N.A.",
        "#N/A",
        "<NA>",
        "-",
        "?",
        "-1",
        "-1.0",
        "#REF!",
        "#DIV/0!",
    ]
    assert [name for name in nothing if not names.is_nothing(name)] == []
    others = ["0", "1", "+", "nana", "no", "", "unknown", "#1", "canal"]
    assert [name for name in others if names.is_nothing(name)] == []
    assert all(map(names.is_doubtful, [*nothing, "unknown", "to-label"]))


def test_lookalike_names_are_shown_by_code_points():
    assert names.quoted("caf\u00e9", "cafe\u0301") == '"caf\\xe9"'
    assert names.quoted("cafe\u0301", "caf\u00e9") == '"cafe\\u0301"'
    assert names.quoted("cat ", "Cat") == '"cat "'


def test_what_only_the_training_has_is_told():
    lines = classes.compare(
        {"cat": 3, "dog": 2, "emu": 0}, {"cat": 1, "emu": 0}, "train", "val", "objects"
    )
    assert lines == [
        "learned but never tested, since --test_split=val has none: dog (2)",
        "classes of --dataset that neither split has: emu",
    ]


def test_many_classes_are_shortened():
    assert classes.described({"cat": 10, "emu": 0, "dog": 2}) == "2 classes: cat 10, dog 2"
    many = {f"c{i}": 5 + i % 2 for i in range(100)}
    assert re.fullmatch(
        r"100 classes, 5 to 6 of each: c0 5, c1 6, (c\d+ [56], ){10}\.\.\.", classes.described(many)
    )
