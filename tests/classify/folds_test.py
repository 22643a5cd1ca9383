"""What belongs together, and the folds: equal numbers of each class, chance where there is nothing
to learn.
"""

import numpy as np
import pytest

from cpc_tf.classify import folds, logistic
from cpc_tf.classify.accuracy import judge
from cpc_tf.classify.config import ClassifyConfig
from cpc_tf.classify.logistic import LabelledFeatures
from cpc_tf.classify.run import by_people
from cpc_tf.evaluation.label_kinds import SINGLE_LABEL


def noise(labels, dimensions=200, seed=0):
    """LabelledFeatures whose features tell nothing."""
    features = np.random.default_rng(seed).normal(size=[len(labels), dimensions]).astype(np.float32)
    return LabelledFeatures(
        features, np.array(labels), np.arange(len(labels)), int(max(labels)) + 1
    )


@pytest.mark.parametrize("each", [3, 4, 5, 7, 12])
def test_equal_classes_stay_balanced_in_training_folds(each):
    strata = np.random.default_rng(0).permutation(np.repeat(np.arange(4), each))
    division = folds.divide(strata, np.arange(len(strata)), seed=1)
    assert len(division) == min(each, folds.FOLDS)
    assert sorted(np.concatenate([tested for _, tested in division])) == list(range(4 * each))
    for learned, tested in division:
        assert {*learned} | {*tested} == {*range(4 * each)}
        assert len({*np.bincount(strata[learned]).tolist()}) == 1
        half = np.bincount(strata[learned[: len(learned) // 2]], minlength=4)
        assert half.max() - half.min() <= 1


def test_groups_stay_on_one_side():
    groups = np.repeat(np.arange(20), 3)
    strata = np.repeat(np.arange(2), 30)
    for learned, tested in folds.divide(strata, groups, seed=0):
        assert not {*groups[learned]} & {*groups[tested]}


@pytest.mark.parametrize(("each", "classes"), [(3, 2), (3, 3), (5, 4)])
def test_features_that_tell_nothing_are_right_by_chance(each, classes):
    """With one image fewer of the class that is tested they would never be right."""
    shares = []
    for seed in range(30):
        examples = noise(np.repeat(np.arange(classes), each), seed=seed)
        validated = logistic.validate(examples, SINGLE_LABEL, seed=seed)
        shares.append(np.mean(validated.logits.argmax(1) == examples.labels))
    assert np.mean(shares) == pytest.approx(1 / classes, abs=0.08)


def test_near_duplicates_are_grouped_and_different_images_not():
    random = np.random.default_rng(0)
    pictures = random.normal(size=[60, 100])
    versions = [pictures * factor for factor in (0.95, 1.0, 1.05)]  # e.g. three brightnesses
    features = np.concatenate([*versions, pictures[:5] + 1e-7]).astype(np.float32)
    near = folds.nearly_the_same(features, np.arange(len(features)) % 3)
    np.testing.assert_array_equal(near[:60], near[60:120])
    np.testing.assert_array_equal(near[:60], near[120:180])
    np.testing.assert_array_equal(near[:5], near[180:])
    assert len(np.unique(near)) == 60


def test_random_labels_on_near_duplicates_score_at_chance():
    """Rows 3 and 21 of the reports: each image three times, 100 % if a copy is learned."""
    random = np.random.default_rng(1)
    pictures, coins = random.normal(size=[40, 100]), random.integers(0, 2, 40)
    features = np.concatenate([pictures * factor for factor in (0.95, 1.0, 1.05)]).astype(
        np.float32
    )
    examples = LabelledFeatures(features, np.tile(coins, 3), np.arange(120), 2)
    score = judge(examples, SINGLE_LABEL).score(SINGLE_LABEL, examples.labels)
    assert 0.25 < score["top1"] < 0.75
    assert score["effective"] == pytest.approx(40 / logistic.INFLATION)
    assert score["top1_high"] - score["top1_low"] > 0.3  # of 120 single images it would be 0.2


def test_parts_before_one_camera_are_different_pictures():
    """Two kinds that are far apart, each of images that are all much alike."""
    random = np.random.default_rng(0)
    labels = np.arange(40) % 2
    features = (20 * labels[:, None] + random.normal(size=[40, 100])).astype(np.float32)
    assert len(np.unique(folds.nearly_the_same(features, labels))) == 40


def test_features_that_differ_by_rounding_tell_nothing():
    """Row 8: ten files with the same pixels, features that depend on the place in a batch by
    6e-8.
    """
    random = np.random.default_rng(0)
    features = (1 + 6e-8 * random.normal(size=[10, 50])).astype(np.float32)
    examples = LabelledFeatures(features, np.arange(10) % 2, np.arange(10), 2)
    assert len(np.unique(folds.nearly_the_same(features, examples.labels))) == 1
    assert judge(examples, SINGLE_LABEL) is None


def test_copies_with_other_classes_are_found():
    """Row 9."""
    examples = noise([0, 1] * 20)
    doubled = examples._replace(
        features=np.concatenate([examples.features, examples.features[:3]]),
        labels=np.concatenate([examples.labels, [1, 1, 0]]),
        groups=np.arange(43),
    )
    judged = judge(doubled, SINGLE_LABEL)
    assert judged.conflicts(doubled.labels) == [(40, 0)]


def test_random_sample_is_used_from_ten_images_on():
    examples = noise([0, 1] * 20)
    drawn = np.arange(40) < 9
    assert not judge(examples, SINGLE_LABEL, drawn).at_random
    judged = judge(examples, SINGLE_LABEL, np.arange(40) < 10)
    assert judged.at_random
    assert judged.score(SINGLE_LABEL, examples.labels)["tested"] == 10


def test_accepted_random_guesses_score_at_chance():
    """As accepted guesses were learned from in the folds, 60 such labels by hand and 300 guesses
    had 65 % and more.
    """
    random = np.random.default_rng(0)
    labelled = noise(random.integers(0, 2, 60), seed=1)
    others = random.normal(size=[300, 200]).astype(np.float32)
    guesses = logistic.fit(labelled, logistic.USUAL).logits(others).argmax(1)
    accepted = np.arange(360) >= 60
    every = LabelledFeatures(
        np.concatenate([labelled.features, others]),
        np.append(labelled.labels, guesses),
        np.arange(360),
        2,
    )
    taught = by_people(every, accepted, ClassifyConfig(), SINGLE_LABEL)
    assert len(taught.unlabelled) == 300
    score = judge(taught, SINGLE_LABEL).score(SINGLE_LABEL, taught.labels)
    assert score["tested"] == 60
    assert 0.3 < score["top1"] < 0.62
    leaked = logistic.validate(every, SINGLE_LABEL).logits[:60].argmax(1) == labelled.labels
    assert leaked.mean() > score["top1"] + 0.1
