"""From a dataset and a detector to average precisions."""

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.data.config import CanvasConfig
from cpc_tf.detect import scoring
from cpc_tf.detect.average_precision import Found, Truth
from cpc_tf.detect.suppression import Detections
from cpc_tf.detect.scoring import Scene
from cpc_tf.training.strategy import make_strategy
from tests.data.samples import RECTANGLES, Images, encode, rectangle

CANVAS = CanvasConfig(canvas_height=60, canvas_width=80, smallest_area=800, largest_area=2400, test_area=1500)
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


@pytest.mark.parametrize("batch", [1, 3, 16])
def test_boxes_come_back_to_the_images_own_pixels(batch):
    seen = []

    def detector(images, sizes):
        seen.append(images.shape)
        return whole_image(images, sizes)

    scenes = scoring.find(Images(EXAMPLES), CANVAS, detector, make_strategy("single"), batch)
    assert set(seen) == {tf.TensorShape([batch, 60, 80, 3])}, "one shape, whatever is left over"
    assert [scene.name for scene in scenes] == [f"image{i}" for i in range(7)]
    shapes = [shape for shape, _ in RECTANGLES] + [(50, 30), (40, 60)]
    for scene, (height, width), example in zip(scenes, shapes, EXAMPLES):
        np.testing.assert_allclose(scene.found.boxes, [[0, 0, height / 2, width], [0, 0, height, width]], rtol=1e-5)
        assert scene.found.labels.tolist() == [0, 1]
        np.testing.assert_array_equal(scene.truth.boxes, np.reshape(example[1], [-1, 4]))
        assert scene.truth.labels.tolist() == list(example[2])
        assert scene.truth.difficult.tolist() == list(example[3])


def test_two_replicas_share_the_work(two_replicas, capsys):
    one, two = (
        scoring.find(Images(EXAMPLES), CANVAS, whole_image, strategy, 2)
        for strategy in (make_strategy("single"), two_replicas)
    )
    assert [scene.name for scene in one] == [scene.name for scene in two]
    for ours, theirs in zip(one, two):
        for mine, other in zip(ours.found, theirs.found):
            np.testing.assert_array_equal(mine, other)
    assert "testing  7/7 100 %" in capsys.readouterr().out


def test_objects_are_counted_apart_from_difficult_ones():
    easy, difficult = scoring.objects_of_classes(Images(EXAMPLES))
    assert easy.tolist() == [0, 5, 29]
    assert difficult.sum() == sum(sum(difficult) for *_, difficult in EXAMPLES)


def scene(truth, found):
    """Boxes are intervals of a strip: (start, end, label, difficult) and (start, end, label, score)."""

    def boxes(intervals):
        return np.array([[0, start, 1, end] for start, end, *_ in intervals], np.float32).reshape(-1, 4)

    _, _, labels, difficult = zip(*truth) if truth else [()] * 4
    _, _, guesses, scores = zip(*found) if found else [()] * 4
    return Scene(
        "scene",
        Truth(boxes(truth), np.array(labels, int), np.array(difficult, bool)),
        Found(boxes(found), np.array(scores, np.float32), np.array(guesses, int)),
    )


NAMES = ("car", "dog", "absent", "only difficult")
SCENES = [
    scene(
        [(0, 10, 0, False), (20, 30, 1, False), (40, 50, 3, True)],
        [(0, 10, 0, 0.9), (20, 26, 1, 0.8), (60, 70, 2, 0.7)],
    ),
    scene([(0, 10, 0, False)], [(40, 50, 0, 0.95)]),
    scene([], []),
]


def test_classes_that_the_test_lacks_do_not_count():
    result = scoring.score(SCENES, 4).result(NAMES)
    # The car: wrong, right of two; the dog: all.
    assert result["ap_all"] == {"car": pytest.approx(0.25), "dog": 1.0}
    assert result["ap11"] == {"car": pytest.approx(6 / 11 / 2), "dog": 1.0}
    assert result["map_all"] == pytest.approx(0.625)
    assert result["map11"] == pytest.approx((1 + 3 / 11) / 2)


def test_the_overlap_is_a_setting():
    assert scoring.score(SCENES, 4, iou=0.7).result(NAMES)["ap_all"]["dog"] == 0.0


def test_the_table():
    lines = scoring.table(scoring.score(SCENES, 4), NAMES).splitlines()
    assert lines[0].split() == ["average", "precision", "of", "objects", "11", "points", "all", "points"]
    assert lines[1].split() == ["car", "2", "27.3%", "25.0%"]
    assert lines[3].split() == ["absent", "0", "-", "-"]
    assert lines[5].split() == ["mean", "3", "63.6%", "62.5%"]
    assert len({len(line) for line in lines}) == 1
