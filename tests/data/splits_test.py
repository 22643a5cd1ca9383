"""Folders in which splits or classes are named in other ways: a run goes on with the right images,
or refuses.
"""

import shutil
from unittest import mock

import numpy as np
import pytest

from cpc_tf.core import cli
from cpc_tf.core.settings import ConfigError
from cpc_tf.data import catalog
from cpc_tf.data.config import DataConfig
from cpc_tf.detect import inputs
from cpc_tf.detect import run as detect
from cpc_tf.detect.config import DetectConfig
from cpc_tf.efficient import run as efficient
from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.linear.config import LinearConfig
from cpc_tf.linear.run import linear
from cpc_tf.pretrain import run as pretrain
from cpc_tf.pretrain.config import PretrainConfig
from tests import samples
from tests.data.samples import encode, write_files

pytestmark = pytest.mark.usefixtures("unchecked")

TWO = ["train/cat", "train/dog", "val/cat", "val/dog"]


def write(root, folders, count=2):
    """Images 0.png, 1.png, ... in each folder; one whose name ends with a slash stays empty, a file
    is an image.
    """
    for number, name in enumerate(folders):
        if name.endswith("/"):
            (root / name).mkdir(parents=True)
            continue
        files = [name] if name.endswith(".png") else [f"{name}/{i}.png" for i in range(count)]
        pixels = (np.full([16, 16, 3], 9 * number + i, np.uint8) for i in range(count))
        write_files(root, {file: encode(each) for file, each in zip(files, pixels)})
    return root


class Seen(Exception):
    """Ends a run once its data are open: what follows takes long."""


@pytest.fixture
def opened(tmp_path, cache):
    """Opens both splits of these folders for a classifier."""

    def opened(folders, test_split="val", **settings):
        root = write(tmp_path / "x", folders)
        return catalog.open_pair(
            DataConfig(dataset=f"folder:{root}", data_dir=cache, **settings), test_split
        )

    return opened


def flags(tmp_path, *more):
    return [f"--data_dir={tmp_path}/cache", f"--workdir={tmp_path}/run", *more]


def spelled(train, val):
    """Two classes, of which one has another spelling in each split."""
    return [f"train/{train}", "train/dog", f"val/{val}", "val/dog"]


def below(train, val):
    """The two classes in both folders."""
    return [f"{folder}/{name}" for folder in (train, val) for name in ("cat", "dog")]


# Folders, of which 2 classes with 4 images are learned (but for "only in train"), and what is said.
GOES_ON = {
    "capitals": (spelled("CAT", "cat"), 'one class: "CAT" is "cat" in val'),
    "accents": (
        spelled("caf\u00e9", "cafe\u0301"),
        'one class: "caf\\xe9" is "cafe\\u0301" in val',
    ),
    "space": (spelled("cat ", "cat"), 'one class: "cat " is "cat" in val'),
    "without width": (spelled("cat\u200b", "cat"), 'one class: "cat\\u200b" is "cat" in val'),
    "sharp s": (spelled("Straße", "STRASSE"), 'one class: "Straße" is "STRASSE" in'),
    "only in train": (
        [*TWO, "train/emu"],
        "learned but never tested, since --test_split=val has none: emu (2)",
    ),
    "of a third split": ([*TWO, "test/emu"], "not used: the split test (2 images)"),
    "unlabelled beside": (
        [*TWO, "unlabelled/a", "unlabelled/b"],
        "not used: 4 images without labels; ",
    ),
    "unlabelled within": (
        [*TWO, "train/unlabelled"],
        "left out: 2 of 6 images of train are in no class",
    ),
    "stray": ([*TWO, "train/sheet.png"], "in no class folder, e.g. train/sheet.png"),
    "valid": (below("train", "valid"), "--test_split=val (found as valid): 4 imag"),
    "Train, Dev": (below("Train", "Dev"), "--split=train (found as Train): 4 imag"),
    "years": (below("train2017", "val2017"), "(found as val2017)"),
    "tools": (
        [*TWO, "train/@eaDir", "val/lost+found"],
        "--split=train: 4 images of 2 classes: cat 2, dog 2",
    ),
    "one folder": (
        below("x/y/train", "x/y/val"),
        "x/y/ contains all images: its folders are read as if",
    ),
    "one deeper": (below("train/x", "val/x"), "--split=train: 4 images of 2 cl"),
    "train in train": (
        below("train/train", "val/val"),
        "--split=train: 4 images of 2 classes: cat 2, dog 2",
    ),
    "others": ([*TWO, "emu"], "not used: the split emu (2 images)"),
}


@pytest.mark.parametrize("case", GOES_ON)
def test_a_classifier_goes_on_and_says_how(opened, case):
    folders, said = GOES_ON[case]
    pair = opened(folders)
    assert len(pair.source.class_names) == (3 if case == "only in train" else 2)
    assert pair.source.num_examples == (6 if case == "only in train" else 4)
    assert pair.test_source.class_names == pair.source.class_names
    assert said in pair.summary


REFUSED = {
    "only in the test": (
        [*TWO, "val/emu"],
        r"--test_split=val: images of 1 class .* lacks, .*: emu \(2\)",
    ),
    "empty in train": (
        [*TWO, "val/emu", "train/emu/"],
        r"--test_split=val: images of 1 class .*: emu \(2\)",
    ),
    "wide letters": (
        spelled("\uff43\uff41\uff54", "cat"),
        r"of 1 class .*: cat \(2\); only --split=train has",
    ),
    "underscore": (
        spelled("fire truck", "fire_truck"),
        r": fire_truck \(2\); only --split=train has fire truck",
    ),
    "twice in train": (
        [*TWO, "train/Cat"],
        r'--split=train: no labels .*"Cat" and "cat" in train differ only in',
    ),
    "spaces": (
        [*TWO, "train/a  b", "train/a b"],
        r'no labels .*"a  b" and "a b" in train differ only in',
    ),
    "line break": (
        [*TWO, "train/e\nmu"],
        r'no labels .*its class "e\\nmu" in train has a line break',
    ),
    "two for one": (
        [*TWO, "valid/cat"],
        r"--dataset=.*: its folders val and valid mean the same split",
    ),
    "train beside": (
        ["train/a", "train/b", "cat", "dog"],
        r"can be splits or classes, since train could name a split",
    ),
    "empty in both": (
        [*TWO, "train/emu/", "val/emu/"],
        r"possibly not classes: train/emu, val/emu: .*folders=classes",
    ),
    "unknown": (
        [*TWO, "train/Unknown"],
        r"possibly not classes: train/Unknown: .*--ambiguous_folders=left_out",
    ),
    "most astray": ([*TWO, *(f"train/{i}.png" for i in range(5))], "5 of 9"),
    "classes only in test": (
        ["train/0.png", "val/cat", "val/dog"],
        r"--split=train: no labels in it, .*1 of 1 images",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_classifier_refuses_in_one_line(opened, case):
    folders, message = REFUSED[case]
    with pytest.raises(ConfigError, match=message) as error:
        opened(folders)
    assert str(error.value).isprintable()


@pytest.mark.slow
@pytest.mark.usefixtures("checked")
def test_class_with_only_broken_files_is_refused(tmp_path):
    root = write(tmp_path / "x", TWO, 100)
    write(root, ["train/emu", "val/emu"], 1)
    (root / "train/emu/0.png").write_bytes(b"")
    more = (
        f"--dataset=folder:{root}",
        "--test_split=val",
        "--encoder=pixels",
        "--geometry_from=flags",
        "--augment=none",
    )
    config = cli.parse(LinearConfig, flags(tmp_path, *more))
    with pytest.raises(
        ConfigError, match=r"images of 1 class that --split=train lacks, .*: emu \(1\)"
    ):
        linear(config)
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_efficient_compares_and_says_too(tmp_path, monkeypatch, capsys):
    root = write(tmp_path / "x", ["train/CAT", "train/dog", "val/cat", "val/dog", "val/emu"])
    more = f"--dataset=folder:{root}", "--test_split=val", "--encoder=pixels", "--backbone=tiny"
    config = cli.parse(EfficientConfig, flags(tmp_path, *more))
    with pytest.raises(ConfigError, match=r"--test_split=val: images of 1 class .*: emu \(2\)"):
        efficient.efficient(config)
    shutil.rmtree(root / "val/emu")
    monkeypatch.setattr(efficient, "select", mock.Mock(side_effect=Seen))
    with pytest.raises(Seen):
        efficient.efficient(config)
    assert 'one class: "CAT" is "cat" in val' in capsys.readouterr().out


def boxes(tmp_path, name):
    """Two images to learn from and two to test on; the squares of the latter have another name."""
    root = tmp_path / "boxes"
    samples.write_boxes(root)
    write_files(root, {"ImageSets/Main/train.txt": "0\n1\n", "ImageSets/Main/test.txt": "2\n3\n"})
    for number in (2, 3):
        path = root / f"Annotations/{number}.xml"
        path.write_text(path.read_text().replace("<name>square<", f"<name>{name}<"))
    return cli.parse(
        DetectConfig, flags(tmp_path, f"--dataset=voc:{root}", "--encoder=random", "--batch_size=1")
    )


@pytest.mark.slow
def test_detect_refuses_a_class_only_in_the_test(tmp_path):
    said = r"^--test_split=test: objects of 1 class .*: disc \(1\); only --split=train has"
    with pytest.raises(ConfigError, match=said):
        detect.detect(boxes(tmp_path, "disc"))
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_detect_matches_spellings(tmp_path):
    """Both splits number the classes alike, and the boxes stay."""
    *sources, _, _, told = inputs.open_data(boxes(tmp_path, "Square"))
    for source in sources:
        assert source.class_names == ("bar", "square")
        assert [e["labels"].numpy().tolist() for e in source.ordered()] == [[1], [0]]
    assert 'one class: "square" is "Square" in test' in told
    assert "--test_split=test: 2 images, 2 objects of 2 classes: bar 1, square 1" in told


@pytest.mark.parametrize(
    ("folders", "images", "said"),
    [
        (TWO, 4, "not used: the split val (4 images)"),
        (["train/cat", "Valid/cat"], 2, "not used: the split Valid (2 images)"),
        (
            [*TWO, "unlabelled"],
            4,
            "not used: 2 images without labels; pre-training takes them by --split=unlabelled",
        ),
        (
            ["cat", "dog", "sheet.png"],
            5,
            "--split=train: 5 images without labels: 1 of 5 images of train are in no",
        ),
        (["cat", "Cat"], 4, "without labels: its classes"),
        (["cat", "unlabelled"], 4, "--split=train: 4 images without labels"),
        (["x/train/cat", "x/test/cat"], 2, "not used: the split test (2 images)"),
        (
            ["1.png"],
            1,
            (
                "--batch_size=8: more than the 1 images, so that a batch has each about 8 times;"
                " --batch_size=1"
            ),
        ),
    ],
)
def test_pretraining_uses_all_images_of_its_split(
    tmp_path, monkeypatch, capsys, folders, images, said
):
    root = write(tmp_path / "x", folders)
    build = mock.Mock(side_effect=Seen)
    monkeypatch.setattr(pretrain, "Pretraining", build)
    more = (
        f"--dataset=folder:{root}",
        "--strategy=single",
        "--train_epochs=1",
        f"--batch_size={1 + 7 * (images == 1)}",
        "--probe_every=2",
    )
    with pytest.raises(Seen):
        pretrain.pretrain(cli.parse(PretrainConfig, flags(tmp_path, *more)))
    assert build.call_args.args[2] == images, "a step for each"
    assert said in capsys.readouterr().out
