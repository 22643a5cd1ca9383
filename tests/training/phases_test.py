"""When a phase has converged or nothing is left to learn, and which trial is chosen.

Tasks show with their runs what is trained and saved.
"""

import pytest

from cpc_tf.training.phases import Evaluation, Learned, Length, choose, learned_at, plateau


def records(*scores):
    """Evaluations at steps 10, 20, ..., with records without evaluations between them."""
    pairs = [
        ({"step": 10 * n - 5, "loss": 1.0}, {"step": 10 * n, "score": score})
        for n, score in enumerate(scores, 1)
    ]
    return [record for pair in pairs for record in pair]


@pytest.mark.parametrize(
    ("drops", "scores", "length", "drop_steps", "ended"),
    [
        (1, [0.1, 0.2, 0.3], Length(30), (), False),
        (1, [0.1, 0.2, 0.2], Length(20), (), False),  # as good is not better
        # the drop after the best is none of its length
        (
            1,
            [0.1, 0.2, 0.2, 0.1],
            Length(20),
            (40,),
            False,
        ),
        (1, [0.1, 0.2, 0.2, 0.1, 0.3], Length(50, (40,)), (40,), False),
        (1, [0.1, 0.2, 0.2, 0.1, 0.3, 0.3, 0.2], Length(50, (40,)), (40,), True),
        (1, [0.1, 0.2, 0.2, 0.1, 0.1, 0.1], Length(20), (40,), True),
        # what comes after the end does not count
        (
            1,
            [0.3, 0.1, 0.1, 0.1, 0.1, 0.9],
            Length(10),
            (30,),
            True,
        ),
        (0, [0.3, 0.1, 0.1, 0.9], Length(10), (), True),
        (3, [0.1, 0.2, 0.2, 0.1, 0.3, 0.3, 0.2], Length(50, (40,)), (40, 70), False),
        (3, [0.1, 0.2, 0.2, 0.1, 0.3, 0.3, 0.2, 0.1, 0.2], Length(50, (40,)), (40, 70, 90), False),
        (
            3,
            [0.1, 0.2, 0.2, 0.1, 0.3, 0.3, 0.2, 0.1, 0.2, 0.4],
            Length(100, (40, 70, 90)),
            (40, 70, 90),
            False,
        ),
        (
            3,
            [0.1, 0.2, 0.2, 0.1, 0.3, 0.3, 0.2, 0.1, 0.2, 0.4, 0, 0],
            Length(100, (40, 70, 90)),
            (40, 70, 90),
            True,
        ),
    ],
)
def test_rate_drops_at_each_plateau_until_the_last(drops, scores, length, drop_steps, ended):
    state = plateau(records(*scores), "score", patience=2, drops=drops)
    assert (state.length, state.drop_steps, state.ended) == (length, drop_steps, ended)


def test_length_for_more_images_has_the_same_epochs():
    """A ninth more: 9,000 images were trained on and 10,000 are now, in batches of 100."""
    assert Length(900, (450, 720)).times(10 / 9) == Length(1000, (500, 800))


def test_early_stopping_ends_at_first_plateau_given_patience():
    """The first of equals is the best: it is not better to train longer."""
    scores = (0.1, 0.3, 0.2, 0.3)
    ended = [plateau(records(*scores[:count]), "score", patience=2).ended for count in range(5)]
    assert ended == [False, False, False, False, True]
    assert plateau(records(*scores), "score", patience=2).length == Length(20)
    assert plateau(records(0.2, *[0.1] * 50), "score", patience=0)[1:] == ((), False)
    assert plateau([], "score", 1).best is None


def test_evaluation_sets_rates_also_after_a_kill():
    lowered = []
    evaluation = Evaluation(dict, 10, "score", 2, drops=2, drop_rates=lowered.append)
    ended = [evaluation.plateau(records(0.3, *[0.1] * count)).ended for count in range(7)]
    assert lowered == [0, 0, 1, 1, 2, 2, 2]
    assert ended == [False] * 6 + [True]


def test_labels_are_learned_after_hundred_low_loss_steps():
    losses = {
        10: 0.9,
        50: 0.9,
        80: 0.05,
        100: 0.2,
        150: 0.1,
        180: 0.05,
        200: 0.12,
        205: 0.0,
        250: 0.3,
    }
    shown = [{"step": step, "loss": loss} for step, loss in losses.items()]
    # The means of 1 to 100, 51 to 150, ... are 0.505, 0.105, 0.089 and 0.174.
    assert [learned_at(shown, loss) for loss in (0.05, 0.1, 0.5, 1)] == [None, 200, 150, 100]
    assert learned_at(shown[:6], 0.1) is learned_at([], 1.0) is None
    for goes_on, ends, dropped in (
        (False, [200, 205, 250], 5),
        (True, [150, 180, 200, 205, 250], 0),
    ):
        lowered = []
        learned = Learned(0.5, lowered.append, goes_on)
        ended = [step for n, step in enumerate(losses, 1) if learned.ended(shown[:n])]
        assert (ended, lowered.count(True)) == (ends, len(losses) if goes_on else dropped)


@pytest.mark.parametrize(
    ("trials", "best"),
    [
        # most right, among equals the least loss
        (
            [(0.5, 0.1), (0.7, 0.9), (0.7, 0.8), (0.6, 0.0)],
            2,
        ),
        ([None, (0.5, 0.1), (0.7, 0.8), None], 2),  # those that diverged are passed over
        ([(0.4, None), (0.3, None), (0.4, None)], 0),  # without a loss the first of equals
    ],
)
def test_the_best_trial_is_chosen(trials, best):
    made = [{"diverged": True} if trial is None else {"held_out_map": trial[0]} for trial in trials]
    for record, trial in zip(made, trials):
        record.update(
            {"held_out_loss": trial[1]} if trial and trial[1] is not None else {}, chosen=False
        )
    assert choose(made, "held_out_map") == best
    assert [i for i, record in enumerate(made) if record["chosen"]] == [best]
