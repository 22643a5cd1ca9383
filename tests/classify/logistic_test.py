"""The regression against scikit-learn's on whole features, and what cross-validation may and may
not see.
"""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from cpc_tf.classify import logistic
from cpc_tf.classify.logistic import LabelledFeatures
from cpc_tf.evaluation.label_kinds import MULTI_LABEL, SINGLE_LABEL


def blobs(counts, dimensions=40, spread=1.0, seed=0):
    """LabelledFeatures around a centre for each class; the same centres for each seed."""
    centres = np.random.default_rng(7).normal(size=[len(counts), dimensions])
    random, labels = np.random.default_rng(seed), np.repeat(np.arange(len(counts)), counts)
    features = (centres[labels] + spread * random.normal(size=[len(labels), dimensions])).astype(
        np.float32
    )
    return LabelledFeatures(features, labels, np.arange(len(labels)), len(counts))


@pytest.mark.parametrize(
    "counts", [(6, 5, 7), (60, 50, 70), (9, 9)], ids=["few", "many", "two classes"]
)
def test_the_fit_is_scikit_learns_on_standardized_features(counts):
    examples = blobs(counts)
    deviation = examples.features.std(0)
    standard = (examples.features - examples.features.mean(0)) / deviation / np.sqrt(40)
    theirs = LogisticRegression(C=3.0, max_iter=1000, tol=1e-8).fit(standard, examples.labels)
    logits = logistic.fit(examples, 3.0).logits(examples.features)
    shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    np.testing.assert_allclose(shares, theirs.predict_proba(standard), atol=2e-3)


def test_class_absent_from_training_has_a_small_logit():
    examples = blobs((5, 5, 1))
    logits = logistic.fit(examples.take(np.arange(10)), 10.0).logits(examples.features)
    assert logits[:, 2] == pytest.approx(-logistic._ABSENT, abs=1e-4)
    one = logistic.fit(examples.take(np.arange(5)), 10.0).logits(examples.features)
    assert (one.argmax(1) == 0).all()


def test_random_labels_are_right_by_chance_alone():
    random = np.random.default_rng(0)
    examples = blobs((50, 50))._replace(labels=random.integers(0, 2, 100))
    validated = logistic.validate(examples, SINGLE_LABEL)
    # learned and tested alike it would be 1
    assert 0.3 < (validated.logits.argmax(1) == examples.labels).mean() < 0.7


def test_all_of_a_group_are_held_out_together():
    """Each image twice with labels at random: only who has seen the twin can be right."""
    twins = blobs((30, 30), dimensions=200, spread=5.0)
    labels = np.random.default_rng(1).integers(0, 2, 60)
    doubled = LabelledFeatures(
        *(np.concatenate([x, x]) for x in (twins.features, labels, np.arange(60))), 2
    )
    accuracy = [
        (logistic.validate(examples, SINGLE_LABEL).logits.argmax(1) == examples.labels).mean()
        for examples in (doubled, doubled._replace(groups=np.arange(120)))
    ]
    assert accuracy[0] < 0.7 < 0.9 < accuracy[1]


def test_unlabelled_images_are_used_only_where_they_help():
    few, many = blobs((3, 3, 3), spread=2.5), blobs((200, 200, 200), spread=2.5, seed=1)
    known = few._replace(unlabelled=many.features)
    before, after = (
        (
            logistic.fit(known, 10.0, self_training=used).logits(many.features).argmax(1)
            == many.labels
        ).mean()
        for used in (False, True)
    )
    assert after > before + 0.02
    noise = np.random.default_rng(2).normal(size=[600, 40]).astype(np.float32)
    examples = blobs((30, 30, 30), spread=2.5)
    assert logistic.validate(
        examples._replace(unlabelled=many.features), SINGLE_LABEL
    ).self_training
    assert not logistic.validate(
        examples._replace(unlabelled=5 * noise), SINGLE_LABEL
    ).self_training


def test_too_few_images_per_class_are_not_validated():
    assert logistic.validate(blobs((2, 2)), SINGLE_LABEL) is None
    validated = logistic.validate(blobs((3, 3, 1)), SINGLE_LABEL)
    assert (validated.folds, validated.logits.shape) == (3, (7, 3))


def test_a_class_with_one_picture_counts_as_wrong():
    validated = logistic.validate(blobs((10, 10, 1), spread=0.1), SINGLE_LABEL)
    assert (validated.logits.argmax(1) == blobs((10, 10, 1)).labels).tolist() == [True] * 20 + [
        False
    ]


def test_multi_label_is_a_regression_a_class():
    random = np.random.default_rng(0)
    labels = random.integers(0, 2, [60, 3]).astype(np.float32)
    features = (labels @ random.normal(size=[3, 20]) + 0.3 * random.normal(size=[60, 20])).astype(
        np.float32
    )
    examples = LabelledFeatures(features, labels, np.arange(60), 3)
    validated = logistic.validate(examples, MULTI_LABEL)
    assert MULTI_LABEL.score(validated.logits, labels)["map"] > 0.95
    logits = logistic.fit(examples, validated.strength).logits(features)
    alone = logistic.fit(
        examples._replace(labels=labels[:, 1].astype(np.int64), classes=2), validated.strength
    )
    np.testing.assert_allclose(logits[:, 1], np.diff(alone.logits(features))[:, 0], atol=1e-2)


def test_balanced_classes_find_the_rare_one_more_often():
    examples = blobs((95, 5), spread=6.0)
    plain, balanced = (
        logistic.fit(examples, 0.3, balanced=b).logits(examples.features) for b in (False, True)
    )
    assert (balanced.argmax(1) == 1).sum() > (plain.argmax(1) == 1).sum()


def test_forecast_follows_a_power_law_or_declines():
    # 20 % wrong, 10 % with twice as many labels
    right, halved = (
        np.arange(1000) < 900,
        np.arange(1000) < 800,
    )
    forecast = logistic.forecast(right, halved)
    assert forecast.tells
    assert forecast.gain == pytest.approx(0.05)
    assert not logistic.forecast(right[890:910], halved[890:910] | right[890:910]).tells


@pytest.mark.parametrize("count", [30, 400], ids=["fewer examples than features", "more"])
def test_principal_axes_equal_singular_value_decomposition(count):
    standard = np.random.default_rng(0).normal(size=[count, 200]) * np.geomspace(1, 0.01, 200)
    axes = logistic._principal_axes(standard)
    wanted = np.linalg.svd(standard, full_matrices=False)[2][: logistic.DIRECTIONS].T
    assert axes.shape == wanted.shape == (200, min(count, logistic.DIRECTIONS))
    np.testing.assert_allclose(np.abs(np.sum(axes * wanted, 0)), 1, atol=1e-6)


@pytest.mark.parametrize(
    "unlabelled", [None, np.ones([4, 40], np.float32)], ids=["labelled alone", "and others"]
)
def test_identical_images_teach_class_frequencies_only(unlabelled):
    examples = LabelledFeatures(
        np.ones([5, 40], np.float32), np.array([0, 1, 1, 1, 0]), np.arange(5), 2, unlabelled
    )
    logits = logistic.fit(examples, logistic.USUAL, self_training=unlabelled is not None).logits(
        examples.features
    )
    assert (logits.argmax(1) == 1).all()
