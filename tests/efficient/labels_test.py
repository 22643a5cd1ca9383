"""Which labels may be seen: as many of each class, nested, and some of them held out."""

import json

import numpy as np
import pytest

from cpc_tf.efficient.config import LabelsConfig
from cpc_tf.efficient.labels import choose, choose_labels, hold_out
from cpc_tf.settings import ConfigError

# Class 0 has 100 labels, class 1 has 30, class 2 has 7.
LABELS = np.random.default_rng(0).permutation(np.repeat([0, 1, 2], [100, 30, 7]))
NAMES = ("plenty", "some", "few")


def counts(indices):
    return np.bincount(LABELS[indices], minlength=3).tolist()


@pytest.mark.parametrize(
    ("fraction", "wanted"), [(0.1, [10, 3, 1]), (0.29, [29, 9, 2]), (0.5, [50, 15, 4]), (1.0, [100, 30, 7])]
)
def test_each_class_gives_its_part(fraction, wanted):
    indices = choose(LABELS, NAMES, fraction)
    assert counts(indices) == wanted
    assert np.array_equal(indices, np.unique(indices))


def test_labels_per_class():
    assert counts(choose(LABELS, NAMES, 1.0, per_class=5)) == [5, 5, 5]


def test_smaller_parts_lie_in_larger_ones():
    parts = [set(choose(LABELS, NAMES, fraction, seed=3)) for fraction in (0.1, 0.2, 0.29, 0.5, 1)]
    assert all(small < large for small, large in zip(parts, parts[1:]))


def test_another_seed_chooses_others():
    one, other = (choose(LABELS, NAMES, 0.5, seed=seed) for seed in (0, 1))
    assert not np.array_equal(one, other)
    np.testing.assert_array_equal(one, choose(LABELS, NAMES, 0.5, seed=0))


def test_a_class_without_a_label_is_an_error_that_names_it():
    with pytest.raises(ConfigError, match=r"--label_fraction=0.05: leaves none of the 7 labels of class few"):
        choose(LABELS, NAMES, 0.05)
    with pytest.raises(ConfigError, match=r"--labels_per_class=8: class few has only 7"):
        choose(LABELS, NAMES, 1.0, per_class=8)
    with pytest.raises(ConfigError, match="class nothing has no examples"):
        choose(LABELS, (*NAMES, "nothing"), 1.0)


def test_the_way_out_of_too_small_a_fraction_works():
    with pytest.raises(ConfigError) as error:
        choose(LABELS, NAMES, 0.05)
    least = float(str(error.value).split("gives one is ")[1].split(",")[0])
    assert counts(choose(LABELS, NAMES, least))[2] == 1


def test_held_out_labels_are_none_of_those_that_are_fitted():
    chosen = choose(LABELS, NAMES, 0.5)
    fit, held = hold_out(LABELS, chosen, 0.2)
    assert counts(held) == [10, 3, 1]
    assert not set(fit) & set(held)
    np.testing.assert_array_equal(np.sort(np.concatenate([fit, held])), chosen)


def test_nothing_is_held_out_of_single_labels():
    assert hold_out(LABELS, choose(LABELS, NAMES, 1.0, per_class=1), 0.2) is None
    assert hold_out(LABELS, choose(LABELS, NAMES, 1.0), 0.0) is None
    fit, held = hold_out(LABELS, choose(LABELS, NAMES, 1.0, per_class=2), 0.1)
    assert counts(fit) == counts(held) == [1, 1, 1]


def test_the_labels_of_a_run():
    labels = choose_labels(LABELS, NAMES, LabelsConfig(label_fraction=0.5, held_out=0.2), seed=0)
    assert labels.fraction == 0.5
    saved = json.loads(labels.to_json())
    assert (len(saved["chosen"]), len(saved["held_out"])) == (69, 14)
    single = choose_labels(LABELS, NAMES, LabelsConfig(labels_per_class=1), seed=0)
    assert single.fraction == 3 / 137
    assert single.fit is single.held_out is None
    assert json.loads(single.to_json())["held_out"] == []
