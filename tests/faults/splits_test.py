"""Folders in which splits or classes are named in other ways: each task goes on with the right pictures, or refuses."""

import json
import shutil
from unittest import mock

import numpy as np
import pytest

from cpc_tf import cli
from cpc_tf.detect import run as detect
from cpc_tf.detect.config import DetectConfig
from cpc_tf.efficient import run as efficient
from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.linear import run as linear_run
from cpc_tf.linear.config import LinearConfig
from cpc_tf.linear.run import linear
from cpc_tf.pretrain import run as pretrain
from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.settings import ConfigError
from tests import samples
from tests.data.samples import encode

LINEAR = """
    --encoder=pixels --geometry_from=flags --resize=16 --image_size=16 --patch_size=8 --patch_stride=4 --augment=none
    --batch_size=1 --train_epochs=1 --strategy=single --test_split=val
""".split()
TWO = ["train/cat", "train/dog", "val/cat", "val/dog"]


def write(root, folders, count=2):
    """Pictures 0.png, 1.png, ... in each folder; one whose name ends with a slash stays empty, a file is a picture."""
    for number, name in enumerate(folders):
        folder = root / name
        if name.endswith(".png"):
            folder.parent.mkdir(parents=True, exist_ok=True)
            folder.write_bytes(encode(np.full([16, 16, 3], 7, np.uint8)))
            continue
        folder.mkdir(parents=True)
        for i in range(0 if name.endswith("/") else count):
            (folder / f"{i}.png").write_bytes(encode(np.full([16, 16, 3], 9 * number + i, np.uint8)))
    return root


class Seen(Exception):
    """Ends a run once its data are open: what follows takes long."""


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Begins linear classification on a folder of these folders; returns how many classes and pictures it learns."""
    build, train = mock.Mock(), mock.Mock(side_effect=Seen)
    monkeypatch.setattr(linear_run, "LinearTraining", build)
    monkeypatch.setattr(linear_run.loop, "train", train)

    def run(folders, *flags):
        root = write(tmp_path / "pictures", folders)
        here = [f"--dataset=folder:{root}", f"--data_dir={tmp_path}/cache", f"--workdir={tmp_path}/run"]
        with pytest.raises(Seen):
            linear(cli.parse(LinearConfig, [*LINEAR, *here, *flags]))
        return build.call_args.args[3], train.call_args.args[3]

    return run


# Folders -> classes, training pictures, and what is said.
GOES_ON = {
    "capitals": (["train/CAT", "train/dog", "val/cat", "val/dog"], 2, 4, 'one class: "CAT" is "cat" in val'),
    "accents": (
        ["train/caf\u00e9", "train/dog", "val/cafe\u0301", "val/dog"],
        2,
        4,
        'one class: "caf\\xe9" is "cafe\\u0301" in val',
    ),
    "space": (["train/cat ", "train/dog", "val/cat", "val/dog"], 2, 4, 'one class: "cat " is "cat" in val'),
    "sharp s": (["train/Straße", "train/dog", "val/STRASSE", "val/dog"], 2, 4, 'one class: "Straße" is "STRASSE" in'),
    "only in train": ([*TWO, "train/emu"], 3, 6, "learned but never tested, since --test_split=val has none: emu (2)"),
    "empty in both": ([*TWO, "train/emu/", "val/emu/"], 2, 4, "folders without a picture: train/emu, val/emu"),
    "of a third split": ([*TWO, "test/emu"], 2, 4, "not used: the split test (2 pictures)"),
    "unlabelled beside": ([*TWO, "unlabelled/a", "unlabelled/b"], 2, 4, "not used: 4 pictures without labels; "),
    "unlabelled within": ([*TWO, "train/unlabelled"], 2, 4, "left out: 2 of 6 pictures of train are in no folder of a"),
    "stray": ([*TWO, "train/sheet.png"], 2, 4, "in no folder of a class, e.g. train/sheet.png"),
    "valid": (["train/cat", "train/dog", "valid/cat", "valid/dog"], 2, 4, "--test_split=val (found as valid): 4 pict"),
    "Train, Dev": (["Train/cat", "Train/dog", "Dev/cat", "Dev/dog"], 2, 4, "--split=train (found as Train): 4 pict"),
    "years": (["train2017/cat", "train2017/dog", "val2017/cat", "val2017/dog"], 2, 4, "(found as val2017)"),
    "tools": ([*TWO, "train/@eaDir", "val/lost+found"], 2, 4, "--split=train: 4 pictures of 2 classes: cat 2, dog 2"),
    "one folder": ([f"x/y/{name}" for name in TWO], 2, 4, "x/y/ holds everything: its folders are taken as those at"),
    "one deeper": (["train/x/cat", "train/x/dog", "val/x/cat", "val/x/dog"], 2, 4, "--split=train: 4 pictures of 2 cl"),
    "train in train": (
        ["train/train/cat", "train/train/dog", "val/val/cat", "val/val/dog"],
        2,
        4,
        "--split=train: 4 pictures of 2 classes: cat 2, dog 2",
    ),
    "others": ([*TWO, "emu"], 2, 4, "not used: the split emu (2 pictures)"),
}


@pytest.mark.parametrize("case", GOES_ON)
def test_linear_goes_on_and_says_how(run, capsys, case):
    folders, classes, pictures, said = GOES_ON[case]
    assert run(folders) == (classes, pictures)
    assert said in capsys.readouterr().out


def test_a_flag_says_what_cannot_be_decided(run):
    folders = ["seg_train/cat", "seg_train/dog", "seg_test/cat", "seg_test/dog"]
    assert run(folders, "--top_folders=splits", "--split=seg_train", "--test_split=seg_test") == (2, 4)


REFUSED = {
    "only in the test": ([*TWO, "val/emu"], r"--test_split=val: pictures of 1 class .* none of, .*: emu \(2\)"),
    "empty in train": ([*TWO, "val/emu", "train/emu/"], r"--test_split=val: pictures of 1 class .*: emu \(2\)"),
    "wide letters": (
        ["train/\uff43\uff41\uff54", "train/dog", "val/cat", "val/dog"],
        r"--test_split=val: pictures of 1 class .*: cat \(2\); only --split=train has",
    ),
    "underscore": (
        ["train/fire truck", "train/dog", "val/fire_truck", "val/dog"],
        r"--test_split=val: .*: fire_truck \(2\); only --split=train has fire truck",
    ),
    "twice in train": ([*TWO, "train/Cat"], r'--split=train: no labels .*"Cat" and "cat" in train differ only in'),
    "two for one": ([*TWO, "valid/cat"], r"--dataset=.*: its folders val and valid mean the same split"),
    "train beside": (["train/a", "train/b", "cat", "dog"], r"can be splits or classes, since train sound"),
    "most astray": (["train/cat", "train/dog", *(f"train/{i}.png" for i in range(5)), "val/cat", "val/dog"], "5 of 9"),
    "classes only in test": (
        ["train/0.png", "val/cat", "val/dog"],
        r"--split=train: no labels there .*1 of 1 pictures",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_linear_refuses_in_one_line(run, case, tmp_path):
    folders, message = REFUSED[case]
    with pytest.raises(ConfigError, match=message) as error:
        run(folders)
    assert str(error.value).isprintable()
    assert not (tmp_path / "run").exists()


def test_a_class_whose_files_are_all_broken_is_refused(tmp_path):
    root = write(tmp_path / "x", [f"{split}/{name}" for split in ("train", "val") for name in ("cat", "dog")], 100)
    write(root, ["train/emu", "val/emu"], 1)
    (root / "train/emu/0.png").write_bytes(b"")
    flags = [f"--dataset=folder:{root}", f"--data_dir={tmp_path}/cache", f"--workdir={tmp_path}/run"]
    with pytest.raises(ConfigError, match=r"pictures of 1 class that --split=train has none of, .*: emu \(1\)"):
        linear(cli.parse(LinearConfig, [*LINEAR, *flags]))


def test_a_class_that_is_a_link_counts(run, tmp_path, capsys):
    write(tmp_path / "elsewhere", ["cat"])
    (tmp_path / "pictures/train").mkdir(parents=True)
    (tmp_path / "pictures/train/CAT").symlink_to(tmp_path / "elsewhere/cat")
    assert run(["train/dog", "val/cat", "val/dog"]) == (2, 4)
    assert 'one class: "CAT" is "cat" in val' in capsys.readouterr().out


def test_efficient_compares_and_says_too(tmp_path, monkeypatch, capsys):
    root = write(tmp_path / "x", ["train/CAT", "train/dog", "val/cat", "val/dog", "val/emu"])
    here = [f"--dataset=folder:{root}", f"--data_dir={tmp_path}/cache", f"--workdir={tmp_path}/run", "--test_split=val"]
    config = cli.parse(EfficientConfig, [*here, "--encoder=pixels"])
    with pytest.raises(ConfigError, match=r"--test_split=val: pictures of 1 class .*: emu \(2\)"):
        efficient.efficient(config)
    shutil.rmtree(root / "val/emu")
    monkeypatch.setattr(efficient, "load_feature_maps", mock.Mock(side_effect=Seen))
    with pytest.raises(Seen):
        efficient.efficient(config)
    assert 'one class: "CAT" is "cat" in val' in capsys.readouterr().out


def boxes(tmp_path, rename):
    """Two pictures to learn from and two to test on; the objects of the latter are renamed."""
    root = tmp_path / "boxes"
    samples.write_boxes(root)
    (root / "ImageSets/Main").mkdir(parents=True)
    (root / "ImageSets/Main/train.txt").write_text("0\n1\n")
    (root / "ImageSets/Main/test.txt").write_text("2\n3\n")
    for number in (2, 3):
        path = root / f"Annotations/{number}.xml"
        for name, other in rename.items():
            path.write_text(path.read_text().replace(f"<name>{name}<", f"<name>{other}<"))
    here = [f"--dataset=voc:{root}", f"--data_dir={tmp_path}/cache", f"--workdir={tmp_path}/run", "--encoder=random"]
    return cli.parse(DetectConfig, [*here, "--train_steps=1", "--batch_size=1"])


def test_detect_refuses_a_class_that_only_the_test_has(tmp_path):
    with pytest.raises(
        ConfigError, match=r"^--test_split=test: objects of 1 class .*: disc \(1\); only --split=train has"
    ):
        detect.detect(boxes(tmp_path, {"square": "disc"}))
    assert not (tmp_path / "run").exists()


def test_detect_matches_spellings(tmp_path, monkeypatch, capsys):
    """Both splits number the classes alike, and the boxes stay."""
    build = mock.Mock()
    monkeypatch.setattr(detect, "DetectorTraining", build)
    monkeypatch.setattr(detect.loop, "train", mock.Mock(side_effect=Seen))
    with pytest.raises(Seen):
        detect.detect(boxes(tmp_path, {"square": "Square"}))
    assert build.call_args.args[1] == 2
    assert json.loads((tmp_path / "run/class_names.json").read_text()) == ["bar", "square"]
    out = capsys.readouterr().out
    assert 'one class: "square" is "Square" in test' in out
    assert "--test_split=test: 2 pictures, 2 objects of 2 classes: bar 1, square 1" in out


@pytest.mark.parametrize(
    ("folders", "images", "said"),
    [
        (TWO, 4, "not used: the split val (4 pictures)"),
        (["train/cat", "Valid/cat"], 2, "not used: the split Valid (2 pictures)"),
        ([*TWO, "unlabelled"], 4, "not used: 2 pictures without labels; pre-training takes them by --split=unlabelled"),
        (
            ["cat", "dog", "sheet.png"],
            5,
            "--split=train: 5 pictures without labels: 1 of 5 pictures of train are in no",
        ),
        (["cat", "Cat"], 4, "without labels: its classes"),
        (["cat", "unlabelled"], 4, "--split=train: 4 pictures without labels"),
        (["x/train/cat", "x/test/cat"], 2, "not used: the split test (2 pictures)"),
    ],
)
def test_pretraining_takes_all_pictures_of_its_split_and_says_so(tmp_path, monkeypatch, capsys, folders, images, said):
    root = write(tmp_path / "x", folders)
    build = mock.Mock(side_effect=Seen)
    monkeypatch.setattr(pretrain, "Pretraining", build)
    here = [
        f"--dataset=folder:{root}",
        f"--data_dir={tmp_path}/cache",
        f"--workdir={tmp_path}/run",
        "--strategy=single",
    ]
    config = cli.parse(PretrainConfig, [*here, "--train_epochs=1", "--batch_size=1", "--probe_every=2"])
    with pytest.raises(Seen):
        pretrain.pretrain(config)
    assert build.call_args.args[2] == images, "a step for each"
    assert said in capsys.readouterr().out
