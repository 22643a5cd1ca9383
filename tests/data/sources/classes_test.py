"""Classes of splits that differ: matched, told or refused."""

import pytest

from cpc_tf.data.sources import classes
from cpc_tf.settings import ConfigError


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


def test_a_class_that_only_the_test_has_is_refused():
    with pytest.raises(ConfigError) as error:
        classes.compare({"cat": 3, "dog": 2, "emu": 0}, {"cat": 1, "emu": 2, "ox": 4}, "train", "val", "pictures")
    assert str(error.value) == (
        "--test_split=val: pictures of 2 classes that --split=train has none of, so that they cannot be learned and "
        "would all count as errors: emu (2), ox (4); only --split=train has dog; add them to it, rename the classes, "
        "or take the pictures out of the test"
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
    assert (
        classes.described({f"c{i}": 5 + i % 2 for i in range(100)}, 2) == "100 classes, 5 to 6 of each: c0 5, c1 6, ..."
    )
