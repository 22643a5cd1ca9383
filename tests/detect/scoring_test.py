"""Average precision by VOC's and COCO's rules against slow, plain answers, the best score, and what
a test writes.
"""

import json

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.boxes.config import CanvasConfig
from cpc_tf.detect import scoring
from cpc_tf.detect.boxes import Detections
from cpc_tf.detect.scoring import (
    ELEVEN,
    Curve,
    Scene,
    average_precision,
    best_f1,
    judge,
    judge_by_coco,
    mean_average_precision,
    precision_recall,
)
from cpc_tf.training.strategy import make_strategy
from tests.boxes.samples import RECTANGLES, Images, rectangle
from tests.data.samples import encode
from tests.detect.samples import found, overlap, truth

HERE, THERE, ELSEWHERE = [0, 0, 10, 10], [20, 20, 30, 30], [50, 50, 60, 60]


def curve_of(right, objects):
    """The curve of detections that are right or not, best first."""
    hits, count = np.cumsum(right), np.arange(1, len(right) + 1)
    return Curve(-count, hits / objects, hits / count, objects)


def test_vector_of_padilla():
    """Padilla et al. 2020, github.com/rafaelpadilla/Object-Detection-Metrics: 24 detections, 15
    objects.
    """
    curve = curve_of(np.isin(np.arange(1, 25), [1, 3, 10, 12, 13, 14, 23]), 15)
    values = [average_precision(curve, recalls) for recalls in (None, ELEVEN)]
    np.testing.assert_allclose(
        values, [(1 + 2 / 3 + 4 * 3 / 7 + 7 / 23) / 15, (1 + 2 / 3 + 3 * 3 / 7) / 11]
    )
    np.testing.assert_allclose(values, [0.2456, 0.2684], atol=1e-4)  # as published


def test_recall_of_a_whole_tenth_counts_as_reached():
    values = [average_precision(curve_of([True] * tenth, 10), ELEVEN) for tenth in range(11)]
    np.testing.assert_allclose(values, [0, *(np.arange(2, 12) / 11)])


def test_second_detection_of_an_object_is_wrong():
    # The second detection overlaps the first object most, which is taken, and the second one by
    # 0.54.
    objects = truth([[0, 0, 10, 10], [0, 3, 10, 13]])
    assert judge(objects, found([[0, 0, 10, 10], [0, 1, 10, 9]], [0.9, 0.8])).right.tolist() == [
        1,
        0,
    ]
    assert judge(objects, found([[0, 2, 10, 12], [0, 0, 10, 10]], [0.9, 0.8])).right.tolist() == [
        1,
        1,
    ]


@pytest.mark.parametrize(("iou", "right"), [(0.5, 1), (0.51, 0), (0.3, 1)])
def test_least_overlap(iou, right):
    assert judge(truth([HERE]), found([[0, 0, 10, 5]], [0.5]), iou).right.tolist() == [right]


def test_classes():
    truths = [truth([HERE, THERE, ELSEWHERE], [0, 1, 3], [False, False, True]), truth([])]
    detections = [found([HERE, THERE], [0.9, 0.8], [0, 2]), found([HERE], [0.7], [0])]
    values = [average_precision(curve) for curve in precision_recall(truths, detections, 4)]
    # 0: found; 1: missed; 2: has no objects; 3: only a difficult one.
    np.testing.assert_array_equal(values, [1, 0, np.nan, np.nan])
    assert mean_average_precision(values) == 0.5
    assert np.isnan(mean_average_precision(values[2:]))


@pytest.mark.parametrize(
    ("truths", "value"), [([truth([])], np.nan), ([truth([HERE])], 0), ([], np.nan)]
)
def test_nothing_found(truths, value):
    (curve,) = precision_recall(truths, [found([], [])] * len(truths), 1)
    np.testing.assert_equal(
        [average_precision(curve, recalls) for recalls in (None, ELEVEN)], [value] * 2
    )


def kit_oracle(truths, detections, iou):
    """(all points, 11 points) as the kit goes: detection by detection over all images."""
    ranked = [
        (score, i, box) for i, d in enumerate(detections) for box, score in zip(d.boxes, d.scores)
    ]
    taken, hits, judged, points = set(), 0, 0, []
    objects = sum(not x for t in truths for x in t.difficult)
    for _, i, box in sorted(ranked, key=lambda entry: -entry[0]):
        overlaps = [overlap(box, other) for other in truths[i].boxes]
        best = int(np.argmax(overlaps)) if overlaps else -1
        if best >= 0 and overlaps[best] >= iou:
            if truths[i].difficult[best]:
                continue
            hits += (i, best) not in taken
            taken.add((i, best))
        judged += 1
        points.append((hits / objects, hits / judged))
    best_from = lambda recall: max((p for r, p in points if r >= recall), default=0)  # noqa: E731
    levels = sorted({r for r, _ in points} | {0})
    area = sum((b - a) * best_from(b) for a, b in zip(levels, levels[1:]))
    return area, sum(best_from(i / 10) for i in range(11)) / 11


def coco_oracle(truths, detections, label, iou):
    """COCO's average precision of a class, as pycocotools' loops go: detection by detection, object
    by object.
    """
    ranked = []
    for t, d in zip(truths, detections):
        objects = sorted(np.flatnonzero(t.labels == label), key=lambda k: t.difficult[k])
        left = {k for k in objects if not t.difficult[k]}
        for j in sorted(np.flatnonzero(d.labels == label), key=lambda j: -d.scores[j]):
            best, least = None, iou
            for k in objects:
                if best is not None and not t.difficult[best] and t.difficult[k]:
                    break  # an object that counts is found
                if (k in left or t.difficult[k]) and overlap(d.boxes[j], t.boxes[k]) >= least:
                    best, least = k, overlap(d.boxes[j], t.boxes[k])
            if best is None or not t.difficult[best]:
                ranked.append((d.scores[j], best is not None))
                left.discard(best)
    right = np.array([hit for _, hit in sorted(ranked, key=lambda entry: -entry[0])])
    objects = sum(int(np.sum((t.labels == label) & ~t.difficult)) for t in truths)
    recall, precision = np.cumsum(right) / objects, np.cumsum(right) / np.arange(1, len(right) + 1)
    return np.mean([max(precision[recall >= point], default=0) for point in np.linspace(0, 1, 101)])


def scenes(seed, spread):
    """Objects of 12 images at the nodes of a grid `spread` apart, and detections near them or
    nowhere; one class.
    """
    random = np.random.default_rng(seed)
    for _ in range(12):
        nodes = random.permutation(9)[: random.integers(0, 6)]
        corner = np.stack([nodes // 3, nodes % 3], 1) * spread
        boxes = np.concatenate([corner, corner + 20], 1) + random.uniform(0, 3, [len(nodes), 4])
        near = boxes[random.integers(0, len(nodes), 8)] if len(nodes) else np.zeros([0, 4])
        corner = random.uniform(0, 60, [5, 2])
        guesses = np.concatenate(
            [near + random.normal(0, 2.5, near.shape), np.concatenate([corner, corner + 20], 1)]
        )
        yield (
            truth(boxes, difficult=random.uniform(size=len(boxes)) < 0.3),
            found(guesses, random.uniform(size=len(guesses))),
        )


@pytest.mark.parametrize(("iou", "spread"), [(0.5, 10), (0.7, 30)])
def test_equals_the_kits_rules(iou, spread):
    truths, detections = zip(*scenes(0, spread))
    (curve,) = precision_recall(truths, detections, 1, iou)
    ours = average_precision(curve), average_precision(curve, ELEVEN)
    assert 0.05 < ours[0] < 0.95
    np.testing.assert_allclose(ours, kit_oracle(truths, detections, iou), atol=1e-6)


def test_equals_cocos_rules():
    """Over ten overlaps, with crowded objects, which take another detection than by VOC's rules,
    and difficult ones.
    """
    truths, detections = zip(*scenes(0, 3))
    draw = np.random.default_rng(2)
    truths = [t._replace(labels=draw.integers(0, 2, len(t.labels))) for t in truths]
    detections = [d._replace(labels=draw.integers(0, 2, len(d.labels))) for d in detections]
    found = scoring.score([Scene("", *pair) for pair in zip(truths, detections)], 2)
    overlaps = np.arange(50, 100, 5) / 100
    wanted = np.array(
        [[coco_oracle(truths, detections, label, iou) for label in (0, 1)] for iou in overlaps]
    )
    np.testing.assert_allclose(found.coco50, wanted[0], atol=1e-9)
    np.testing.assert_allclose(found.coco, wanted.mean(0), atol=1e-9)
    means = [found.means[name] for name in ("map50", "map50_95")]
    np.testing.assert_allclose(means, [wanted[0].mean(), wanted.mean()])
    assert any(
        (judge_by_coco(t, d)[0] != judge(t, d).right).any() for t, d in zip(truths, detections)
    )


def test_best_score_maximizes_f1():
    truths = [truth([HERE, THERE], difficult=[False, True]), truth([HERE, THERE])]
    detections = [
        found([HERE, THERE, ELSEWHERE], [0.9, 0.8, 0.1]),
        found([HERE, HERE, THERE], [0.7, 0.305, 0.3]),
    ]
    # At 0.3: three of four; a second box of an object is wrong, and one of a difficult object does
    # not count.
    best = best_f1(truths, detections)
    assert best[1:] == (3, 4, 3)
    assert (best.precision, best.recall, best.f1) == (3 / 4, 1, 6 / 7)
    assert best.score == 0.21, "in the middle of those that do as well: from 0.11 to 0.30"
    assert best_f1(truths[:1], detections[:1]).score == 0.51, "from 0.11 to 0.90"
    assert best_f1(truths, detections, iou=1.0).right == 3
    assert best_f1([truth([])], [found([HERE], [0.9])]) is None
    nothing = best_f1(truths, [found([], [])] * 2)
    assert (nothing.right, nothing.precision, nothing.recall) == (0, 0, 0)


CANVAS = CanvasConfig(
    area_scale=1,
    canvas_height=60,
    canvas_width=80,
    smallest_area=800,
    largest_area=2400,
    test_area=1500,
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
    """Finds one object of class 1 that is as large as the image, and a surer one of class 0 in its
    upper half.
    """
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
        np.testing.assert_allclose(
            scene.detected.boxes, [[0, 0, height / 2, width], [0, 0, height, width]], rtol=1e-5
        )
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


def test_classes_absent_from_the_test_do_not_count():
    scores = scoring.score(SCENES, 4)
    result = scores.result(NAMES)
    # The car: wrong, right of two; the dog: all.
    assert result["ap_all"] == {"car": pytest.approx(0.25), "dog": 1.0}
    assert result["ap11"] == {"car": pytest.approx(6 / 11 / 2), "dog": 1.0}
    assert result["map_all"] == pytest.approx(0.625)
    assert result["map11"] == pytest.approx((1 + 3 / 11) / 2)
    *lines, about, best, caution = scoring.table(scores, NAMES, len(SCENES)).splitlines()
    assert lines[1].split() == ["car", "2", "27.3%", "25.0%", "25.2%"]  # 51 of 101 recalls
    assert lines[3].split() == ["absent", "0", "-", "-", "-"]
    # the dog's box overlaps by 0.6
    assert lines[5].split() == [
        "mean",
        "3",
        "63.6%",
        "62.5%",
        "27.6%",
    ]
    assert len({len(line) for line in lines}) == 1
    assert best.startswith(
        "best F1 with boxes of a score of 0.76 or more, chosen on the test images: 2 of 3 boxes"
    )
    assert about == f"3 objects in {len(SCENES)} test images"
    assert caution.startswith(f"only {len(SCENES)} test images: the mAP is a rough guide")


CLASSES = ("car", "traffic light")


def random_scenes(count=30):
    """Four objects in each, which are nearly found, and two detections that are mostly wrong."""
    draw = np.random.default_rng(0)
    for i in range(count):
        corners = draw.uniform(0, 60, [4, 2])
        objects = np.concatenate([corners, corners + draw.uniform(5, 30, [4, 2])], 1).astype(
            np.float32
        )
        detections = np.concatenate([objects + draw.normal(0, 3, [4, 4]), objects[:2] + 40]).astype(
            np.float32
        )
        labels, scores = draw.integers(0, 2, 4), draw.uniform(0.05, 1, 6).astype(np.float32)
        guesses = np.append(labels, draw.integers(0, 2, 2))
        yield Scene(
            f"{i:06}",
            truth(objects, labels, draw.random(4) < 0.2),
            found(detections, scores, guesses),
        )


RANDOM_SCENES = [*random_scenes()]
WANTED = scoring.score(RANDOM_SCENES, 2).result(CLASSES)


def test_result_lines_count_inclusive_pixels_from_one():
    scene = Scene("2007_1", truth([]), found([[0, 10, 2, 30.5]], np.float32([0.123456789]), [1]))
    files = scoring.result_files([scene], CLASSES, "test")
    assert files == {
        "comp4_det_test_car.txt": "",
        "comp4_det_test_traffic_light.txt": "2007_1 0.123456791 11.000 1.000 30.500 2.000\n",
    }


def test_scores_from_result_files_are_equal():
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


def test_scores_from_json_are_equal():
    content = json.loads(scoring.to_json(RANDOM_SCENES, CLASSES, "voc/2007", "test"))
    assert (content["dataset"], content["split"], content["class_names"]) == (
        "voc/2007",
        "test",
        list(CLASSES),
    )
    read = [
        Scene(
            image["name"],
            truth(*(image["truth"][key] for key in ("boxes", "labels", "difficult"))),
            found(*(image[key] for key in ("boxes", "scores", "labels"))),
        )
        for image in content["images"]
    ]
    assert scoring.score(read, 2).result(CLASSES) == WANTED


def test_result_file_names_are_short_unicode_and_unique():
    # Hindi has marks, Chinese has no case; of long names the first bytes are kept.
    hindi, red = "\u0939\u093f\u0928", "\u7ea2"
    names = ("a/b", "a b", "Müller", hindi, f"{red}/a", red * 200, red * 201)
    wanted = ("a_b", "a_b_1", "Müller", hindi, f"{red}_a", red * 33, red * 33 + "_6")
    files = [*scoring.result_files([], names, "validation[:10%]")]
    assert files == [f"comp4_det_validation__10___{name}.txt" for name in wanted]
