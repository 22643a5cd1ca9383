"""What others' tools read: the files hold all that the score depends on."""

import json

import numpy as np
import pytest

from cpc_tf.detect import scoring
from cpc_tf.detect.average_precision import Found, Truth
from cpc_tf.detect.scoring import Scene

NAMES = ("car", "traffic light")


def random_scenes(count=30):
    draw = np.random.default_rng(0)
    scenes = []
    for i in range(count):
        corners = draw.uniform(0, 60, [4, 2])
        truth = np.concatenate([corners, corners + draw.uniform(5, 30, [4, 2])], 1).astype(np.float32)
        found = np.concatenate([truth + draw.normal(0, 3, [4, 4]), truth[:2] + 40]).astype(np.float32)
        labels = draw.integers(0, 2, 4)
        scores = np.sort(draw.uniform(0.05, 1, 6).astype(np.float32))[::-1]
        guesses = np.append(labels, draw.integers(0, 2, 2)).astype(np.int32)
        order = draw.permutation(6)
        scenes.append(
            Scene(f"{i:06}", Truth(truth, labels, draw.random(4) < 0.2), Found(found[order], scores, guesses[order]))
        )
    return scenes


SCENES = random_scenes()
WANTED = scoring.score(SCENES, 2).result(NAMES)


def test_a_line_counts_pixels_from_one_the_last_included():
    found = Found(np.array([[0, 10, 2, 30.5]], np.float32), np.array([0.123456789], np.float32), np.array([1]))
    nothing = Truth(np.zeros([0, 4]), np.zeros(0, int), np.zeros(0, bool))
    files = scoring.result_files([Scene("2007_1", nothing, found)], NAMES, "test")
    assert files == {
        "comp4_det_test_car.txt": "",
        "comp4_det_test_traffic_light.txt": "2007_1 0.123456791 11.000 1.000 30.500 2.000\n",
    }


def test_classes_in_any_script_have_files():
    names = ("\u0939\u093f\u0928\u094d\u0926\u0940", "\u7ea2\u7ec6\u80de/a b", "\u7ea2" * 200, "\u7ea2" * 201)
    files = list(scoring.result_files([], names, "test"))
    assert files[:2] == [f"comp4_det_test_{names[0]}.txt", "comp4_det_test_\u7ea2\u7ec6\u80de_a_b.txt"]
    assert len(set(files)) == 4
    assert max(len(name.encode()) for name in files) < 255


def test_scored_from_the_result_files_it_is_the_same():
    scenes = {scene.name: ([], [], []) for scene in SCENES}
    for label, text in enumerate(scoring.result_files(SCENES, NAMES, "test").values()):
        for name, *numbers in map(str.split, text.splitlines()):
            score, xmin, ymin, xmax, ymax = map(float, numbers)
            boxes, scores, labels = scenes[name]
            boxes.append([ymin - 1, xmin - 1, ymax, xmax])
            scores.append(score)
            labels.append(label)
    read = [Scene(s.name, s.truth, Found(*map(np.array, scenes[s.name]))) for s in SCENES]
    assert scoring.score(read, 2).result(NAMES) == WANTED


def test_scored_from_the_json_alone_it_is_the_same():
    content = json.loads(scoring.to_json(SCENES, NAMES, "voc/2007", "test"))
    assert (content["dataset"], content["split"], content["class_names"]) == ("voc/2007", "test", list(NAMES))
    read = [
        Scene(
            image["name"],
            Truth(*(np.array(image["truth"][key]) for key in ("boxes", "labels", "difficult"))),
            Found(*(np.array(image[key]) for key in ("boxes", "scores", "labels"))),
        )
        for image in content["images"]
    ]
    assert scoring.score(read, 2).result(NAMES) == WANTED


@pytest.mark.parametrize(
    ("names", "split", "wanted"),
    [
        (("a/b", "a b"), "test", ["comp4_det_test_a_b", "comp4_det_test_a_b_1"]),
        (("Müller",), "validation[:10%]", ["comp4_det_validation__10___Müller"]),
    ],
)
def test_names_of_files(names, split, wanted):
    assert list(scoring.result_files([], names, split)) == [f"{name}.txt" for name in wanted]
