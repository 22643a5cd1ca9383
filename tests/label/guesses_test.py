"""What held-out guesses tell: from where on others are sure, how many are right, and which labels
they doubt.
"""

import numpy as np
import pytest
from scipy.special import expit

from cpc_tf.evaluation.scores import probabilities
from cpc_tf.label import guesses

RANDOM = np.random.default_rng(0)


def test_guess_threshold_is_ninety_percent_held_out_accuracy():
    shares, mixed = np.linspace(1, 0.01, 100), RANDOM.permutation(100)
    right = np.arange(100) < 60
    assert guesses.sure_from(shares[mixed], right[mixed]) == shares[65]  # 60 of 66
    assert guesses.sure_from(shares, np.arange(100) % 2 == 0) is None
    equal = np.full(100, 0.5)  # no level is between them
    assert guesses.sure_from(equal, np.arange(100) < 89) is None
    assert guesses.sure_from(equal, np.arange(100) < 90) == 0.5
    few = guesses.ENOUGH - 1
    assert guesses.sure_from(shares[:few], np.full(few, True)) is None
    assert guesses.sure_from(shares[:0], right[:0]) is None


@pytest.mark.parametrize("multi_label", [False, True])
def test_calibrated_probabilities_are_those_of_divided_logits(multi_label):
    logits = RANDOM.normal(0, 5, [20, 4])
    plain, wanted = (
        expit(logits / t) if multi_label else probabilities(logits, t) for t in (1.0, 1.7)
    )
    np.testing.assert_allclose(
        guesses.calibrated(plain, 1.7, multi_label), wanted, rtol=1e-5, atol=1e-9
    )


def test_multi_label_held_out_guesses_exceed_one_half():
    shares = np.array([[0.9, 0.6, 0.1], [0.2, 0.3, 0.4]])
    assert [each.tolist() for each in guesses.held_out_guesses(shares, np.array([0, 1]))] == [
        [0.9, 0.4],
        [True, False],
    ]
    told = guesses.held_out_guesses(shares, np.array([[1.0, 0, 1], [1, 0, 0]]))
    assert [each.tolist() for each in told] == [[0.9, 0.6], [True, False]]


def test_likely_mistakes_are_listed_when_guesses_are_reliable():
    labels = np.arange(40) % 4
    shares = np.full([40, 4], 0.01)
    shares[np.arange(40), labels] = 0.97
    # of 3 and 0: a slip, and a doubt
    shares[[3, 4]] = [
        [0.97, 0.01, 0.01, 0.01],
        [0.3, 0.6, 0.05, 0.05],
    ]
    shares[6] = [0.98, 0.01, 0.005, 0.005]  # of 2, but an accepted guess
    by_person = np.arange(40) != 6
    assert guesses.likely_slips(shares, labels, by_person) == [3]
    shares[20:31] = 0.25, 0.25, 0.25, 0.25
    shares[20:31] += np.eye(4)[(labels[20:31] + 1) % 4] * 0.1
    assert guesses.likely_slips(shares, labels, by_person) is None
