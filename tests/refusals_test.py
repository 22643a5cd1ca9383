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

BOXES = "--dataset=voc:BOXES --test_split=train --workdir=EMPTY/run --backbone=tiny"

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
    # ---- linear
    # ---- efficient
    # ---- detect
    ("detect", f"{BOXES} --encoder=", r"^--encoder= is empty"),
    ("detect", f"{BOXES} --encoder=/nowhere", r"^--encoder=/nowhere: cannot be loaded"),
    ("detect", f"{BOXES} --encoder=random:/nowhere", r"^--encoder=/nowhere: there is no such directory"),
    ("detect", f"{BOXES} --encoder=pixels", r"^--encoder=pixels: a detector needs an encoder"),
    ("detect", f"{BOXES} --encoder=random --dataset=photos", r"^--dataset=photos: has no known boxes"),
    (
        "detect",
        f"{BOXES} --encoder=random --canvas_width=1005",
        r"^--canvas_width=1005: not a multiple of 8, .* 1008 would",
    ),
    (
        "detect",
        f"{BOXES} --encoder=random --backbone_endpoint=stack9",
        r"^--backbone_endpoint=stack9: --encoder=random has the feature maps feature_map",
    ),
    (
        "detect",
        f"{BOXES} --encoder=random --region_head=encoder --backbone_endpoint=feature_map",
        r"nothing is known to follow --backbone_endpoint=feature_map in --encoder=random",
    ),
    ("detect", "--anchor_sizes=", r"^--anchor_sizes=: must be numbers with commas"),
    ("detect", "--anchor_ratios=1,0", r"^--anchor_ratios=1,0: must be numbers with commas .*, each at least 0.001"),
    ("detect", "--rate_drops=2", r"^--rate_drops=2: must be numbers with commas between them, each at most 0.9999"),
    ("detect", f"{BOXES} --area_scale=9", r"^--area_scale=9: images of \d+ px are more than the "),
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
