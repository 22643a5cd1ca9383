"""What a run says of its data."""

from cpc_tf.data.catalog import Used, summary
from cpc_tf.data.source import About

SPLITS = {"train": 50, "valid": 12, "extra": 3, "unlabelled": 200}


def test_what_is_used_and_what_is_not():
    train = Used("split", "train", About("train", SPLITS, ("left out: b", "holds: a")), 48, {"cat": 20, "dog": 28})
    valid = Used("test_split", "val", About("valid", SPLITS, ("holds: a",)), 12, {"cat": 12, "dog": 0})
    assert summary("--dataset=folder:x", [train, valid], ["learned but never tested: dog"]).split("\n") == [
        "--dataset=folder:x",
        "  --split=train: 48 images of 2 classes: cat 20, dog 28",
        "  --test_split=val (found as valid): 12 images of 1 class: cat 12",
        "  left out: b",
        "  holds: a",
        "  learned but never tested: dog",
        "  not used: the split extra (3 images)",
        "  not used: 200 images without labels; pre-training takes them by --split=unlabelled",
    ]


def test_splits_of_tfds_syntax_are_used():
    about = About("", {"train": 50, "validation": 9, "test": 12})
    text = summary("--dataset=photos", [Used("split", "train[:50%]+test", about, 37, classes=19)])
    assert text.split("\n")[1:] == [
        "  --split=train[:50%]+test: 37 images of 19 classes, not counted since all records would have to be read",
        "  not used: the split validation (9 images)",
    ]


def test_it_has_at_most_twenty_lines_of_printable_text():
    used = [Used("split", "train", About(), 1)]
    lines = summary("--dataset=folder:x\n", used, [f"line {i}\x1b" * 400 for i in range(50)])
    assert len(lines.split("\n")) == 20
    assert lines.endswith("  and 33 lines more")
    assert all(len(line) < 1000 and line.isprintable() for line in lines.split("\n"))
