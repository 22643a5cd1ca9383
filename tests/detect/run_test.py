"""Detection from pictures to result.json: it learns by heart. It resumes in conformance_test.py."""

import json

import pytest
from PIL import Image

from cpc_tf import cli
from cpc_tf.detect.config import DetectConfig
from cpc_tf.detect.run import LeftOut, detect
from tests import samples
from tests.detect.samples import make_tiny

pytestmark = [pytest.mark.slow, pytest.mark.drawn]

FLAGS = """
    --split=train --test_split=train --canvas_height=64 --canvas_width=64 --smallest_area=4096 --largest_area=4096
    --test_area=4096 --nocanvas_mirror --canvas_colour_drop=0 --max_boxes=2 --encoder=random --backbone=tiny
    --anchor_sizes=16,32 --rpn_width=16 --rpn_samples=32 --rpn_train_candidates=60 --rpn_train_proposals=30
    --rpn_test_candidates=60 --rpn_test_proposals=30 --region_samples=16 --region_positive_fraction=0.5
    --region_reduce=0 --region_pool=5 --region_head=mlp --region_blocks=1 --region_width=32
    --batch_size=4 --train_steps=120 --steps_per_loop=40 --learning_rate=0.05 --rate_batch=0 --rate_drops=0.85
    --encoder_rate_factor=1 --clip_norm=5 --warmup_steps=10 --weight_decay=0 --strategy=single
""".split()


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """(workdir, result) of a run that learns its four images by heart."""
    folder = tmp_path_factory.mktemp("run")
    flags = [f"--dataset=voc:{samples.write_boxes(folder / 'boxes')}", f"--data_dir={folder}/data"]
    with pytest.MonkeyPatch.context() as patch:
        make_tiny(patch)
        config = cli.parse(DetectConfig, [*FLAGS, *flags, f"--workdir={folder}/detect"])
        return folder / "detect", detect(config)


def test_it_learns_four_images_by_heart(learned):
    _, result = learned
    assert min(result["map11"], result["map_all"]) > 0.9
    assert set(result["ap_all"]) == set(result["ap11"]) == {"bar", "square"}


def test_result(learned):
    workdir, result = learned
    assert json.loads((workdir / "result.json").read_text()) == result
    wanted = {
        **{"kind": "detect", "encoder": "random", "backbone": "tiny", "seed": 0, "iou": 0.5, "steps": 120},
        **{"split": "train", "test_split": "train", "num_classes": 2, "class_names": ["bar", "square"]},
        **{"images": 4, "boxes": 4, "test_images": 4, "test_boxes": 4},
    }
    assert {name: result[name] for name in wanted} == wanted
    assert result["wall_seconds"] > 0
    records = [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]
    assert [record["step"] for record in records] == [40, 80, 120]


def test_what_it_leaves(learned):
    workdir, result = learned
    assert json.loads((workdir / "class_names.json").read_text()) == result["class_names"]
    assert len(list((workdir / "detections").glob("comp4_det_train_*.txt"))) == 2
    found = json.loads((workdir / "detections.json").read_text())
    assert sum(len(image["truth"]["labels"]) for image in found["images"]) == 4
    assert f"{100 * result['map11']:.1f}%" in (workdir / "table.txt").read_text().splitlines()[-3]
    for name in ("curves.png", "sheet.png"):
        assert Image.open(workdir / name).size[0] > 500


def test_objects_that_are_not_learned_from_are_reported_once():
    watch = LeftOut()
    assert watch(5, {"left_out": 0.4}) is None
    assert "step 10: 0.6 objects of an image are not learned from" in watch(10, {"left_out": 0.6})
    assert watch(15, {"left_out": 0.9}) is None
