"""Detection runs: their phases, the choice of a length, and what they leave."""

import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from cpc_tf.boxes.source import Named
from cpc_tf.core import cli
from cpc_tf.core.settings import ConfigError, replace
from cpc_tf.detect.config import DetectConfig
from cpc_tf.detect.faster_rcnn import FasterRCNN
from cpc_tf.detect.run import LeftOut, Lengths, Parts, best_length, detect, divided, lengths
from cpc_tf.detect.scoring import objects_of_classes
from cpc_tf.detect.trainee import LOSSES, build_detector
from tests import samples
from tests.boxes.samples import RECTANGLES, Images, rectangle
from tests.detect.samples import SMALL, make_tiny

pytestmark = pytest.mark.drawn
FLAGS = """
    --split=train --test_split=train --canvas_height=64 --canvas_width=64 --smallest_area=4096
    --largest_area=4096 --test_area=4096 --nocanvas_mirror --canvas_colour_drop=0 --max_boxes=2
    --encoder=random --backbone=tiny --anchor_sizes=16,32 --rpn_width=16 --rpn_samples=32
    --rpn_train_candidates=60 --rpn_train_proposals=30 --rpn_test_candidates=60
    --rpn_test_proposals=30 --region_samples=16 --region_positive_fraction=0.5 --region_reduce=0
    --region_pool=5 --region_head=mlp --region_blocks=1 --region_width=32 --batch_size=4
    --train_steps=200 --steps_per_loop=40 --learning_rate=0.02 --rate_batch=0 --rate_drops=0.85
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


@pytest.mark.slow
def test_it_learns_four_images_by_heart(learned):
    _, result = learned
    assert min(result["map11"], result["map_all"]) > 0.9
    assert set(result["ap_all"]) == set(result["ap11"]) == {"bar", "square"}


@pytest.mark.slow
def test_result(learned):
    workdir, result = learned
    assert json.loads((workdir / "result.json").read_text()) == result
    wanted = {
        **{
            "kind": "detect",
            "encoder": "random",
            "backbone": "tiny",
            "seed": 0,
            "iou": 0.5,
            "steps": 200,
        },
        **{
            "split": "train",
            "test_split": "train",
            "num_classes": 2,
            "class_names": ["bar", "square"],
        },
        **{"images": 4, "boxes": 4, "test_images": 4, "test_boxes": 4},
    }
    assert {name: result[name] for name in wanted} == wanted
    assert result["wall_seconds"] > 0
    records = [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]
    assert [record["step"] for record in records] == [40, 80, 120, 160, 200]


@pytest.mark.slow
def test_what_it_leaves(learned):
    workdir, result = learned
    assert json.loads((workdir / "class_names.json").read_text()) == result["class_names"]
    assert len(list((workdir / "detections").glob("comp4_det_train_*.txt"))) == 2
    found = json.loads((workdir / "detections.json").read_text())
    assert sum(len(image["truth"]["labels"]) for image in found["images"]) == 4
    mean, _, best, _ = (workdir / "table.txt").read_text().splitlines()[-4:]
    assert f"{100 * result['map11']:.1f}%" in mean
    assert f"a score of {result['best_f1']['score']:g} or more" in best
    for name in ("curves.png", "sheet.png"):
        assert Image.open(workdir / name).size[0] > 500


@pytest.mark.slow
def test_objects_left_out_are_reported_once():
    watch = LeftOut()
    assert watch(5, {"left_out": 0.4}) is None
    assert "step 10: 0.6 objects of an image are not learned from" in watch(10, {"left_out": 0.6})
    assert watch(15, {"left_out": 0.9}) is None


SOURCE = Images([rectangle(*RECTANGLES[i % 4]) for i in range(10)])


def test_lengths_are_of_all_images():
    config = replace(SMALL, batch_size=4, train_steps=0, train_epochs=6.0, frozen_epochs=2.0)
    assert lengths(config, 10) == Lengths(5, 10)
    assert lengths(replace(config, frozen_epochs=0.0), 10) == Lengths(0, 15)


@pytest.fixture(scope="module")
def parts():
    return divided(SOURCE, 0.2, seed=0)


@pytest.mark.slow
def test_every_image_is_in_one_part(parts):
    fit, held_out = [part.objects.names for part in parts]
    assert (parts.fit.num_examples, parts.held_out.num_examples) == (8, 2)
    assert sorted(fit + held_out) == sorted(SOURCE.objects.names)
    assert divided(SOURCE, 0.2, seed=0).held_out.objects.names == held_out
    assert divided(SOURCE, 0.2, seed=1).held_out.objects.names != held_out


class ReadOnce(Images):
    """Images that are read once."""

    def ordered(self):
        self.ordered = None
        return super().ordered()


@pytest.mark.slow
def test_images_are_read_once_to_split_and_count():
    source = ReadOnce(SOURCE._examples)
    parts = divided(source, 0.2, seed=0)
    counts = [objects_of_classes(one) for one in (source, *parts)]
    assert counts[0].sum() == 10
    np.testing.assert_array_equal(counts[0], counts[1] + counts[2])
    streamed = [
        example["name"].decode() for example in parts.fit.stream(0).take(8).as_numpy_iterator()
    ]
    assert streamed == parts.fit.objects.names


@pytest.mark.slow
def test_a_part_without_objects_is_refused():
    encoded, *_ = rectangle(*RECTANGLES[0])
    with pytest.raises(
        ConfigError, match="--held_out=0.5: splits the 2 training images into 1 to train on and 1"
    ):
        divided(Images([rectangle(*RECTANGLES[0]), (encoded, [], [], [])]), 0.5, seed=0)


@pytest.mark.slow
def test_some_images_are_read_from_any_step_on():
    """Each once in an epoch; a later start goes on with the same."""
    some = Named(SOURCE, [f"image{i}" for i in (1, 2, 5)])
    found = [(int(e["counter"]), e["name"].numpy().decode()) for e in some.stream(0).take(9)]
    assert [counter for counter, _ in found] == list(range(9))
    assert all(
        {name for _, name in found[i : i + 3]} == {"image1", "image2", "image5"} for i in (0, 3, 6)
    )
    again = some.stream(0, 7, select=lambda counter: counter % 2 == 0).take(1)
    assert [(int(e["counter"]), e["name"].numpy().decode()) for e in again] == [found[8]]


class Scripted:
    """Phases whose tests on the held-out images have these scores."""

    def __init__(self, *scores):
        self.tests = [
            {"step": 3 * i, "held_out_map_all": x, "held_out_map11": 0.0}
            for i, x in enumerate(scores)
        ]

    def first(self, source, steps, *folders):
        assert (steps, folders) == (7, ("search",))

    def held_out(self, source):
        return {name: value for name, value in self.tests[0].items() if name != "step"}

    def second(self, source, length, steps, *folders, held_out):
        return [{"step": 1, "loss": 2.0}, *self.tests[1:]]


@pytest.mark.parametrize(("scores", "steps"), [((0.1, 0.3, 0.3), 3), ((0.4, 0.3, 0.4), 0)])
def test_best_length_is_chosen_earliest_among_equals(scores, steps):
    records = best_length(Scripted(*scores), Parts("fit", "held out"), Lengths(7, 6))
    assert [record["steps"] for record in records] == [0, 3, 6]
    assert [record["steps"] for record in records if record["chosen"]] == [steps]


def checkpoint(folder):
    """{name: value} of the detector in the last checkpoint of a phase."""
    reader = tf.train.load_checkpoint(
        str(max(folder.glob("checkpoints/*.index"))).removesuffix(".index")
    )
    names = [name for name in reader.get_variable_to_shape_map() if name.startswith("model/")]
    return {name: reader.get_tensor(name) for name in names}


def quick(model, *_):
    """Losses that are traced at once: every variable is drawn to 1."""
    return dict.fromkeys(
        LOSSES, tf.add_n([tf.reduce_sum(tf.square(v - 1)) for v in model.trainable_variables])
    )


@pytest.mark.slow
def test_frozen_phase_keeps_encoder_and_second_uses_it(tmp_path, monkeypatch):
    """With a rate of zero in the second phase its detector is that of the first: no test is better
    than the first.
    """
    make_tiny(monkeypatch)
    monkeypatch.setattr(FasterRCNN, "training_losses", quick)
    lines = pathlib.Path(__file__).with_name("tiny.flags").read_text().splitlines()
    boxes = samples.write_boxes(tmp_path / "boxes", count=6)
    flags = [
        line.replace("BOXES", boxes).replace("MODULE", "random")
        for line in lines
        if line.startswith("--")
    ]
    flags += (
        "--backbone=tiny --batch_size=4 --train_steps=4 --frozen_epochs=1 --held_out=0.3".split()
    )
    flags += "--encoder_rate_factor=0 --strategy=single --steps_per_loop=1".split()
    flags += [f"--data_dir={tmp_path}/cache", f"--workdir={tmp_path}/run"]
    config = cli.parse(DetectConfig, flags)
    result, given = detect(config), build_detector(config, 2).encoder_variables
    first, second = (
        checkpoint(tmp_path / "run/search" / phase) for phase in ("frozen", "fine-tuned")
    )
    kept = [value for name, value in first.items() if "backbone/encoder" in name]
    assert len(kept) == len(given) > 10
    for variable in given:
        assert any(np.array_equal(variable.numpy(), value) for value in kept), variable.name
    assert first.keys() == second.keys()
    for name, value in first.items():
        np.testing.assert_array_equal(second[name], value, err_msg=name)
    assert {name: (phase["steps"], phase["map11"]) for name, phase in result["phases"].items()} == {
        "frozen": (2, result["map11"]),
        "fine-tuned": (0, result["map11"]),
    }
    assert [(look["steps"], look["chosen"]) for look in result["search"]] == [
        (0, True),
        (1, False),
        (2, False),
    ]
    assert (result["steps"], result["most_steps"]) == (2, 4)
    assert not (tmp_path / "run/fine-tuned").exists()
