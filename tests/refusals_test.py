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
    # ---- encoders and modules
    # ---- pre-training and objectives
    # ---- linear
    # ---- efficient
    # ---- detect
    # ---- training: strategies, batches, work directories
    # ---- export
    ("export", "--workdir=", "^--workdir= is empty: name the directory of a run"),
    ("export", "--workdir=/nowhere --output=EMPTY/hub", "^--workdir=/nowhere: holds no run"),
    ("export", "--workdir=run --module=hub --format=tflite", "^--module=hub: not with --workdir=run"),
    ("export", "--module=hub", "^--module=hub: is a SavedModel already"),
    ("export", "--format=onnx --quantize=int8", "^--quantize=int8: not with --format=onnx"),
    ("export", "--format=tflite --quantize=int8", "^--quantize=int8: needs --representative=FOLDER"),
    ("export", "--format=tflite --representative=p", "^--representative=p: only --quantize=int8 uses it"),
    ("export", "--labelled=p", "^--labelled=p: not used with --format=savedmodel"),
    ("export", "--format=tflite --module=/nowhere --output=EMPTY/x", "^--module=/nowhere: there is no such directory"),
    ("export", "--format=tflite --module=EMPTY --output=EMPTY/x", "^--module=EMPTY: has no encoder.json or classifier"),
    # ---- predict, embed, report
    ("predict", "--pictures=PICTURES", "^--model= is empty"),
    ("predict", "--model=MODULE", "^--pictures= is empty"),
    ("predict", "--model=MODULE --pictures=PICTURES --output=p.xlsx", "^--output=p.xlsx: must end with"),
    ("predict", "--model=/nowhere --pictures=PICTURES", "^--model=/nowhere: there is no such directory"),
    ("predict", "--model=EMPTY --pictures=PICTURES", "^--model=EMPTY: has no classifier.json or detector.json"),
    ("predict", "--model=MODULE --pictures=PICTURES", "^--model=MODULE: holds an encoder, .*cpc_tf.embed"),
    ("embed", "--encoder=MODULE --pictures=PICTURES --output=x.txt", "^--output=x.txt: must end with"),
    ("embed", "--encoder=pixels --pictures=PICTURES", "^--encoder=pixels: name a TF-Hub module"),
    ("embed", "--pictures=PICTURES", "^--encoder= is empty"),
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
