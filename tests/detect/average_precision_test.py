"""Average precision against published vectors, the kit's rules and COCO's, one detection at a time."""

import numpy as np
import pytest

from cpc_tf.detect.scoring import Curve, average_precision, judge, mean_average_precision, precision_recall
from tests.detect.samples import found, overlap, truth

HERE, THERE, ELSEWHERE = [0, 0, 10, 10], [20, 20, 30, 30], [50, 50, 60, 60]


def curve_of(right, objects):
    """The curve of detections that are right or not, best first."""
    hits, count = np.cumsum(right), np.arange(1, len(right) + 1)
    return Curve(-count, hits / objects, hits / count, objects)


def test_vector_of_padilla():
    """Padilla et al. 2020, github.com/rafaelpadilla/Object-Detection-Metrics: 24 detections, 15 objects."""
    curve = curve_of(np.isin(np.arange(1, 25), [1, 3, 10, 12, 13, 14, 23]), 15)
    values = [average_precision(curve, eleven_points) for eleven_points in (False, True)]
    np.testing.assert_allclose(values, [(1 + 2 / 3 + 4 * 3 / 7 + 7 / 23) / 15, (1 + 2 / 3 + 3 * 3 / 7) / 11])
    np.testing.assert_allclose(values, [0.2456, 0.2684], atol=1e-4)  # as published


def test_recall_of_a_whole_tenth_counts_as_reached():
    values = [average_precision(curve_of([True] * tenth, 10), eleven_points=True) for tenth in range(11)]
    np.testing.assert_allclose(values, [0, *(np.arange(2, 12) / 11)])


def test_second_detection_of_an_object_is_wrong_even_if_another_one_is_left():
    # The second detection overlaps the first object most, which is taken, and the second one by 0.54.
    objects = truth([[0, 0, 10, 10], [0, 3, 10, 13]])
    assert judge(objects, found([[0, 0, 10, 10], [0, 1, 10, 9]], [0.9, 0.8])).right.tolist() == [1, 0]
    assert judge(objects, found([[0, 2, 10, 12], [0, 0, 10, 10]], [0.9, 0.8])).right.tolist() == [1, 1]


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


@pytest.mark.parametrize(("truths", "value"), [([truth([])], np.nan), ([truth([HERE])], 0), ([], np.nan)])
def test_nothing_found(truths, value):
    (curve,) = precision_recall(truths, [found([], [])] * len(truths), 1)
    np.testing.assert_equal([average_precision(curve, eleven) for eleven in (False, True)], [value] * 2)


def kit_oracle(truths, detections, iou):
    """(all points, 11 points) as the kit goes: detection by detection over all images."""
    ranked = [(score, i, box) for i, d in enumerate(detections) for box, score in zip(d.boxes, d.scores)]
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


def coco_oracle(truths, detections, iou):
    """All points, matched as pycocotools does: a detection takes the best object that is left, difficult ones last."""
    ranked = []
    for t, d in zip(truths, detections):
        left = set(range(len(t.boxes)))
        for j in np.argsort(-d.scores, kind="stable"):
            overlaps = {k: overlap(d.boxes[j], t.boxes[k]) for k in left}
            good = [k for k in left if overlaps[k] >= iou]
            best = max(good, key=lambda k: (not t.difficult[k], overlaps[k]), default=None)
            if best is None:
                ranked.append((d.scores[j], 0))
            elif not t.difficult[best]:
                left.remove(best)
                ranked.append((d.scores[j], 1))
    right = np.array([r for _, r in sorted(ranked, key=lambda entry: -entry[0])])
    precision = np.cumsum(right) / np.arange(1, len(right) + 1)
    return sum(max(precision[i:]) for i in np.flatnonzero(right)) / sum(int(np.sum(~t.difficult)) for t in truths)


def scenes(seed, spread):
    """Objects of 12 images at the nodes of a grid `spread` apart, and detections near them or nowhere; one class."""
    random = np.random.default_rng(seed)
    for _ in range(12):
        nodes = random.permutation(9)[: random.integers(0, 6)]
        corner = np.stack([nodes // 3, nodes % 3], 1) * spread
        boxes = np.concatenate([corner, corner + 20], 1) + random.uniform(0, 3, [len(nodes), 4])
        near = boxes[random.integers(0, len(nodes), 8)] if len(nodes) else np.zeros([0, 4])
        corner = random.uniform(0, 60, [5, 2])
        guesses = np.concatenate([near + random.normal(0, 2.5, near.shape), np.concatenate([corner, corner + 20], 1)])
        yield (
            truth(boxes, difficult=random.uniform(size=len(boxes)) < 0.3),
            found(guesses, random.uniform(size=len(guesses))),
        )


@pytest.mark.parametrize(("iou", "spread"), [(0.5, 10), (0.7, 30)])
def test_equals_the_kits_rules(iou, spread):
    truths, detections = zip(*scenes(0, spread))
    (curve,) = precision_recall(truths, detections, 1, iou)
    ours = average_precision(curve), average_precision(curve, eleven_points=True)
    assert 0.05 < ours[0] < 0.95
    np.testing.assert_allclose(ours, kit_oracle(truths, detections, iou), atol=1e-6)


def test_equals_cocos_rules_where_objects_are_apart():
    truths, detections = zip(*scenes(1, 30))
    (curve,) = precision_recall(truths, detections, 1)
    assert average_precision(curve) == pytest.approx(coco_oracle(truths, detections, 0.5), abs=1e-6)
