"""From a dataset and a detector to average precisions."""

import json

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.boxes.config import CanvasConfig
from cpc_tf.detect import scoring
from cpc_tf.detect.boxes import Detections
from cpc_tf.detect.scoring import Scene
from cpc_tf.training.strategy import make_strategy
from tests.boxes.samples import RECTANGLES, Images, rectangle
from tests.data.samples import encode
from tests.detect.samples import found, truth

CANVAS = CanvasConfig(
    area_scale=1, canvas_height=60, canvas_width=80, smallest_area=800, largest_area=2400, test_area=1500
)
NOTHING = encode(np.zeros([50, 30, 3], np.uint8)), [], [], []
CROWDED = (
    encode(np.zeros([40, 60, 3], np.uint8)),
    [[i, i, i + 2, i + 2] for i in range(30)],
    [2] * 30,
    [True] + [False] * 29,
)
EXAMPLES = [rectangle(*example) for example in RECTANGLES] + [NOTHING, CROWDED]


def whole_image(images, sizes):
    """Finds one object of class 1 that is as large as the image, and a surer one of class 0 in its upper half."""
    size = tf.cast(sizes, tf.float32)
    zeros = tf.zeros_like(size[:, 0])
    whole = tf.stack([zeros, zeros, size[:, 0], size[:, 1]], 1)
    half = whole * [1, 1, 0.5, 1]
    count = tf.fill(tf.shape(zeros), 2)
    return Detections(
        tf.stack([half, whole, 0 * whole], 1),
        tf.stack([zeros + 0.9, zeros + 0.5, zeros], 1),
        tf.tile([[0, 1, -1]], [images.shape[0], 1]),
        count,
    )


@pytest.mark.slow
def test_boxes_come_back_to_the_images_own_pixels(capsys):
    seen = []

    def detector(images, sizes):
        seen.append(images.shape)
        return whole_image(images, sizes)

    scenes = scoring.finder(CANVAS, detector, make_strategy("single"), 3)(Images(EXAMPLES))
    assert set(seen) == {tf.TensorShape([3, 60, 80, 3])}, "one shape, whatever is left over"
    assert [scene.name for scene in scenes] == [f"image{i}" for i in range(7)]
    assert "testing  7/7 100 %" in capsys.readouterr().out
    shapes = [shape for shape, _ in RECTANGLES] + [(50, 30), (40, 60)]
    for scene, (height, width), example in zip(scenes, shapes, EXAMPLES):
        np.testing.assert_allclose(scene.detected.boxes, [[0, 0, height / 2, width], [0, 0, height, width]], rtol=1e-5)
        assert scene.detected.labels.tolist() == [0, 1]
        np.testing.assert_array_equal(scene.truth.boxes, np.reshape(example[1], [-1, 4]))
        assert scene.truth.labels.tolist() == list(example[2])
        assert scene.truth.difficult.tolist() == list(example[3])


@pytest.mark.slow
def test_objects_are_counted_apart_from_difficult_ones():
    easy, difficult = scoring.objects_of_classes(Images(EXAMPLES))
    assert easy.tolist() == [0, 5, 29]
    assert difficult.sum() == sum(sum(difficult) for *_, difficult in EXAMPLES)


def strip(*intervals):
    """Boxes that are intervals of a strip."""
    return [[0, start, 1, end] for start, end in intervals]


NAMES = ("car", "dog", "absent", "only difficult")
SCENES = [
    Scene(
        "scene",
        truth(strip((0, 10), (20, 30), (40, 50)), [0, 1, 3], [False, False, True]),
        found(strip((0, 10), (20, 26), (60, 70)), [0.9, 0.8, 0.7], [0, 1, 2]),
    ),
    Scene("scene", truth(strip((0, 10))), found(strip((40, 50)), [0.95])),
    Scene("scene", truth([]), found([], [])),
]


def test_classes_that_the_test_lacks_do_not_count_and_the_table_has_all():
    scores = scoring.score(SCENES, 4)
    result = scores.result(NAMES)
    # The car: wrong, right of two; the dog: all.
    assert result["ap_all"] == {"car": pytest.approx(0.25), "dog": 1.0}
    assert result["ap11"] == {"car": pytest.approx(6 / 11 / 2), "dog": 1.0}
    assert result["map_all"] == pytest.approx(0.625)
    assert result["map11"] == pytest.approx((1 + 3 / 11) / 2)
    *lines, about, caution = scoring.table(scores, NAMES, len(SCENES)).splitlines()
    assert lines[1].split() == ["car", "2", "27.3%", "25.0%"]
    assert lines[3].split() == ["absent", "0", "-", "-"]
    assert lines[5].split() == ["mean", "3", "63.6%", "62.5%"]
    assert len({len(line) for line in lines}) == 1
    assert about == f"3 objects in {len(SCENES)} test pictures"
    assert caution.startswith(f"only {len(SCENES)} test pictures: the mAP is a rough guide")


CLASSES = ("car", "traffic light")


def random_scenes(count=30):
    """Four objects in each, which are nearly found, and two detections that are mostly wrong."""
    draw = np.random.default_rng(0)
    for i in range(count):
        corners = draw.uniform(0, 60, [4, 2])
        objects = np.concatenate([corners, corners + draw.uniform(5, 30, [4, 2])], 1).astype(np.float32)
        detections = np.concatenate([objects + draw.normal(0, 3, [4, 4]), objects[:2] + 40]).astype(np.float32)
        labels, scores = draw.integers(0, 2, 4), draw.uniform(0.05, 1, 6).astype(np.float32)
        guesses = np.append(labels, draw.integers(0, 2, 2))
        yield Scene(f"{i:06}", truth(objects, labels, draw.random(4) < 0.2), found(detections, scores, guesses))


RANDOM_SCENES = [*random_scenes()]
WANTED = scoring.score(RANDOM_SCENES, 2).result(CLASSES)


def test_a_line_counts_pixels_from_one_the_last_included():
    scene = Scene("2007_1", truth([]), found([[0, 10, 2, 30.5]], np.float32([0.123456789]), [1]))
    files = scoring.result_files([scene], CLASSES, "test")
    assert files == {
        "comp4_det_test_car.txt": "",
        "comp4_det_test_traffic_light.txt": "2007_1 0.123456791 11.000 1.000 30.500 2.000\n",
    }


def test_scored_from_the_result_files_it_is_the_same():
    scenes = {scene.name: ([], [], []) for scene in RANDOM_SCENES}
    for label, text in enumerate(scoring.result_files(RANDOM_SCENES, CLASSES, "test").values()):
        for name, *numbers in map(str.split, text.splitlines()):
            score, xmin, ymin, xmax, ymax = map(float, numbers)
            boxes, scores, labels = scenes[name]
            boxes.append([ymin - 1, xmin - 1, ymax, xmax])
            scores.append(score)
            labels.append(label)
    read = [Scene(s.name, s.truth, found(*scenes[s.name])) for s in RANDOM_SCENES]
    assert scoring.score(read, 2).result(CLASSES) == WANTED


def test_scored_from_the_json_alone_it_is_the_same():
    content = json.loads(scoring.to_json(RANDOM_SCENES, CLASSES, "voc/2007", "test"))
    assert (content["dataset"], content["split"], content["class_names"]) == ("voc/2007", "test", list(CLASSES))
    read = [
        Scene(
            image["name"],
            truth(*(image["truth"][key] for key in ("boxes", "labels", "difficult"))),
            found(*(image[key] for key in ("boxes", "scores", "labels"))),
        )
        for image in content["images"]
    ]
    assert scoring.score(read, 2).result(CLASSES) == WANTED


def test_names_of_files_have_letters_of_any_script_are_short_and_stay_apart():
    # Hindi has marks, Chinese has no case; of long names the first bytes are kept.
    hindi, red = "\u0939\u093f\u0928", "\u7ea2"
    names = ("a/b", "a b", "Müller", hindi, f"{red}/a", red * 200, red * 201)
    wanted = ("a_b", "a_b_1", "Müller", hindi, f"{red}_a", red * 33, red * 33 + "_6")
    files = [*scoring.result_files([], names, "validation[:10%]")]
    assert files == [f"comp4_det_validation__10___{name}.txt" for name in wanted]
