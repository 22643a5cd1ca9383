"""Which names of folders are usual for splits, and which names are the same."""

import pytest

from cpc_tf.data.sources import folder_names


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *(
            (name, "train")
            for name in (
                "train",
                "Training",
                "TRAIN",
                "train_set",
                "train-images",
                " train ",
                "\uff54\uff52\uff41\uff49\uff4e",
            )
        ),
        *((name, "val") for name in ("val", "Val", "valid", "validation", "dev", "eval", "val_data")),
        *((name, "test") for name in ("test", "Testing", "TestSet", "test images")),
        *((name, "unlabelled") for name in ("unlabelled", "Unlabeled", "unsup", "unlabeled_images")),
    ],
)
def test_usual_names(name, kind):
    assert folder_names.meaning(name) == (kind, "")


@pytest.mark.parametrize("name", ["trains", "train_station", "test_tube", "developer", "valley", "cat", "", "trainval"])
def test_names_of_classes(name):
    assert folder_names.meaning(name) is None


def test_a_number_belongs_to_a_split():
    assert folder_names.meaning("val2017") == folder_names.meaning("Val_2017") == ("val", "2017")
    assert folder_names.kinds_within("seg_train") == {"train"}


def test_same_names():
    key = folder_names.key
    assert key("Café ") == key("cafe\u0301") == key("CAFÉ")
    assert key("STRASSE") == key("straße")
    assert len({key("cat"), key("\uff43\uff41\uff54"), key("c at"), key("cat\u200b")}) == 4


def test_what_looks_the_same_is_shown_by_its_code_points():
    assert folder_names.quoted("caf\u00e9", "cafe\u0301") == '"caf\\xe9"'
    assert folder_names.quoted("cafe\u0301", "caf\u00e9") == '"cafe\\u0301"'
    assert folder_names.quoted("cat ", "Cat") == '"cat "'
