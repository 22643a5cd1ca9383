"""What features are worth: known answers."""

import numpy as np
import pytest

from cpc_tf.classify.logistic import LabelledFeatures
from cpc_tf.compare import measure


def examples(features, labels, groups=None):
    groups = np.arange(len(labels)) if groups is None else groups
    return LabelledFeatures(features.astype(np.float32), labels, groups, labels.max() + 1)


def test_images_of_a_group_do_not_vote():
    """The images of a group are the same, and nothing else tells their class."""
    random = np.random.default_rng(0)
    groups = np.repeat(np.arange(40), 12)
    features = random.normal(size=[40, 20])[groups]
    labels = (np.arange(40) % 2)[groups]
    assert measure.neighbours(examples(features, labels)) == 1
    assert measure.neighbours(examples(features, labels, groups)) < 0.7


def test_third_that_chooses_shares_no_group_with_the_rest():
    labels = np.repeat([0, 1], 30)
    groups = np.arange(60) // 2
    third = measure.chosen_third(examples(np.zeros([60, 1]), labels, groups))
    assert not set(groups[third]) & set(groups[~third])
    assert [third[labels == label].sum() for label in (0, 1)] == [10, 10]


def test_accuracy_is_the_mean_of_the_classes():
    """Of the rare class, which looks like the frequent one, no image is found."""
    labels = np.repeat([0, 1, 2], [60, 60, 8])
    features = np.zeros([128, 2])
    features[labels == 1] = 1
    values = [measure.accuracy(examples(features, labels), 4, seed) for seed in range(5)]
    # of two classes that look the same one is found
    assert values == pytest.approx([2 / 3] * 5)


def test_numbers_leave_half_of_the_smallest_class():
    assert measure.possible_numbers(np.repeat([0, 1], [100, 24]), 2) == (5, 12)
    assert measure.possible_numbers(np.repeat([0, 1], [100, 9]), 2) == ()
