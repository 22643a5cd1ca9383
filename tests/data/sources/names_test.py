"""Usual names of splits, names that are the same, and classes of splits that differ: matched, told or refused."""

import pytest

from cpc_tf.data.sources import classes, names

USUAL = {
    "train": ["train", "Training", "TRAIN", "train_set", "train-images", " train ", "\uff54\uff52\uff41\uff49\uff4e"],
    "val": ["val", "Val", "valid", "validation", "dev", "eval", "val_data"],
    "test": ["test", "Testing", "TestSet", "test images"],
    "unlabelled": ["unlabelled", "Unlabeled", "unsup", "unlabeled_images"],
}


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, found in USUAL.items() for name in found])
def test_usual_names(kind, name):
    assert names.meaning(name) == (kind, "")


@pytest.mark.parametrize("name", ["trains", "train_station", "test_tube", "developer", "valley", "cat", "", "trainval"])
def test_names_of_classes(name):
    assert names.meaning(name) is None


def test_a_number_belongs_to_a_split():
    assert names.meaning("val2017") == names.meaning("Val_2017") == ("val", "2017")
    assert names.kinds_within("seg_train") == {"train"}


def test_same_names():
    key = names.key
    assert key("Café ") == key("cafe\u0301") == key("CAFÉ")
    assert key("STRASSE") == key("straße")
    assert len({key("cat"), key("\uff43\uff41\uff54"), key("c at"), key("cat\u200b")}) == 4


def test_what_looks_the_same_is_shown_by_its_code_points():
    assert names.quoted("caf\u00e9", "cafe\u0301") == '"caf\\xe9"'
    assert names.quoted("cafe\u0301", "caf\u00e9") == '"cafe\\u0301"'
    assert names.quoted("cat ", "Cat") == '"cat "'


def test_spellings_of_one_class_are_matched_as_the_first_split_has_them():
    found = classes.match({"train": ["Dog", "caf\u00e9"], "val": ["dog", "cafe\u0301", "emu"]})
    assert found.class_names == ("Dog", "caf\u00e9", "emu")
    assert found.number_of == {"Dog": 0, "dog": 0, "caf\u00e9": 1, "cafe\u0301": 1, "emu": 2}
    assert found.lines == (
        'one class: "caf\\xe9" is "cafe\\u0301" in val',
        'one class: "Dog" is "dog" in val',
    )


def test_two_spellings_in_a_split_are_not_matched():
    found = classes.match({"train": ["cat"], "val": ["cat ", "CAT"]})
    assert found.class_names == ()
    assert found.trouble.startswith('its classes "CAT" and "cat " in val differ only in capitals, accents or spaces')


def test_a_class_that_only_the_test_has_is_refused(refused):
    splits = {"cat": 3, "dog": 2, "emu": 0}, {"cat": 1, "emu": 2, "ox": 4}
    assert refused(classes.compare, *splits, "train", "val", "images") == (
        "--test_split=val: images of 2 classes that --split=train has none of, so that they cannot be learned and "
        "would all count as errors: emu (2), ox (4); only --split=train has dog; add them to it, rename the classes, "
        "or take the images out of the test"
    )


def test_what_only_the_training_has_is_told():
    lines = classes.compare({"cat": 3, "dog": 2, "emu": 0}, {"cat": 1, "emu": 0}, "train", "val", "objects")
    assert lines == [
        "learned but never tested, since --test_split=val has none: dog (2)",
        "classes of --dataset that neither split has: emu",
    ]
    assert classes.compare({"cat": 3}, {"cat": 1}, "train", "val", "objects") == []


def test_many_classes_are_shortened():
    assert classes.described({"cat": 10, "emu": 0, "dog": 2}) == "2 classes: cat 10, dog 2"
    many = {f"c{i}": 5 + i % 2 for i in range(100)}
    assert classes.described(many, 2) == "100 classes, 5 to 6 of each: c0 5, c1 6, ..."
