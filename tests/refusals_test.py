"""What a user asks for that cannot be done: one line that names the flag, its value and what would be right.

One table for all commands. A row: the command, its flags, and the message. PICTURES, BOXES, MODULE and EMPTY stand for
folders that are made here. A refusal that needs more than flags to be shown is tested beside what refuses.
"""

import importlib
import pathlib

import pytest

from cpc_tf import cli
from cpc_tf.settings import ConfigError
from tests import modules, samples
from tests.binaries import SETTINGS

# What runs each command on its settings.
FUNCTIONS = {
    "pretrain": "cpc_tf.pretrain.run:pretrain",
    "linear": "cpc_tf.linear.run:linear",
    "efficient": "cpc_tf.efficient.run:efficient",
    "detect": "cpc_tf.detect.run:detect",
    "export": "cpc_tf.export.run:export",
    "predict": "cpc_tf.predict.run:predict",
    "embed": "cpc_tf.embed.run:embed",
    "report": "cpc_tf.report.page:report",
}

PIXELS = "--encoder=pixels --dataset=folder:PICTURES --test_split=val --workdir=EMPTY/run"

TABLE = [
    # ---- flags and flag files
    ("pretrain", "--batch_size=many", r"^--batch_size=many: must be a whole number \(default 512\)$"),
    ("pretrain", "photos", r"^photos: not a flag; settings are given as --name=value"),
    # ---- data: folders, tables of labels, splits, records
    ("pretrain", "--dataset=folder:", r"^--dataset=folder:: name a dataset"),
    ("pretrain", "--dataset=folder:nowhere --workdir=EMPTY/run", r"^--dataset=folder:nowhere: no such folder"),
    # ---- boxes: VOC, COCO, YOLO
    # ---- augmentation
    # ---- encoders and modules
    # ---- pre-training and objectives
    ("pretrain", "--recompute --norm=batch", "^--recompute: with --norm=batch .* twice; leave it out, or take another"),
    (
        "pretrain",
        "--objective=rotation --negative_images=2 --image_size=24 --resize=24 --patch_size=24",
        "^--negative_images=2: --objective=rotation has no negatives; leave it",
    ),
    (
        "pretrain",
        "--dataset=folder:PICTURES --split=train --workdir=EMPTY/run --batch_size=4 --negative_images=3",
        "^--negative_images=3: --batch_size=4 cannot be divided into groups of so many; 1, 2, 4 would do$",
    ),
    # ---- linear
    # ---- efficient
    ("efficient", "--encoder=random --backbone=resnet50_v2,resnet", "^--backbone=.*: must be of .*resnet50_v2"),
    ("efficient", "--encoder=random --backbone=small,tiny", "^--backbone=small,tiny: several are for --encoder=pixels"),
    ("efficient", "--patience=3 --held_out=0", "^--patience=3: needs held-out labels"),
    ("efficient", f"{PIXELS} --label_fraction=0.1", "^--label_fraction=0.1: leaves none of the 2 labels of class"),
    ("efficient", f"{PIXELS} --test_split=nowhere", "^--test_split=nowhere"),
    ("efficient", "--propagation=vat --encoder=hub", "^--propagation=vat: a frozen encoder's classifier learns from"),
    (
        "efficient",
        "--propagation=pseudo_labels --encoder=pixels --patience=2 --held_out=0.2",
        "^--propagation=pseudo_labels: their weight",
    ),
    (
        "efficient",
        "--propagation=uda --encoder=pixels --augment=none",
        "^--propagation=uda: needs the transformations of --augment, which is none",
    ),
    (
        "efficient",
        "--propagation=vat --encoder=pixels --precision=float16",
        "^--propagation=vat: the gradient of a picture is too small",
    ),
    (
        "efficient",
        "--encoder=pixels --unlabelled=x",
        "^--unlabelled=x: goes with a folder of pictures with",
    ),
    (
        "efficient",
        "--encoder=pixels --unlabelled=x --labelled=y",
        "^--unlabelled=x: a classifier learns from pictures without labels only",
    ),
    # ---- detect
    # ---- training: strategies, batches, work directories
    # ---- export
    # ---- predict, embed, report
    # ---- launch
]


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Name in the table -> what it stands for."""
    root = tmp_path_factory.mktemp("refusals")
    samples.write_pictures(root / "pictures", {"train": 2, "val": 1})
    samples.write_boxes(root / "boxes")
    modules.write_module(root / "module")
    (root / "empty").mkdir()
    return {name.upper(): str(root / name) for name in ("pictures", "boxes", "module", "empty")}


@pytest.mark.parametrize(("command", "flags", "message"), TABLE, ids=[f"{row[0]} {row[1][:60]!a}" for row in TABLE])
def test_it_is_refused_in_one_line(command, flags, message, places):
    words = flags.split()
    for name, path in places.items():
        words, message = [word.replace(name, path) for word in words], message.replace(name, path)
    module, function = FUNCTIONS[command].split(":")
    with pytest.raises(ConfigError, match=message) as refusal:
        getattr(importlib.import_module(module), function)(cli.parse(SETTINGS[f"cpc_tf.{command}"], words))
    assert str(refusal.value).isprintable()
    assert len(str(refusal.value)) < 600
    assert not list(pathlib.Path(places["EMPTY"]).iterdir())  # nothing is left behind
