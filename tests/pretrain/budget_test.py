"""`--minutes`: the length that fits, and that a resumed run keeps."""

import pytest

from cpc_tf.core.settings import ConfigError, replace, to_flagfile
from cpc_tf.pretrain import budget
from tests.pretrain.tiny import TINY


@pytest.fixture
def half_a_second(monkeypatch):
    monkeypatch.setattr(budget.pace, "seconds_of_step", lambda *_: 0.5)


@pytest.mark.usefixtures("half_a_second")
def test_minutes_become_steps(tmp_path):
    config = budget.with_steps(replace(TINY, workdir=f"{tmp_path}/run", minutes=2.0))
    assert (config.training.train_steps, config.minutes) == (240, 0.0)


@pytest.mark.usefixtures("half_a_second")
def test_resumed_run_keeps_its_length(tmp_path):
    begun = replace(TINY, workdir=str(tmp_path), train_steps=7)
    (tmp_path / "run.flags").write_text(to_flagfile(begun))
    assert budget.with_steps(replace(begun, minutes=2.0)) == begun


def test_several_processes_are_refused(tmp_path):
    config = replace(TINY, workdir=str(tmp_path), minutes=2.0, strategy="multiworker")
    with pytest.raises(ConfigError, match="--minutes=2.0: .*--train_steps"):
        budget.with_steps(config)
