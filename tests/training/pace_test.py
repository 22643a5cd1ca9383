"""The seconds of a step, from a program with known times."""

import pytest

from cpc_tf.core.settings import ConfigError
from cpc_tf.training import pace

PROGRAM = "tests.training.paced_program"


@pytest.mark.parametrize(("clock", "seconds"), [(pace.WALL, 0.3 + 0.25), (pace.CPU, 0.6 + 1.0)])
def test_compilation_is_left_out_and_work_between_epochs_counts(clock, seconds):
    # From the second record to the last one there are 20 steps in 6 s.
    assert pace.seconds_of_step(PROGRAM, [], clock) == pytest.approx(seconds)


def test_error_of_the_trial_is_told():
    with pytest.raises(ConfigError, match="the trial of a few steps failed: .*--fail=yes"):
        pace.seconds_of_step(PROGRAM, ["--fail=yes"])
