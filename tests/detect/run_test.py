"""Detection from pictures to result.json: it learns by heart, refuses by name. It resumes in conformance_test.py."""

import json

import pytest
from PIL import Image

from cpc_tf import cli
from cpc_tf.data import catalog
from cpc_tf.data.config import DataConfig
from cpc_tf.data.sources import collages
from cpc_tf.detect.config import DetectConfig
from cpc_tf.detect.run import LeftOut, detect
from cpc_tf.settings import ConfigError
from tests import modules

pytestmark = [pytest.mark.slow, pytest.mark.drawn]

# Four collages without a random view, at less than half of their side.
FLAGS = """
    --dataset=collages/4 --split=train --test_split=train --canvas_height=80 --canvas_width=104 --smallest_area=6400
    --largest_area=6400 --test_area=6400 --nocanvas_mirror --canvas_colour_drop=0 --max_boxes=4 --backbone=tiny
    --anchor_sizes=12,24,48 --rpn_width=32 --rpn_samples=64 --rpn_train_candidates=200 --rpn_train_proposals=100
    --rpn_test_candidates=200 --rpn_test_proposals=100 --region_samples=24 --region_positive_fraction=0.5
    --region_reduce=0 --region_pool=5 --region_head=mlp --region_blocks=1 --region_width=64 --batch_size=4
    --learning_rate=0.05 --rate_batch=0 --rate_drops=0.85 --encoder_rate_factor=1 --clip_norm=5
    --warmup_steps=20 --weight_decay=0 --strategy=single --keep_checkpoints=9
""".split()
SHORT = ["--train_steps=6", "--steps_per_loop=2", "--checkpoint_every=2"]


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(collages, "TEST", 2)  # what is not asked for need not be made
        patch.setattr(collages.config, "__defaults__", (collages.TRAIN, 2))
        path = str(tmp_path_factory.mktemp("data"))
        assert catalog.open_detection_source(DataConfig(dataset="collages/4", data_dir=path), "test").num_examples == 2
    return path


@pytest.fixture(scope="module")
def hub_dir(tmp_path_factory):
    path = tmp_path_factory.mktemp("hub")
    modules.write_module(path)
    return path


def config(data_dir, workdir, *more):
    return cli.parse(DetectConfig, [*FLAGS, f"--data_dir={data_dir}", f"--workdir={workdir}", *more], recorded=True)


def without_time(result):
    return {name: value for name, value in result.items() if name != "wall_seconds"}


@pytest.fixture(scope="module")
def learned(data_dir, hub_dir, tmp_path_factory):
    """(workdir, result) of a run that learns its four images by heart."""
    workdir = tmp_path_factory.mktemp("run") / "detect"
    flags = ["--train_steps=200", "--steps_per_loop=50", f"--encoder={hub_dir}"]
    return workdir, detect(config(data_dir, workdir, *flags))


def test_it_learns_four_collages_by_heart(learned):
    _, result = learned
    assert min(result["map11"], result["map_all"]) > 0.9
    assert set(result["ap_all"]) == set(result["ap11"]) < set(result["class_names"])


def test_result(learned, hub_dir):
    workdir, result = learned
    assert json.loads((workdir / "result.json").read_text()) == result
    wanted = {
        **{"kind": "detect", "encoder": str(hub_dir), "backbone": "tiny", "seed": 0, "iou": 0.5, "steps": 200},
        **{"dataset": "collages/4", "split": "train", "test_split": "train"},
        **{"num_classes": 13, "class_names": list(collages.CLASSES)},
        **{"images": 4, "boxes": 6, "test_images": 4, "test_boxes": 6},
    }
    assert {name: result[name] for name in wanted} == wanted
    assert result["wall_seconds"] > 0
    records = [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]
    assert [record["step"] for record in records] == [50, 100, 150, 200]
    assert records[-1]["loss"] < 0.3 * records[0]["loss"]


def test_what_it_leaves(learned):
    workdir, result = learned
    assert json.loads((workdir / "class_names.json").read_text()) == result["class_names"]
    assert len(list((workdir / "detections").glob("comp4_det_train_*.txt"))) == 13
    found = json.loads((workdir / "detections.json").read_text())
    assert sum(len(image["truth"]["labels"]) for image in found["images"]) == 6
    assert f"{100 * result['map11']:.1f}%" in (workdir / "table.txt").read_text().splitlines()[-1]
    for name in ("curves.png", "sheet.png"):
        assert Image.open(workdir / name).size[0] > 500


def test_the_same_command_again_gives_the_same(learned, data_dir, hub_dir):
    workdir, result = learned
    records = (workdir / "metrics.jsonl").read_text()
    flags = ["--train_steps=200", "--steps_per_loop=50", f"--encoder={hub_dir}"]
    assert without_time(detect(config(data_dir, workdir, *flags))) == without_time(result)
    assert (workdir / "metrics.jsonl").read_text() == records


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--encoder=", "--encoder= is empty"),
        ("--encoder=/nowhere", "--encoder=/nowhere: cannot be loaded"),
        ("--encoder=random:/nowhere", "--encoder=/nowhere: there is no such directory"),
        ("--dataset=photos", "--dataset=photos: has no known boxes"),
        ("--split=valid", "--split=valid: collages has the splits"),
        ("--test_split=valid", "--test_split=valid: collages has the splits"),
        ("--canvas_width=105", "--canvas_width=105: not a multiple of 8, .* 112 would do"),
        ("--encoder=pixels", "--encoder=pixels: a detector needs an encoder"),
        ("--backbone_endpoint=stack9", "--backbone_endpoint=stack9: --encoder=random has the feature maps feature_map"),
        ("--backbone_endpoint=", "--backbone_endpoint=: --encoder=random has the feature maps feature_map"),
        ("--anchor_sizes=", "--anchor_sizes=: must be numbers with commas"),
        ("--anchor_ratios=1,0", "--anchor_ratios=1,0: must be numbers with commas between them, each at least 0.001"),
        ("--rate_drops=2", "--rate_drops=2: must be numbers with commas between them, each at most 0.9999"),
        ("--area_scale=3", "--area_scale=3: images of 19200 px are more than the 80 x 104 px"),
    ],
)
def test_what_cannot_be_is_refused_by_flag_and_leaves_nothing(data_dir, tmp_path, flag, message):
    with pytest.raises(ConfigError, match=message) as error:
        detect(config(data_dir, tmp_path / "run", "--encoder=random", *SHORT, flag))
    assert "\n" not in str(error.value)
    assert not (tmp_path / "run").exists()


def test_objects_that_are_not_learned_from_are_reported_once():
    watch = LeftOut()
    assert watch(5, {"left_out": 0.4}) is None
    assert "step 10: 0.6 objects of an image are not learned from" in watch(10, {"left_out": 0.6})
    assert watch(15, {"left_out": 0.9}) is None
