import pytest
import tensorflow as tf

from cpc_tf.training.schedules import Schedule, warm_up


def rates(schedule, steps):
    return [float(schedule(tf.constant(step, tf.int64))) for step in steps]


def test_constant_rate():
    assert rates(warm_up(4e-4, "constant", 0, 100), [0, 50, 10**6]) == pytest.approx([4e-4] * 3)


def test_warm_up_is_linear_and_ends_at_the_rate():
    assert rates(warm_up(1.0, "constant", 10, 100), [0, 4, 9, 10]) == pytest.approx([0.1, 0.5, 1.0, 1.0])


def test_cosine_goes_to_zero_at_the_end():
    schedule = warm_up(1.0, "cosine", 10, 100)
    assert rates(schedule, [0, 10, 55, 100, 200]) == pytest.approx([0.1, 1.0, 0.5, 0.0, 0.0], abs=1e-6)


def test_each_drop_is_to_a_tenth():
    schedule = Schedule(2.0, warmup_steps=4, drops=(10, 20.5))
    assert rates(schedule, [0, 3, 9, 10, 20, 21]) == pytest.approx([0.5, 2.0, 2.0, 0.2, 0.2, 0.02])


def test_its_numbers_are_its_settings():
    schedule = Schedule(2.0, 4, 30, (10.0,))
    assert rates(Schedule.from_config(schedule.get_config()), range(0, 30, 7)) == rates(schedule, range(0, 30, 7))
