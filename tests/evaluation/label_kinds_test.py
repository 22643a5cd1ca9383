"""Results and predictions of single-label and multi-label classifiers as text, and read back."""

import numpy as np
import pytest

from cpc_tf.core.settings import ConfigError
from cpc_tf.evaluation import counts
from cpc_tf.evaluation.label_kinds import MULTI_LABEL, SINGLE_LABEL, of_result
from cpc_tf.evaluation.scores import score


@pytest.mark.parametrize("classes", [5, 6])
def test_of_five_classes_there_is_no_top_5(classes):
    """It is 100 %, whatever the classifier has learned."""
    assert ("top5" in score(np.eye(classes), np.arange(classes))) is (classes == 6)


def test_a_class_that_is_never_found_shows():
    """Of 40 images 2 are defects, and all are called good: 95 % right."""
    labels = np.repeat([0, 1], [2, 38])
    logits = np.tile([0.0, 1.0], [40, 1])
    found, names = score(logits, labels), ["defect", "good"]
    assert (found["top1"], found["right"], found["tested"]) == (0.95, 38, 40)
    assert (found["class_mean"], found["largest_class"]) == (0.5, 0.95)
    result = {"num_classes": 2, **found, "classes": SINGLE_LABEL.classes(logits, labels, names)}
    assert result["classes"]["good"] == {"tested": 38, "predicted": 40, "right": 38}
    assert SINGLE_LABEL.described(result) == "top-1 38 of 40 right (95 %, 83 to 99)"
    assert SINGLE_LABEL.remarks(result) == [
        "mean of the classes 50.0 %: defect 0 of 2, good 38 of 38",
        "always good, the largest class: 95.0 %",
    ]
    defect, good = counts.class_counts(result)
    assert (defect.recall, defect.precision, good.precision) == (0.0, None, 0.95)


def test_images_without_a_label_are_not_scored():
    with pytest.raises(
        ConfigError, match="^1 of 4 images to be scored on have no label; another --test_"
    ):
        SINGLE_LABEL.score(np.eye(3)[[0, 1, 2, 0]], np.array([0, -1, 2, 0]))


def test_multi_label_results_as_text():
    logits = np.array([[1.0, -1, 2], [-1, -1, -1]])
    labels, names = np.array([[1, 1, 0], [0, 0, 1]]), ["cat", "dog", "sky"]
    assert MULTI_LABEL.rows(logits, labels, names) == [
        ("cat;dog", "cat;sky", "0.7311;0.8808"),
        ("sky", "", ""),
    ]
    result = {"multi_label": True, "map": 0.5, "micro_f1": 0.25, "tested": 54}
    assert MULTI_LABEL.described(result) == "mAP 50.0 % (54 images)  micro-F1 25.0 %"
    assert of_result(result) is MULTI_LABEL
    assert of_result({"multi_label": False}) is of_result({}) is SINGLE_LABEL
    classes = MULTI_LABEL.classes(logits, labels, names)
    assert classes["sky"] == {"tested": 1, "predicted": 1, "right": 0}
    line = "found at a probability of 0.5: dog 0 of 1, sky 0 of 1, cat 1 of 1"
    assert MULTI_LABEL.remarks({**result, "classes": classes}) == [line]
