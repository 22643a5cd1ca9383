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

TABLE = [
    # ---- flags and flag files
    ("pretrain", "--batch_size=many", r"^--batch_size=many: must be a whole number \(default 512\)$"),
    ("pretrain", "photos", r"^photos: not a flag; settings are given as --name=value"),
    # ---- data: folders, tables of labels, splits, records
    ("pretrain", "--dataset=folder:", r"^--dataset=folder:: name a dataset"),
    ("pretrain", "--dataset=folder:nowhere --workdir=EMPTY/run", r"^--dataset=folder:nowhere: no such folder"),
    # ---- boxes: VOC, COCO, YOLO
    # ---- augmentation
    ("pretrain", "--augment_changes=gray=0", "^--augment_changes=gray=0: gray: no operation .*; did you mean grey\\?"),
    ("pretrain", "--augment_changes=distort.hew=0", r"distort.hew: no operation .*; did you mean distort.hue\?"),
    ("pretrain", "--augment_changes=grey", "^--augment_changes=grey: grey: must be ENTRY=NUMBER, e.g. grey=0"),
    ("pretrain", "--augment_changes=grey=2", "grey=2: must be a number, at least 0 and at most 1"),
    ("pretrain", "--augment_changes=rotate.limit=inf", "rotate.limit=inf: must be a number, at least 0"),
    ("pretrain", "--augment_changes=autoaugment=1.5", "autoaugment=1.5: must be a whole number, at least 0"),
    ("pretrain", "--augment_changes=posterize.fewest=9", "posterize.fewest=9: .*, at least 1 and at most 8"),
    ("pretrain", "--augment=v1 --augment_changes=autoaugment=2", "--augment=v1 has no primitives to choose 2 from"),
    # ---- encoders and modules
    ("embed", "--encoder= --pictures=PICTURES --output=EMPTY/x.npz", "^--encoder= is empty"),
    (
        "embed",
        "--encoder=random: --pictures=PICTURES --output=EMPTY/x.npz",
        "^--encoder=random: is empty: .*random:",
    ),
    ("embed", "--encoder=/nowhere --pictures=PICTURES --output=EMPTY/x.npz", "^--encoder=/nowhere: cannot be loaded"),
    (
        "embed",
        "--encoder=random:/nowhere --pictures=PICTURES --output=EMPTY/x.npz",
        "^--encoder=/nowhere: there is no such directory",
    ),
    ("pretrain", "--encoder=small --output_stack=4", "^--output_stack=4: .*small has 3"),
    # ---- pre-training and objectives
    (
        "pretrain",
        "--objective=rotation --resize=64 --image_size=64 --patch_size=8 --patch_stride=8",
        "^--patch_size=8: this objective",
    ),
    (
        "pretrain",
        "--objective=relative_position --resize=32 --image_size=32 --patch_size=16 --patch_stride=16",
        "^--patch_stride=16: the grid has only 2 rows",
    ),
    # ---- linear
    # ---- efficient
    # ---- detect
    # ---- training: strategies, batches, work directories
    # ---- export
    # ---- predict, embed, report
    ("report", "--output=", "^--output= is empty"),
    ("report", "--runs=EMPTY --output=EMPTY/report", "^--runs=EMPTY: no result"),
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
