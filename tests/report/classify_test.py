"""`cpc-tf classify` on the page, from a directory as it leaves it: by hand, so that the report
stands alone.
"""

import pytest

from cpc_tf.report import page
from cpc_tf.report.classify import largest, report
from cpc_tf.report.model import _of_curve
from cpc_tf.report.runs import collect
from tests.report import samples

pytestmark = [pytest.mark.drawn, pytest.mark.usefixtures("undrawn")]

CURVE = [
    {"arm": arm, "labels": labels, "draw": draw, "top1": top1 + draw / 100}
    for arm, of in {
        "encoder": {10: 0.4, 80: 0.66},
        "untrained": {10: 0.2, 80: 0.3},
        "pixels": {80: 0.2},
    }.items()
    for labels, top1 in of.items()
    for draw in range(3)
]


def found_in(tmp_path, **more):
    record = samples.linear(top1=0.68, num_train_labels=100, tested=100, class_mean=0.68, right=68)
    folds = {"folds": 5, "repeats": 5, "strength": 10.0}
    record |= {
        "kind": "classify",
        "multi_label": False,
        "cross_validation": folds,
        "curve": CURVE,
        **more,
    }
    samples.write(
        tmp_path / "mine",
        record,
        run__json='{"task": "classify", "version": "0.1.0"}',
        run__flags="--seed=0\n",
    )
    return collect(str(tmp_path), page.REPORTS)


def test_page_opens_with_cross_validation_and_learning_curve(tmp_path):
    (run,), problems = found_in(tmp_path)
    assert not problems
    (section,), files = list(page.sections([run])), page.files([run], [], "runs")
    first, second, third, *_ = section.lead.sentences
    assert first == "With 100 labels it names 68 of 100 new images right."
    assert second.startswith("Each of the 100 labelled images was classified by a")
    assert "5-fold cross-validation, repeated 5 times" in second
    assert third == "95 % confidence interval for more such images: 58 to 76 of 100 right."
    bars = files["photos-answer.csv"].splitlines()
    assert bars[1:3] == [
        "with pre-training: CPC v2,68.0,100",
        '"with pre-training, 80 labels",67.0,',
    ]
    points = files["photos-more-1.csv"].splitlines()
    assert len([line for line in points if ",with pre-training," in line]) == 2
    assert not [line for line in points if ",on raw pixels," in line and ",10," in line]


def test_a_rival_that_was_measured_is_one_bar(tmp_path):
    (run,), _ = found_in(tmp_path)
    rival = samples.run(samples.linear("random", 0.3))
    assert [arm for arm, *_ in _of_curve(run, [])] == ["encoder", "untrained", "pixels"]
    assert [arm for arm, *_ in _of_curve(run, [rival])] == ["encoder", "pixels"]


def test_without_a_curve_there_is_none(tmp_path):
    (run,), _ = found_in(tmp_path, curve=[])
    assert largest(run) == []
    assert not samples.blocks(report([run], "photos"), "more")


@pytest.mark.parametrize(
    "curve", [[1], [{"arm": "encoder", "labels": 0, "top1": 0.5}], [{"arm": "pixels", "labels": 5}]]
)
def test_a_curve_that_is_none_is_named(curve, tmp_path):
    samples.write(tmp_path / "good", samples.linear())
    _, problems = found_in(tmp_path, curve=curve)
    assert [problem.split(" is ")[0] for problem in problems] == ["mine/result.json: curve"]
