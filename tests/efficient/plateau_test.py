"""When a phase has converged, and how often that is asked."""

import pytest

from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.efficient.plateau import Length, evaluate_every, plateau
from cpc_tf.settings import replace


def found(scores, patience=2, drops=True):
    """The plateau of evaluations at steps 10, 20, ..., with records without evaluations between them."""
    records = []
    for number, score in enumerate(scores, 1):
        records += [{"step": 10 * number - 5, "loss": 1.0}, {"step": 10 * number, "score": score}]
    return plateau(records, "score", patience, drops)


@pytest.mark.parametrize(
    ("scores", "length", "drop_step", "ended"),
    [
        ([0.1, 0.2, 0.3], Length(30), 0, False),
        ([0.1, 0.2, 0.2], Length(20), 0, False),  # as good is not better
        ([0.1, 0.2, 0.2, 0.1], Length(20), 40, False),  # the drop after the best is none of its length
        ([0.1, 0.2, 0.2, 0.1, 0.3], Length(50, 40), 40, False),
        ([0.1, 0.2, 0.2, 0.1, 0.3, 0.3, 0.2], Length(50, 40), 40, True),
        ([0.1, 0.2, 0.2, 0.1, 0.1, 0.1], Length(20), 40, True),
        ([0.3, 0.1, 0.1, 0.1, 0.1, 0.9], Length(10), 30, True),  # what comes after the end does not count
    ],
)
def test_the_rate_drops_at_the_first_plateau_and_the_second_is_the_end(scores, length, drop_step, ended):
    state = found(scores)
    assert (state.length, state.drop_step, state.ended) == (length, drop_step, ended)


def test_early_stopping_ends_at_the_first_plateau_and_without_patience_there_is_none():
    assert found([0.2, 0.1, 0.1], drops=False)[1:] == (0, True)
    assert found([0.2, 0.1, 0.1], drops=False).length == Length(10)
    assert found([0.2, *[0.1] * 50], patience=0)[1:] == (0, False)
    assert plateau([], "score", 1).best is None


@pytest.mark.parametrize(
    ("longest", "images", "wanted"),
    [
        (225_000, 1_000_000, 1954),  # an epoch: 1,000,000 / 512, rounded up
        (225_000, 10_000, 500),  # 25 epochs, since one has 20 steps
        (1500, 10_000, 375),  # a quarter of the phase
        (200, 100, 50),
        (3, 100, 1),
    ],
)
def test_evaluations_are_epochs_apart_but_not_too_often_and_four_at_least(longest, images, wanted):
    assert evaluate_every(replace(EfficientConfig(), batch_size=512), longest, images) == wanted
